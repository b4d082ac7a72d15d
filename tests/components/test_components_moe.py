"""A mixture of experts against float64: by NumPy, and by a loop that computes every expert for every token."""

import copy
import pickle

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, sequence

from ablate.block.address import name_parts
from ablate.block.equation import equation
from ablate.block.expression import Size
from ablate.compiler import compile_block, size_report
from ablate.components.declare import ActsAfterStep, OffersLosses
from ablate.errors import InputError
from ablate.plan.size import cost
from ablate.train.loss import acting, offering
from ablate.train.optimizer import parameter_kinds

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 12, 16))
N, E = 36, 5

FORMS = [
    {"active": 1.0, "normalised": False, "shared": 0.0},
    {"active": 2.0, "normalised": True, "shared": 1.0},
    {"active": 2.0, "normalised": False, "shared": 2.0, "gate": "dense", "score": "sigmoid"},
    {"active": 3.0, "normalised": True, "shared": 0.0, "score": "sigmoid", "bias_rate": 0.01},
    {"active": 5.0, "normalised": False, "shared": 0.0},
]


def moe(**fields):
    plain = {"experts": float(E), "hidden": Size(units=8), "activation": "silu", "shared": 0.0, "bias_rate": 0.0}
    return node("moe", **{**plain, **fields})


def built(seed=0, dtype=torch.float64, **fields):
    """A block of nothing but a mixture; a bias of experts that matters, where there is one."""
    block = sequence(moe(**fields))
    model = compile_block(block, SIZES, CATALOGUE, init=default_init(), dtype=dtype, seed=seed)
    if model.mlp.bias is not None:
        model.mlp.bias += torch.tensor([0.4, -0.3, 0.2, 0.0, -0.1], dtype=dtype)
    return model


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def expert(x, w, name):
    hidden = x @ w[f"mlp.{name}.up.weight"].T
    hidden = hidden * sigmoid(hidden)
    if f"mlp.{name}.gate.weight" in w:
        hidden = hidden * (x @ w[f"mlp.{name}.gate.weight"].T)
    return hidden @ w[f"mlp.{name}.down.weight"].T


def routed(x, w, active, score, bias):
    """Logits, scores and choices, one token after the other."""
    logits = x @ w["mlp.router.weight"].T
    scores = sigmoid(logits)
    if score == "softmax":
        scores = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = [sorted(range(E), key=lambda e: -(scores[n, e] + bias[e]))[:active] for n in range(len(x))]
    return logits, scores, chosen


def by_numpy(model, active, normalised, shared, score="softmax", **_):
    w = {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}
    bias = np.zeros(E) if model.mlp.bias is None else model.mlp.bias.numpy()
    x = X.reshape(N, 16)
    logits, scores, chosen = routed(x, w, int(active), score, bias)
    y = np.zeros_like(x)
    for n in range(N):
        whole = sum(scores[n, e] for e in chosen[n]) if normalised else 1.0
        for e in chosen[n]:
            y[n] += scores[n, e] / whole * expert(x[n], w, f"experts.{e}")
        for s in range(int(shared)):
            y[n] += expert(x[n], w, f"shared.{s}")
    return y.reshape(X.shape), logits, scores, chosen


@pytest.mark.parametrize("form", FORMS)
def test_the_output(form):
    model = built(**form)
    expected, _, _, chosen = by_numpy(model, **form)
    np.testing.assert_allclose(model(torch.from_numpy(X)).detach().numpy(), expected, rtol=1e-10, atol=1e-12)
    assert len({e for few in chosen for e in few}) == E  # every expert has a part in it


def test_the_bias_chooses_and_weighs_nothing():
    """Other experts than without it, by scores without it; with it in the scores the output would be another."""
    form = FORMS[3]
    model = built(**form)
    _, _, scores, chosen = by_numpy(model, **form)
    best = [sorted(range(E), key=lambda e: -scores[n, e])[:3] for n in range(N)]
    assert sum(set(a) != set(b) for a, b in zip(chosen, best, strict=True)) > 5
    model.mlp.bias.zero_()
    other, *_ = by_numpy(model, **form)
    np.testing.assert_allclose(model(torch.from_numpy(X)).detach().numpy(), other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_losses(form):
    model = built(balance=0.3, z=0.2, **form)
    _, logits, scores, chosen = by_numpy(model, **form)
    model(torch.from_numpy(X))
    found = model.mlp.losses()
    counts = np.array([sum(e in few for few in chosen) for e in range(E)])
    probability = (scores / scores.sum(-1, keepdims=True)).mean(0)
    balance = 0.3 * E * sum(counts[e] / counts.sum() * probability[e] for e in range(E))
    z = 0.2 * np.mean(np.log(np.exp(logits).sum(-1)) ** 2)
    assert {name: loss.item() for name, loss in found.items()} == pytest.approx({"balance": balance, "z": z}, rel=1e-10)
    assert model.mlp.load.tolist() == counts.tolist()


def dense(model, x, active, normalised, shared, score="softmax", **_):
    """The same by every expert on every token, most of them times 0: for gradients; with the losses of 0.3 and 0.2."""
    layer, tokens = model.mlp, x.reshape(N, 16)
    logits = tokens @ layer.router.weight.T
    scores = torch.sigmoid(logits) if score == "sigmoid" else torch.softmax(logits, -1)
    preferred = scores if layer.bias is None else scores + layer.bias
    threshold = preferred.sort(-1, descending=True).values[:, int(active) - 1 : int(active)]
    mask = (preferred >= threshold).double()
    gains = mask * scores
    if normalised:
        gains = gains / gains.sum(-1, keepdim=True)
    every = [*layer.experts, *layer.shared]
    gains = torch.cat((gains, torch.ones(N, int(shared), dtype=torch.float64)), 1)
    y = sum(gains[:, e : e + 1] * one(tokens) for e, one in enumerate(every))
    shares = mask.sum(0) / mask.sum()
    balance = 0.3 * E * (shares * (scores / scores.sum(-1, keepdim=True)).mean(0)).sum()
    return y.reshape(X.shape), balance + 0.2 * logits.exp().sum(-1).log().square().mean()


@pytest.mark.parametrize("form", FORMS)
def test_the_gradients_of_output_and_losses(form):
    model = built(balance=0.3, z=0.2, **form)
    x, probe = torch.from_numpy(X).requires_grad_(), torch.from_numpy(RNG.normal(size=X.shape))
    leaves = [x, *model.parameters()]
    y = model(x)
    found = torch.autograd.grad((y * probe).sum() + sum(model.mlp.losses().values()), leaves)
    other, losses = dense(model, x, **form)
    expected = torch.autograd.grad((other * probe).sum() + losses, leaves)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    alone = torch.autograd.grad((dense(model, x, **form)[0] * probe).sum(), list(model.mlp.router.parameters()))
    router = found[1 + [name for name, _ in model.named_parameters()].index("mlp.router.weight")]
    assert (router - alone[0]).abs().max() > 1e-3  # the losses do have a gradient


def test_the_balance_is_its_weight_where_experts_are_equally_likely():
    model = built(balance=0.3, z=0.2, active=2.0)
    with torch.no_grad():
        model.mlp.router.weight.zero_()
    model(torch.from_numpy(X))
    losses = model.mlp.losses()
    assert losses["balance"].item() == pytest.approx(0.3)
    assert losses["z"].item() == pytest.approx(0.2 * np.log(E) ** 2)


def test_losses_without_a_weight_are_none():
    model = built(balance=0.0, z=0.0)
    model(torch.from_numpy(X))
    assert model.mlp.losses() == {}
    assert model.mlp.load is not None


def test_after_a_step_the_bias_moves_towards_the_experts_with_less():
    model = built(bias_rate=0.01, active=2.0)
    before = model.mlp.bias.clone()
    loads = np.zeros(E, dtype=int)
    for part in torch.from_numpy(X).split(1):  # microbatches of a step
        model(part)
        model.mlp.losses()
        _, _, _, chosen = by_numpy(model, 2.0, True, 0.0)
    loads = np.array([sum(e in few for few in chosen) for e in range(E)])
    assert model.mlp.load.tolist() == loads.tolist()
    elsewhere = torch.tensor([3, 0, 1, 0, 2])  # what another rank counted
    with torch.no_grad():
        readings = model.mlp.after_step(lambda counted: counted + elsewhere)
    loads = loads + elsewhere.numpy()
    moved = (model.mlp.bias - before).numpy()
    np.testing.assert_allclose(moved, 0.01 * np.sign(loads.mean() - loads), atol=1e-12)
    assert len(set(moved.round(6))) > 1
    assert {name: number.item() for name, number in readings.items()} == pytest.approx(
        {"largest_load": loads.max() / loads.sum(), "smallest_load": loads.min() / loads.sum()}
    )
    assert model.mlp.load is None
    assert model.mlp.after_step(lambda counted: counted) == {}


def test_an_equal_load_moves_nothing():
    model = built(bias_rate=0.01)
    before = model.mlp.bias.clone()
    model.mlp.load = torch.full((E,), 7)
    model.mlp.after_step(lambda counted: counted)
    assert torch.equal(model.mlp.bias, before)


@pytest.mark.parametrize("how", ["eval", "no_grad"])
def test_nothing_is_kept_outside_training(how):
    model = built(balance=0.3)
    if how == "eval":
        model.eval()(torch.from_numpy(X))
    else:
        with torch.no_grad():
            model(torch.from_numpy(X))
    assert model.mlp.losses() == {}
    assert model.mlp.load is None


def test_losses_are_handed_out_once_and_are_in_no_copy():
    model = built(balance=0.3)
    model(torch.from_numpy(X))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.mlp.losses() == {}
    assert set(model.mlp.losses()) == {"balance", "z"}
    assert model.mlp.losses() == {}


def test_it_is_found_by_what_it_offers():
    model = built()
    assert isinstance(model.mlp, OffersLosses)
    assert isinstance(model.mlp, ActsAfterStep)
    assert [address for address, _ in offering(model)] == [address for address, _ in acting(model)] == ["mlp"]
    other = compile_block(sequence("mlp"), SIZES, CATALOGUE, init=default_init())
    assert offering(other) == acting(other) == ()


def test_a_mixture_has_the_address_of_an_mlp_and_more_experts_share_the_first():
    few, many = (built(experts=float(n), seed=3).state_dict() for n in (5, 8))
    shared = [name for name in few if name.startswith("mlp.experts")]
    assert len(shared) == 10
    assert all(torch.equal(few[name], many[name]) for name in shared)
    assert not torch.equal(few["mlp.experts.0.up.weight"], few["mlp.experts.1.up.weight"])
    names = [[name for _, name in name_parts(sequence("rms_norm", part), CATALOGUE)] for part in ("mlp", moe())]
    assert names[0] == names[1] == ["mlp_norm", "mlp"]


def test_every_expert_is_matrices():
    """What an optimiser of matrices updates."""
    kinds = {(kind, tensor.ndim) for _, tensor, kind in parameter_kinds(built())}
    assert kinds == {("weights", 2)}


@pytest.mark.parametrize(
    "fields",
    [
        {"experts": 7.0, "active": 3.0, "shared": 2.0, "gate": "dense"},
        {"experts": 3.0, "active": 1.0, "up": node("frozen", init="orthogonal")},
        {"experts": 6.0, "active": 6.0, "down": node("dense", bias=True), "router": node("dense", bias=True)},
    ],
)
def test_its_size_in_closed_form(fields):
    model = architecture(sequence(moe(**fields)))
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


def test_an_active_expert_costs_what_an_mlp_costs_and_others_only_parameters():
    one = cost(architecture(sequence(node("mlp", hidden=Size(units=8)))), CATALOGUE)
    flops = {}
    for experts in (4, 8):
        flops[experts] = cost(architecture(sequence(moe(experts=float(experts), active=1.0))), CATALOGUE)
    router = 2 * SIZES.seq_len * SIZES.d_model * SIZES.n_layers
    assert flops[8].flops - flops[4].flops == 4 * router
    assert flops[4].flops == one.flops + 4 * router
    assert flops[8].parameters - flops[4].parameters == 4 * SIZES.n_layers * (16 * 8 * 2 + 16)


def test_more_choices_than_experts_are_refused():
    for refused in (
        lambda: cost(architecture(sequence(moe(active=6.0))), CATALOGUE),
        lambda: built(active=6.0),
    ):
        with pytest.raises(InputError, match="6 experts are active of 5\n  = choose as many"):
            refused()


def test_the_router_is_in_float32_under_autocast():
    model = built(dtype=torch.float32)
    x = torch.from_numpy(X).float()
    expected = model.mlp.logits(x.flatten(0, 1))
    with torch.autocast("cpu", torch.bfloat16):
        found = model.mlp.logits(x.flatten(0, 1))
        assert model.mlp.router(x).dtype == torch.bfloat16  # elsewhere it would not be
        y = model(x)
    assert torch.equal(found, expected)
    assert y.dtype == torch.bfloat16
    y.float().square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_an_expert_that_no_token_chooses_has_a_gradient_of_zero():
    model = built(active=1.0, bias_rate=0.01)
    model.mlp.bias[2] = -10.0
    model(torch.from_numpy(X)).sum().backward()
    assert not model.mlp.experts[2].up.weight.grad.any()
    assert model.mlp.experts[0].up.weight.grad.any()


def test_its_equation():
    text = equation(sequence(moe(shared=2.0, gate="dense", bias_rate=0.1)), SIZES, CATALOGUE).text
    assert "MoE(X) = Σ_(e ∈ K) g_e f_e(X) + Σ_s f_s(X),  s = 1 … 2" in text
    assert "r = softmax(X W^R) over 5 experts,  K: the 2 of largest r + b,  g_e = r_e" in text
    assert "f_e(X) = (SiLU(X W^U_e) ⊙ X W^G_e) W^D_e" in text
