"""Every optimiser against its equations, written out here in NumPy, and on from a checkpoint to the same bits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import recipes
import torch
from builders import CATALOGUE, architecture, node, sequence
from pydantic import ValidationError
from torch import nn

from ablate.compiler import compile_model
from ablate.compiler.initialise import TrainingStreams
from ablate.extension.loader import implementation
from ablate.space.recipe import PARAMETER_KINDS, OptimizerSpec
from ablate.train.checkpoint import TrialProgress, load_state, save_state
from ablate.train.divergence import Diverged
from ablate.train.optimizer import build_optimizer, parameter_kinds, set_rates, trained_parameters
from ablate.train.optimizers.declare import Trained

pytestmark = pytest.mark.fast

STEPS = 20
COMMON = {"lr": 3e-2, "embedding_lr": None, "weight_decay": 0.1, "decays": ["weights"]}
SETTINGS = {
    "adam": {"betas": [0.9, 0.98], "eps": 1e-6},
    "adamw": {"betas": [0.9, 0.98], "eps": 1e-6, "eps_when": "after_correction", "decay_when": "before_update"},
    "sgd": {"momentum": 0.9, "dampening": 0.2, "nesterov": False},
    "lion": {"betas": [0.8, 0.95]},
    "muon": {
        "momentum": 0.9, "nesterov": True, "iterations": 5, "scale": "match_rms_adamw", "adamw_lr": 1e-2,
        "betas": [0.9, 0.98], "eps": 1e-6,
    },
    "soap": {"betas": [0.9, 0.95], "eps": 1e-6, "precondition_frequency": 3, "max_precond_dim": 8},
}  # fmt: skip


def settings(name, **changes):
    return CATALOGUE.of_kind(OptimizerSpec)[name].read({**COMMON, **SETTINGS[name], **changes})


def shares():
    return [0.5 + 0.5 * math.cos(step) ** 2 for step in range(STEPS)]


def gradients(shape):
    """Near one direction, so that momenta differ from single gradients, and of full rank."""
    random = np.random.default_rng(3)
    return [random.normal(size=shape) + 0.5 for _ in range(STEPS)]


class Holder(nn.Module):
    def __init__(self, start, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(start, dtype=dtype))


def started(name, start, chosen, *, kind="weights", dtype=torch.float64, multiple=1.0):
    model = Holder(start, dtype)
    decay = chosen.weight_decay if kind in chosen.decays else 0.0
    trained = Trained(model.weight, "weight", kind, "weights", chosen.lr, multiple, decay, model.weight.ndim == 2)
    return model, implementation(CATALOGUE.of_kind(OptimizerSpec)[name])([trained], chosen)


def go_on(model, optimizer, steps, grads):
    for step in steps:
        set_rates(optimizer, shares()[step])
        model.weight.grad = torch.tensor(grads[step], dtype=model.weight.dtype)
        optimizer.step()


def updated(name, shape, chosen, **options):
    start = np.random.default_rng(1).normal(size=shape)
    model, optimizer = started(name, start, chosen, **options)
    go_on(model, optimizer, range(STEPS), gradients(shape))
    return start, model.weight.detach().numpy()


def adam(theta, grads, rates, betas, eps, *, decoupled=0.0, penalty=0.0):
    m = v = np.zeros_like(theta)
    for t, (g, rate) in enumerate(zip(grads, rates, strict=True), start=1):
        g = g + penalty * theta
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        theta = theta - rate * decoupled * theta
        theta = theta - rate * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return theta


def sgd(theta, grads, rates, momentum, dampening, nesterov, penalty):
    buffer = None
    for g, rate in zip(grads, rates, strict=True):
        g = g + penalty * theta
        buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
        theta = theta - rate * (g + momentum * buffer if nesterov else buffer)
    return theta


def lion(theta, grads, rates, betas, decay):
    m = np.zeros_like(theta)
    for g, rate in zip(grads, rates, strict=True):
        theta = theta - rate * (np.sign(betas[0] * m + (1 - betas[0]) * g) + decay * theta)
        m = betas[1] * m + (1 - betas[1]) * g
    return theta


def muon(theta, grads, rates, momentum, nesterov, iterations, scale, decay, coefficients=(3.4445, -4.7750, 2.0315)):
    """By singular values: the iteration changes them alone, each by the odd polynomial a s + b s³ + c s⁵."""
    a, b, c = coefficients
    buffer = np.zeros_like(theta)
    rows, columns = theta.shape
    size = 0.2 * np.sqrt(max(rows, columns)) if scale == "match_rms_adamw" else np.sqrt(max(1, rows / columns))
    for g, rate in zip(grads, rates, strict=True):
        buffer = momentum * buffer + g
        u, s, vt = np.linalg.svd(g + momentum * buffer if nesterov else buffer, full_matrices=False)
        s = s / (np.sqrt(np.sum(s**2)) + 1e-7)
        for _ in range(iterations):
            s = a * s + b * s**3 + c * s**5
        theta = theta - rate * decay * theta - rate * size * (u * s) @ vt
    return theta


def norm(symmetric):
    return np.sqrt(np.sum(symmetric**2))


def eigenvectors(symmetric):
    """The largest first; those of all small values as the nearest to the units 1, 2, … that there are."""
    values, vectors = np.linalg.eigh(symmetric)
    small = vectors[:, values < 1e-5 * norm(symmetric)]
    units = np.diag(np.linspace(1, 2, len(symmetric)))
    chosen = small @ np.linalg.eigh(small.T @ units @ small)[1] if small.size else small
    return np.hstack([vectors[:, values >= 1e-5 * norm(symmetric)][:, ::-1], chosen[:, ::-1]])


def refreshed(symmetric, basis):
    return np.linalg.qr((symmetric + 1e-5 * norm(symmetric) * np.eye(len(symmetric))) @ basis)[0]


def soap(theta, grads, rates, betas, eps, frequency, decay, *, left=True, right=True, skipped=True):
    """Algorithm 3; of its bases the columns' signs are arbitrary, and cancel."""
    rows, columns = theta.shape
    m = v = np.zeros_like(theta)
    side_l, side_r = (1 - betas[1]) * grads[0] @ grads[0].T, (1 - betas[1]) * grads[0].T @ grads[0]
    q_l = eigenvectors(side_l) if left else np.eye(rows)
    q_r = eigenvectors(side_r) if right else np.eye(columns)
    for t, (g, rate) in enumerate(
        zip(grads[1:] if skipped else grads, rates[1:] if skipped else rates, strict=True), 1
    ):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * (q_l.T @ g @ q_r) ** 2
        n = (q_l.T @ m @ q_r) / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        theta = theta - rate * decay * theta - rate * q_l @ n @ q_r.T
        side_l = betas[1] * side_l + (1 - betas[1]) * g @ g.T
        side_r = betas[1] * side_r + (1 - betas[1]) * g.T @ g
        if t % frequency == 0:
            q_l = refreshed(side_l, q_l) if left else q_l
            q_r = refreshed(side_r, q_r) if right else q_r
    return theta


BETAS, EPS = (0.9, 0.98), 1e-6
# name: settings that differ, shape, kind, the same in NumPy, and the same with one constant wrong
CASES = {
    "adamw": ("adamw", {}, (3, 4), "weights",
              lambda *a: adam(*a, BETAS, EPS, decoupled=0.1), lambda *a: adam(*a, BETAS, EPS, penalty=0.1)),
    "adam": ("adam", {}, (3, 4), "weights",
             lambda *a: adam(*a, BETAS, EPS, penalty=0.1), lambda *a: adam(*a, (0.9, 0.9801), EPS, penalty=0.1)),
    "sgd": ("sgd", {}, (3, 4), "weights",
            lambda *a: sgd(*a, 0.9, 0.2, False, 0.1), lambda *a: sgd(*a, 0.9, 0.0, False, 0.1)),
    "sgd nesterov": ("sgd", {"nesterov": True, "dampening": 0.0}, (5,), "scales",
                     lambda *a: sgd(*a, 0.9, 0.0, True, 0.0), lambda *a: sgd(*a, 0.9, 0.0, False, 0.0)),
    "sgd alone": ("sgd", {"momentum": 0.0, "dampening": 0.0}, (5,), "biases",
                  lambda *a: sgd(*a, 0.0, 0.0, False, 0.0), lambda *a: sgd(*a, 0.01, 0.0, False, 0.0)),
    "lion": ("lion", {}, (3, 4), "weights",
             lambda *a: lion(*a, (0.8, 0.95), 0.1), lambda *a: lion(*a, (0.95, 0.8), 0.1)),
    "muon": ("muon", {}, (3, 5), "weights",
             lambda *a: muon(*a, 0.9, True, 5, "match_rms_adamw", 0.1),
             lambda *a: muon(*a, 0.9, True, 5, "match_rms_adamw", 0.1, (3.4445, -4.7750, 2.0316))),
    "muon original": ("muon", {"scale": "original", "nesterov": False, "iterations": 3}, (6, 3), "weights",
                      lambda *a: muon(*a, 0.9, False, 3, "original", 0.1),
                      lambda *a: muon(*a, 0.9, False, 3, "match_rms_adamw", 0.1)),
    "muon of a table": ("muon", {}, (6, 3), "embedding",
                        lambda *a: adam(*a, BETAS, EPS), lambda *a: muon(*a, 0.9, True, 5, "original", 0.0)),
    "soap": ("soap", {}, (4, 4), "weights",
             lambda *a: soap(*a, (0.9, 0.95), EPS, 3, 0.1), lambda *a: soap(*a, (0.9, 0.95), EPS, 4, 0.1)),
    "soap of few gradients": ("soap", {}, (4, 2), "weights",
                              lambda *a: soap(*a, (0.9, 0.95), EPS, 3, 0.1),
                              lambda *a: soap(*a, (0.9, 0.95), EPS, 4, 0.1)),
    "soap one side": ("soap", {"max_precond_dim": 3}, (3, 4), "head",
                      lambda *a: soap(*a, (0.9, 0.95), EPS, 3, 0.0, right=False),
                      lambda *a: soap(*a, (0.9, 0.95), EPS, 3, 0.0, right=False, skipped=False)),
    "soap of a gain": ("soap", {}, (4, 4), "gains",
                       lambda *a: adam(*a, (0.9, 0.95), EPS), lambda *a: soap(*a, (0.9, 0.95), EPS, 3, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_twenty_updates_are_the_equations(case):
    name, changes, shape, kind, equations, otherwise = CASES[case]
    chosen = settings(name, **changes)
    start, ours = updated(name, shape, chosen, kind=kind)
    peak = chosen.adamw_lr if case == "muon of a table" else chosen.lr
    told = (start, gradients(shape), [peak * share for share in shares()])
    np.testing.assert_allclose(ours, equations(*told), rtol=1e-12, atol=1e-12)
    assert np.abs(ours - otherwise(*told)).max() > 1e-6


RATES = {"lr": 0.1, "embedding_lr": 0.2, "head_lr": 0.3, "norm_lr": 0.4}
OF_KIND = {
    "weights": ("weights", 0.1),
    "embedding": ("embedding", 0.2), "positions": ("embedding", 0.2), "head": ("head", 0.3),
    "scales": ("norms", 0.4), "biases": ("norms", 0.4), "gains": ("norms", 0.4),
}  # fmt: skip


def placed(model, name, **changes):
    """The name and the rate of every kind of parameters, as the groups of a built optimiser have them."""
    chosen = settings(name, **{**RATES, **changes})
    optimizer = build_optimizer(model, recipes.chosen(chosen), CATALOGUE)
    of = {id(p): (group["name"], group["peak"]) for group in optimizer.param_groups for p in group["params"]}
    found = {}
    for _, parameter, kind in parameter_kinds(model):
        assert found.setdefault(kind, of[id(parameter)]) == of[id(parameter)]
    assert set(found) == set(PARAMETER_KINDS)
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_each_kind_has_its_own_rate_or_the_one_that_stands_for_it(build, name):
    model = build()
    assert placed(model, name) == OF_KIND
    assert placed(model, name, head_lr=None) == OF_KIND | {"head": ("embedding", 0.2)}
    others = ("adamw", 0.01) if name == "muon" else ("weights", 0.1)
    vectors = dict.fromkeys(("scales", "biases", "gains"), others)
    assert placed(model, name, norm_lr=None) == OF_KIND | vectors
    tables = dict.fromkeys(("embedding", "positions"), others)
    assert placed(model, name, embedding_lr=None) == OF_KIND | tables
    alone = placed(model, name, embedding_lr=None, head_lr=None, norm_lr=None)
    assert alone == {"weights": ("weights", 0.1), **tables, "head": others, **vectors}


def test_muons_rate_is_that_of_the_rest_where_it_is_written(build):
    own = {"adamw_lr": "lr", "embedding_lr": None, "head_lr": None, "norm_lr": None}
    found = placed(build(), "muon", **own)
    assert found.pop("weights") == ("weights", 0.1) and set(found.values()) == {("adamw", 0.1)}


def deficient(turn=0.0):
    """Gradients [8, 6] of two dimensions, then of all, turned by a small rotation."""
    random = np.random.default_rng(5)
    left, right, skewed = random.normal(size=(8, 2)), random.normal(size=(2, 6)), random.normal(size=(8, 8))
    low = [left @ random.normal(size=(2, 2)) @ right for _ in range(8)]
    full = [random.normal(size=(8, 6)) for _ in range(STEPS - 8)]
    return [g + turn * (skewed - skewed.T) @ g for g in low + full]


@pytest.mark.parametrize("rule", [True, False])
def test_rounding_does_not_choose_the_bases_of_soap(monkeypatch, rule):
    """The twin: without the rule it does."""
    from ablate.train.optimizers import soap

    if not rule:
        monkeypatch.setattr(soap, "_eigenvectors", lambda square: torch.linalg.eigh(square)[1])
        monkeypatch.setattr(soap, "_refreshed", lambda square, basis: torch.linalg.qr(square @ basis)[0])
    start, chosen = np.random.default_rng(1).normal(size=(8, 6)), settings("soap", weight_decay=0.0)

    def moved(turn):
        model, optimizer = started("soap", start, chosen)
        go_on(model, optimizer, range(STEPS), deficient(turn))
        return model.weight.detach().numpy() - start

    plain, turned = moved(0.0), moved(1e-12)
    apart = np.abs(turned - plain).max() / np.abs(plain).max()
    assert apart < 1e-6 if rule else apart > 1e-2


def test_newton_schulz_brings_singular_values_near_one():
    from ablate.train.optimizers.muon import orthogonalised

    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=(12, 7)))
    values = torch.linalg.svdvals(orthogonalised(matrix, 5))
    assert values.min() > 0.65 and values.max() < 1.25
    assert torch.linalg.svdvals(orthogonalised(matrix, 1)).min() < 0.65


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("shape", "kind"), [((3, 5), "weights"), ((5,), "biases")])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_checkpoint_goes_on_to_the_same_bits(name, shape, kind, dtype):
    chosen, grads = settings(name), gradients(shape)
    start = np.random.default_rng(1).normal(size=shape)

    def run(stop):
        model, optimizer = started(name, start, chosen, kind=kind, dtype=dtype)
        go_on(model, optimizer, range(stop), grads)
        return model, optimizer

    whole, _ = run(STEPS)
    half, optimizer = run(7)
    state = save_state("a", half, optimizer, TrainingStreams(0), TrialProgress(7))
    resumed, again = started(name, 0 * start, chosen, kind=kind, dtype=dtype)
    progress = load_state(state, "a", resumed, again, TrainingStreams(0))
    go_on(resumed, again, range(progress.step, STEPS), grads)
    assert torch.equal(resumed.weight, whole.weight)
    fresh = started(name, half.weight.detach().numpy(), chosen, kind=kind, dtype=dtype)
    go_on(*fresh, range(7, STEPS), grads)
    assert not torch.equal(fresh[0].weight, whole.weight)  # the state matters


@pytest.mark.parametrize("power", [-80, 80])
def test_the_bases_of_soap_do_not_depend_on_the_size_of_gradients(power):
    """At either end of float32, where the squares of a square's entries are 0 or infinite."""
    from ablate.train.optimizers.soap import _refreshed

    gradient = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    square, basis = gradient @ gradient.T, torch.eye(6)
    scaled = square * 2.0**power
    assert not 0 < float(scaled.square().sum()) < math.inf
    assert torch.equal(_refreshed(scaled, basis), _refreshed(square, basis))
    assert torch.equal(_refreshed(torch.zeros(6, 6), basis), basis)


@pytest.mark.parametrize("bias", ["t5", "transformer_xl"])
def test_a_table_of_biases_learns_by_adamw_beside_muon_and_soap(bias):
    """The twin: told to be a matrix, it does not."""
    block = sequence(node("attention", bias=node(bias)))
    model = compile_model(architecture(block), CATALOGUE, device="meta")
    every = {each.address: each for each in trained_parameters(model, settings("muon")) if each.kind == "weights"}
    tables = {address for address, each in every.items() if not each.matrix}
    assert {address.rpartition(".")[2] for address in tables} == ({"weight"} if bias == "t5" else {"u", "v"})
    assert tables < set(every) and all(".bias." in address for address in tables)
    for name in ("muon", "soap"):
        build = implementation(CATALOGUE.of_kind(OptimizerSpec)[name])
        flag = {"muon": ("by", "muon"), "soap": ("rotated", True)}[name]
        chosen = settings(name, **({"max_precond_dim": 4096} if name == "soap" else {}))
        for groups, expected in (
            (build(list(every.values()), chosen).param_groups, set(every) - tables),
            (build([replace(each, matrix=True) for each in every.values()], chosen).param_groups, set(every)),
        ):
            held = {id(p) for group in groups if group[flag[0]] == flag[1] for p in group["params"]}
            assert {address for address, each in every.items() if id(each.tensor) in held} == expected


def test_a_first_gradient_whose_square_is_infinite_has_diverged():
    model, optimizer = started("soap", np.ones((4, 3)), settings("soap"), dtype=torch.float32)
    model.weight.grad = torch.full((4, 3), 1e25)
    with pytest.raises(Diverged, match="has no eigenbasis"):
        optimizer.step()
    model.weight.grad = torch.ones(4, 3)
    optimizer.step()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"momentum": 0.0}, "dampening applies to the momentum"),
        ({"nesterov": True}, "nesterov needs a momentum above 0 and no dampening"),
    ],
)
def test_what_would_say_nothing_of_sgd_is_refused(changes, told):
    with pytest.raises(ValidationError, match=told):
        settings("sgd", **changes)
    assert settings("sgd", momentum=0.0, dampening=0.0)


def test_adamw_is_fused_and_can_be_kept_from_it(monkeypatch):
    from ablate.train.optimizers import adamw

    fused = updated("adamw", (3, 4), settings("adamw"))
    assert started("adamw", np.ones(3), settings("adamw"))[1].defaults["fused"] is True
    monkeypatch.setattr(adamw, "FUSED", False)
    assert started("adamw", np.ones(3), settings("adamw"))[1].defaults["fused"] is None
    plain = updated("adamw", (3, 4), settings("adamw"))
    np.testing.assert_allclose(fused[1], plain[1], rtol=1e-13)
