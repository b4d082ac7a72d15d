"""What released code does otherwise: which kinds decay, when, where eps is added, and rates of single parts."""

import io

import numpy as np
import pytest
import torch
from builders import CATALOGUE, architecture, node, pre_ln
from recipes import adamw, chosen, decaying, parameter_groups
from torch import nn

from ablate.compiler import compile_model
from ablate.space.recipe import PARAMETER_KINDS
from ablate.train.optimizer import build_optimizer, set_rates
from ablate.train.optimizers.adamw import OrderedAdamW

pytestmark = pytest.mark.fast

ORDERS = [(e, d) for e in ("after_correction", "before_correction") for d in ("before_update", "after_update")]
SHARES = [0.0, 0.5, 1.0, 0.75, 0.25]


def settings(**changes):
    return adamw(**{"betas": (0.9, 0.99), "eps": 1e-2, **changes})  # large, so that where it is added shows


def updated(theta, gradients, *, eps_when, decay_when, rates, decay=0.1, betas=(0.9, 0.99), eps=1e-2):
    """The two orders, written out from the papers' algorithms."""
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        if eps_when == "after_correction":
            move = rate * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        else:
            move = rate * np.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t) * m / (np.sqrt(v) + eps)
        if decay_when == "before_update":
            theta = theta - rate * decay * theta - move
        else:
            theta = theta - move
            theta = theta - rate * decay * theta
    return theta


def trained(model, wanted, gradients, *, steps):
    """The parameters after some steps over given gradients, and the optimiser."""
    optimizer = build_optimizer(model, chosen(wanted), CATALOGUE)
    for step in steps:
        set_rates(optimizer, SHARES[step])
        for name, p in model.named_parameters():
            p.grad = torch.from_numpy(gradients[name][step]).to(p.dtype)
        optimizer.step()
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}, optimizer


def random_gradients(model):
    random = np.random.default_rng(0)
    return {name: [random.normal(size=p.shape) for _ in SHARES] for name, p in model.named_parameters()}


@pytest.mark.parametrize(("eps_when", "decay_when"), ORDERS)
def test_every_order_is_its_equation(build, eps_when, decay_when):
    model = build(dtype=torch.float64)
    start = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    gradients = random_gradients(model)
    wanted = settings(eps_when=eps_when, decay_when=decay_when)
    actual, optimizer = trained(model, wanted, gradients, steps=range(5))
    assert isinstance(optimizer, torch.optim.AdamW) == ((eps_when, decay_when) == ORDERS[0])
    name = "layers.1.mlp.up.weight"
    rates = [1e-2 * share for share in SHARES]
    expected = updated(start[name], gradients[name], eps_when=eps_when, decay_when=decay_when, rates=rates)
    np.testing.assert_allclose(actual[name], expected, rtol=1e-12, atol=1e-14)
    for other in set(ORDERS) - {(eps_when, decay_when)}:  # each of the others would show
        wrong = updated(start[name], gradients[name], eps_when=other[0], decay_when=other[1], rates=rates)
        assert np.abs(wrong - expected).max() > 1e-9
    spared = "layers.1.mlp_gain.factor"
    kept = updated(start[spared], gradients[spared], eps_when=eps_when, decay_when=decay_when, rates=rates, decay=0.0)
    np.testing.assert_allclose(actual[spared], kept, rtol=1e-12)


def test_our_order_of_pytorchs_operations_is_pytorchs(build):
    """The optimiser of the other orders, at PyTorch's own, against PyTorch."""
    models = [build(dtype=torch.float64) for _ in range(2)]
    gradients = random_gradients(models[0])
    common = {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.1}
    ours = OrderedAdamW(models[0].parameters(), **common, eps_first=False, decay_last=False)
    for model, optimizer in zip(models, (ours, torch.optim.AdamW(models[1].parameters(), **common)), strict=True):
        for step in range(5):
            for name, p in model.named_parameters():
                p.grad = torch.from_numpy(gradients[name][step])
            optimizer.step()
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("eps_when", "decay_when"), ORDERS)
def test_the_state_goes_on_to_the_same_bits(build, eps_when, decay_when, dtype):
    wanted = settings(eps_when=eps_when, decay_when=decay_when, embedding_lr=1e-3)
    whole, half = build(dtype=dtype), build(dtype=dtype)
    gradients = random_gradients(whole)
    expected, _ = trained(whole, wanted, gradients, steps=range(5))
    _, optimizer = trained(half, wanted, gradients, steps=range(2))
    buffer = io.BytesIO()
    torch.save((half.state_dict(), optimizer.state_dict()), buffer)
    buffer.seek(0)
    resumed = build(seed=9, dtype=dtype)
    states = torch.load(buffer, weights_only=True)
    resumed.load_state_dict(states[0])
    again = build_optimizer(resumed, chosen(wanted), CATALOGUE)
    again.load_state_dict(states[1])
    for step in range(2, 5):
        set_rates(again, SHARES[step])
        for name, p in resumed.named_parameters():
            p.grad = torch.from_numpy(gradients[name][step]).to(dtype)
        again.step()
    for name, p in resumed.named_parameters():
        np.testing.assert_array_equal(p.detach().numpy(), expected[name], err_msg=name)


KINDS = {
    "embedding.weight": "embedding",
    "positions.weight": "positions",
    "head.weight": "head",
    "final_norm.weight": "scales",
    "final_norm.bias": "biases",
    "layers.1.attention.query.weight": "weights",
    "layers.1.attention_norm.weight": "scales",
    "layers.1.mlp.up.bias": "biases",
    "layers.1.mlp_gain.factor": "gains",
    "layers.2.attention_gain.factor": "gains",
}


@pytest.mark.parametrize("kind", PARAMETER_KINDS)
def test_each_kind_can_be_chosen_alone(build, kind):
    decays = {address: decay for address, _, decay in decaying(build(), (kind,))}
    assert {address: decays[address] for address in KINDS} == {a: k == kind for a, k in KINDS.items()}


def test_every_kind_together_is_every_parameter(build):
    assert all(decay for _, _, decay in decaying(build(), PARAMETER_KINDS))
    assert not any(decay for _, _, decay in decaying(build(), ()))


def test_the_kinds_are_the_same_recipe_in_any_order():
    assert settings(decays=["head", "weights", "head"]) == settings(decays=("weights", "head"))


class Slow(nn.Linear):
    def __init__(self, multiple):
        super().__init__(3, 3)
        self.rates = {"weight": multiple}


def test_a_part_may_learn_at_a_multiple_of_the_rate(build):
    model = build(dtype=torch.float64)
    model.layers["1"].mlp.between, model.head = Slow(0.25).double(), Slow(0.5).double()
    start = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    gradients = random_gradients(model)
    actual, optimizer = trained(model, settings(embedding_lr=1e-3), gradients, steps=range(5))
    peaks = {"layers.1.mlp.between.weight": 0.25e-2, "layers.1.mlp.up.weight": 1e-2, "head.weight": 0.5e-3}
    for name, peak in peaks.items():
        rates = [peak * share for share in SHARES]
        order = {"eps_when": "after_correction", "decay_when": "before_update"}
        expected = updated(start[name], gradients[name], rates=rates, **order)
        np.testing.assert_allclose(actual[name], expected, rtol=1e-12, atol=1e-14, err_msg=name)
    bias = "layers.1.mlp.between.bias"  # it asks for nothing
    expected = updated(start[bias], gradients[bias], rates=[1e-2 * share for share in SHARES], decay=0.0, **order)
    np.testing.assert_allclose(actual[bias], expected, rtol=1e-12)
    assert set_rates(optimizer, 0.5) == {"weights": 5e-3, "embedding": 5e-4}  # what is reported is the recipe's rate


def test_dense_asks_for_its_matrix_alone():
    slow = node("dense", rate="4/width", bias=True)
    model = compile_model(architecture(pre_ln(mlp=node("mlp", up=slow))), CATALOGUE)
    addresses = {id(p): name for name, p in model.named_parameters()}
    groups = parameter_groups(model, settings())
    placed = {addresses[id(p)]: group["multiple"] for group in groups for p in group["params"]}
    assert {name for name, multiple in placed.items() if multiple != 1} == {
        f"layers.{layer}.mlp.up.weight" for layer in (1, 2)
    }
    assert placed["layers.1.mlp.up.weight"] == 0.25
