"""Which parameters decay and at which rate, AdamW against its equation, clipping against its own."""

import numpy as np
import pytest
import recipes
import torch
from builders import CATALOGUE

from ablate.train.optimizer import build_optimizer, clip_gradients, gradient_norm, set_rates

pytestmark = pytest.mark.fast

DECAYS = ("weights", "embedding", "head")


def settings(**changes):
    return recipes.adamw(**{"betas": (0.9, 0.99), **changes})


def groups_by_name(model, adamw):
    addresses = {id(p): name for name, p in model.named_parameters()}
    return {
        (group["name"], group["weight_decay"] > 0): {addresses[id(p)] for p in group["params"]}
        for group in recipes.parameter_groups(model, adamw)
    }


def test_only_matrices_decay(build):
    decays = {address: decay for address, _, decay in recipes.decaying(build(), DECAYS)}
    part = [f"layers.{i}." for i in (1, 2)]
    weights = ["attention.query", "attention.key", "attention.value", "mlp.up", "mlp.down"]
    expected = {f"{layer}{weight}.weight" for layer in part for weight in weights} | {"embedding.weight", "head.weight"}
    assert {address for address, decay in decays.items() if decay} == expected
    assert decays["positions.weight"] is False  # a table, though a matrix by shape
    assert decays["layers.1.mlp_gain.factor"] is False


def test_a_gain_never_decays_whatever_its_shape(build):
    model = build()
    for shape, address in [((2, 1, 1), "layers.1.mlp_gain.factor"), ((2, 2), "layers.2.mlp_gain.factor")]:
        model.get_submodule(address.rpartition(".")[0]).factor = torch.nn.Parameter(torch.ones(shape))
        assert {a: d for a, _, d in recipes.decaying(model, DECAYS)}[address] is False
    model.layers["1"].mlp.up.extra = torch.nn.Parameter(torch.ones(2, 2))  # the same shape, but not a gain
    assert {a: d for a, _, d in recipes.decaying(model, DECAYS)}["layers.1.mlp.up.extra"] is True


def test_each_parameter_is_in_one_group_and_a_frozen_one_in_none(build):
    model = build()
    model.layers["1"].mlp.up.weight.requires_grad_(False)
    placed = [p for group in recipes.parameter_groups(model, settings(embedding_lr=1e-3)) for p in group["params"]]
    assert len(placed) == len({id(p) for p in placed}) == len(list(model.parameters())) - 1


def test_embeddings_have_a_rate_of_their_own_where_one_is_set(build):
    model = build()
    split = groups_by_name(model, settings(embedding_lr=1e-3))
    assert split["embedding", True] == {"embedding.weight", "head.weight"}
    assert split["embedding", False] == {"positions.weight"}
    assert set(groups_by_name(model, settings())) == {("weights", True), ("weights", False)}
    optimizer = build_optimizer(model, recipes.chosen(settings(embedding_lr=1e-3)), CATALOGUE)
    assert set_rates(optimizer, 0.5) == {"weights": 5e-3, "embedding": 5e-4}
    assert {g["name"]: g["lr"] for g in optimizer.param_groups} == {"weights": 5e-3, "embedding": 5e-4}


def test_the_head_has_a_rate_of_its_own_where_one_is_set(build):
    model = build()
    split = groups_by_name(model, settings(embedding_lr=1e-3, head_lr=2e-3, norm_lr=3e-3))
    assert split["head", True] == {"head.weight"} and split["embedding", True] == {"embedding.weight"}
    assert {"layers.1.attention_norm.bias", "layers.1.mlp.up.bias", "layers.1.mlp_gain.factor"} < split["norms", False]
    optimizer = build_optimizer(model, recipes.chosen(settings(head_lr=2e-3, norm_lr=3e-3)), CATALOGUE)
    assert set_rates(optimizer, 0.5) == {"weights": 5e-3, "head": 1e-3, "norms": 1.5e-3}


def test_a_tied_head_follows_the_embedding(build):
    model = build()
    model.head.weight = model.embedding.weight
    split = groups_by_name(model, settings(embedding_lr=1e-3, head_lr=2e-3))
    assert split["embedding", True] == {"embedding.weight"} and ("head", True) not in split


def adamw(theta, gradients, rates, weight_decay, betas=(0.9, 0.99), eps=1e-8):
    """The equations of the module, step by step."""
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        step = (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        theta = theta - rate * weight_decay * theta - rate * step
    return theta


def test_updates_are_those_of_the_equation(build):
    model = build(dtype=torch.float64)
    start = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    optimizer = build_optimizer(model, recipes.chosen(settings(embedding_lr=1e-3)), CATALOGUE)
    random = np.random.default_rng(0)
    gradients = {name: [random.normal(size=p.shape) for _ in range(4)] for name, p in start.items()}
    shares = [0.5, 1.0, 0.75, 0.25]
    for step, share in enumerate(shares):
        set_rates(optimizer, share)
        for name, p in model.named_parameters():
            p.grad = torch.from_numpy(gradients[name][step]).clone()
        optimizer.step()
    decays = {address: decay for address, _, decay in recipes.decaying(model, DECAYS)}
    for name, p in model.named_parameters():
        peak = 1e-3 if name.startswith(("embedding", "positions", "head")) else 1e-2
        rates = [share * peak for share in shares]
        expected = adamw(start[name], gradients[name], rates, 0.1 if decays[name] else 0.0)
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-11, atol=1e-13, err_msg=name)
        other = adamw(start[name], gradients[name], rates, 0.0 if decays[name] else 0.1)
        assert not np.allclose(expected, other, rtol=1e-8, atol=0) or not start[name].any()  # decay can be told


@pytest.mark.parametrize("clip", [0.1, 1e6, None])
def test_clipping_is_its_equation_and_the_norm_is_of_before(build, clip):
    model = build(dtype=torch.float64)
    random = np.random.default_rng(0)
    gradients = {name: random.normal(size=p.shape) for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        p.grad = torch.from_numpy(gradients[name]).clone()
    norm = gradient_norm(model)
    clip_gradients(model, clip, norm)
    expected = np.sqrt(sum(np.sum(g**2) for g in gradients.values()))
    assert norm.item() == pytest.approx(expected, rel=1e-12)
    factor = 1.0 if clip is None else min(1.0, clip / (expected + 1e-6))
    for name, p in model.named_parameters():
        np.testing.assert_allclose(p.grad.numpy(), factor * gradients[name], rtol=1e-12)
    assert (factor < 1) == (clip == 0.1)
