"""Weights against their equations in NumPy: what is constant, what is trained, what a layer has."""

import re

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, gain, node, residual, sequence
from recipes import parameter_groups
from weight_fixtures import ADAMW, ORTHOGONAL, X, built, close, mlp, output, reparameterised, shaken

from ablate.block.equation import equation
from ablate.compiler import compile_block, compile_model
from ablate.compiler.compile import size_report
from ablate.errors import InputError
from ablate.plan.size import cost

pytestmark = pytest.mark.fast


def test_identity_values_and_projections_leave_attention_alone():
    square = dict.fromkeys(("value", "projection"), "identity")
    model, w = shaken(built(node("attention", **square)))
    q, k = (
        (X @ w[f"attention.{name}.weight"].T).reshape(2, 12, 2, 8).transpose(0, 2, 1, 3) for name in ("query", "key")
    )
    scores = np.where(np.tri(12, dtype=bool), q @ k.transpose(0, 1, 3, 2) / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    v = X.reshape(2, 12, 2, 8).transpose(0, 2, 1, 3)
    close(output(model), (weights @ v).transpose(0, 2, 1, 3).reshape(X.shape))
    assert set(w) == {"attention.query.weight", "attention.key.weight"}


def test_identity_between_different_widths_is_refused_when_planned():
    for block in (sequence(mlp(up="identity")), sequence(mlp(down="identity"))):
        with pytest.raises(InputError, match="identity is used where a width of"):
            cost(architecture(block), CATALOGUE)
        with pytest.raises(InputError, match="choose another weight"):
            built(*block)


def test_frozen_is_its_matrix_in_the_state_and_in_no_group_of_the_optimiser():
    model, w = shaken(built(mlp(up=node("frozen", init=ORTHOGONAL))))
    close(output(model), X @ w["mlp.up.weight"].T @ w["mlp.down.weight"].T)
    assert {name for name, _ in model.named_parameters()} == {"mlp.down.weight"}
    placed = [p for group in parameter_groups(model, ADAMW) for p in group["params"]]
    assert [p.shape for p in placed] == [model.mlp.down.weight.shape]
    assert model.float().mlp.up.weight.dtype == torch.float32  # it moves with the model
    other = built(mlp(up=node("frozen", init=ORTHOGONAL)), seed=1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.mlp.up.weight.float(), model.mlp.up.weight)


def test_frozen_reparameterised_and_dense_weights_of_one_init_start_from_the_same_numbers():
    dense, fixed, moved = (
        built(mlp(up=weight))
        for weight in (node("dense", init=ORTHOGONAL), node("frozen", init=ORTHOGONAL), reparameterised(gain=0.2))
    )
    assert torch.equal(dense.mlp.up.weight, fixed.mlp.up.weight)
    assert torch.equal(dense.mlp.up.weight, moved.mlp.up.start)
    assert torch.equal(dense(torch.from_numpy(X)), moved(torch.from_numpy(X)))
    assert not torch.equal(dense.mlp.up.weight, built(mlp(up=node("dense", init="normal"))).mlp.up.weight)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("skip", "change"),
    [(1, "1/sqrt(2*depth)"), (0.5, 0.25), (gain(0.7, trainable=True), gain(0.3, trainable=True)), (0, 2), (1, 0)],
    ids=["paper", "fixed", "trained", "no_skip", "no_change"],
)
def test_reparameterised_is_its_equation(skip, change, bias):
    model, w = shaken(built(mlp(up=reparameterised(skip=skip, gain=change, bias=bias))))
    values = {"1/sqrt(2*depth)": 0.5}
    alpha = w.get("mlp.up.skip.factor", skip)
    beta = w.get("mlp.up.gain.factor", values.get(change, change) if isinstance(change, str) else change)
    delta = w.get("mlp.up.delta", np.zeros((64, 16)))
    matrix = alpha * w["mlp.up.start"] + beta * delta
    close(output(model), (X @ matrix.T + w.get("mlp.up.bias", 0)) @ w["mlp.down.weight"].T)
    assert ("mlp.up.delta" in w) == (change != 0)
    assert ("mlp.up.bias" in w) == bias


def gradients(weight):
    model = built(mlp(up=weight))
    start = model.mlp.up.delta.detach().clone()
    model(torch.from_numpy(X)).square().sum().backward()
    return model.mlp.up, start


def test_what_of_a_reparameterised_weight_moves_first():
    up, start = gradients(reparameterised(gain=gain(0.2, trainable=True)))
    assert not start.any() and up.gain.factor.grad == 0 and up.delta.grad.any()
    model = built(mlp(up=node("dense", init=ORTHOGONAL)))
    model(torch.from_numpy(X)).square().sum().backward()
    torch.testing.assert_close(up.delta.grad, 0.2 * model.mlp.up.weight.grad, rtol=1e-12, atol=1e-12)
    up, _ = gradients(reparameterised(gain=gain(0, trainable=True)))
    assert up.gain.factor.grad == 0 and not up.delta.grad.any()  # neither can leave 0
    up, start = gradients(reparameterised(gain=gain(0, trainable=True), delta=node("normal", std=0.1)))
    assert start.any() and up.gain.factor.grad != 0 and not up.delta.grad.any()


def test_delta_decays_and_has_the_rate_and_the_start_does_not():
    model = built(mlp(up=reparameterised(gain=gain(0.2, trainable=True), rate="1/depth", bias=True)))
    names = {id(p): name for name, p in model.named_parameters()}
    groups = parameter_groups(model, ADAMW)
    placed = {names[id(p)]: (g["multiple"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert placed["mlp.up.delta"] == (0.5, 0.1)
    assert placed["mlp.up.bias"] == placed["mlp.up.gain.factor"] == (1.0, 0.0)


@pytest.mark.parametrize("name", ["dense", "spectral", "reparameterised"])
def test_a_rate_below_0_is_refused_when_planned(name):
    for rate, said in ((-1, "-1"), ("-1/depth", "-1/depth, which is -0.5 in layer 1 of 2")):
        with pytest.raises(InputError, match=re.escape(f"{name}.rate is {said}\n  = give a number of at least 0")):
            cost(architecture(sequence(mlp(up=node(name, rate=rate)))), CATALOGUE)
    for fine in (0, "1/depth"):
        assert cost(architecture(sequence(mlp(up=node(name, rate=fine)))), CATALOGUE).parameters


def learned(weight, name, *, rate, optimizer, steps=5):
    """The matrix of `up` after some steps on one task, trained alone."""
    model = built(mlp(up=weight))
    trained = [p for n, p in model.named_parameters() if n == f"mlp.up.{name}"]
    assert len(trained) == 1
    step = optimizer(trained, rate)
    target = torch.from_numpy(np.random.default_rng(1).normal(size=X.shape))
    for _ in range(steps):
        step.zero_grad()
        (model(torch.from_numpy(X)) - target).square().mean().backward()
        step.step()
    up = model.mlp.up
    return (up.weight if name == "weight" else up.matrix).detach().numpy()


def sgd(parameters, rate):
    return torch.optim.SGD(parameters, lr=rate)


def adam(parameters, rate):
    return torch.optim.Adam(parameters, lr=rate, eps=0.0)


@pytest.mark.parametrize(("optimizer", "power"), [(sgd, 2), (adam, 1)], ids=["sgd", "adam"])
@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_a_gain_on_the_change_is_a_learning_rate(optimizer, power, beta):
    """Duality of arXiv:2311.01906, App. A: β on ΔW is the rate times β² for SGD, times β for Adam."""
    dense = node("dense", init=ORTHOGONAL)
    downweighted = learned(reparameterised(gain=beta), "delta", rate=0.1, optimizer=optimizer)
    slower = learned(dense, "weight", rate=0.1 * beta**power, optimizer=optimizer)
    whole = learned(reparameterised(gain=1), "delta", rate=0.1 * beta**power, optimizer=optimizer)
    close(downweighted, slower, rtol=1e-8)
    close(whole, slower, rtol=1e-8)
    other = learned(dense, "weight", rate=0.1 * beta ** (3 - power), optimizer=optimizer)
    assert np.abs(downweighted - other).max() > 1e-3  # the other optimiser's rule does not hold


FIRST = node("by_layer", first=reparameterised(gain=1), others="identity")


def test_the_first_layer_may_have_another_weight_at_the_same_address():
    block = sequence(residual(node("attention", value=FIRST)))
    model = compile_model(architecture(block), CATALOGUE)
    names = {name for name, _ in model.named_parameters() if "value" in name}
    assert names == {"layers.1.attention.value.delta"}
    everywhere = compile_model(
        architecture(sequence(residual(node("attention", value=reparameterised(gain=1))))), CATALOGUE
    )
    ours, theirs = (m.layers["1"].attention.value.start for m in (model, everywhere))
    assert torch.equal(ours, theirs)
    assert cost(architecture(block), CATALOGUE) == size_report(architecture(block), CATALOGUE)
    single = compile_block(block, SIZES, CATALOGUE, init=default_init(), layer=2)
    assert type(single.attention.value).__name__ == "Identity"


def test_by_layer_has_no_meaning_outside_the_layers():
    config = CATALOGUE["by_layer"].config(first=None, others=None)
    with pytest.raises(InputError, match="outside the layers"):
        config.cost(SIZES, 16, 16)


@pytest.mark.parametrize(
    ("weight", "line"),
    [
        ("identity", "V = X"),
        (node("frozen", init=ORTHOGONAL), "V = X W₀^V"),
        (reparameterised(gain=0.2), "V = X (W₀^V + 0.2 ΔW^V)"),
        (reparameterised(skip=0, gain=1, bias=True), "V = X (ΔW^V) + b"),
        (reparameterised(gain=0), "V = X (W₀^V)"),
        (FIRST, "V = (X (W₀^V + ΔW^V) in layer 1, else X)"),
        (node("by_layer", first="dense", others="dense"), "V = X W^V"),
        (node("spectral", bias=True), "V = (γ / σ(W^V)) X W^V + b"),
    ],
)
def test_weights_say_themselves(weight, line):
    text = equation(sequence(node("attention", value=weight)), SIZES, CATALOGUE).text
    assert line in text, text


def test_gains_of_weights_have_the_letters_of_the_paper():
    weight = reparameterised(skip=gain(1, trainable=True), gain="1/sqrt(depth)")
    text = equation(sequence(node("attention", value=weight)), SIZES, CATALOGUE).text
    assert "V = X (α^V W₀^V + β^V ΔW^V)" in text, text
