"""Masks in attention as it is compiled, against softmax over the keys that a query sees, in NumPy."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, sequence
from component_contract import ComponentContract
from matrix_fixtures import X, close, compiled, joined, parts, run

from ablate.block.equation import equation
from ablate.compiler import size_report
from ablate.components.masks.window import WindowMask
from ablate.errors import InputError
from ablate.plan.size import cost
from ablate.probes.attention_entropy import mean_entropy

T = 12
MASKS = {
    "window": (node("window", size=3.0), lambda i, j: i - 3 < j <= i),
    "prefix": (node("prefix", length=5.0), lambda i, j: j <= i or j < 5),
    "full": (node("full"), lambda i, j: True),
    "causal": (node("causal"), lambda i, j: j <= i),
}
NAMES = pytest.mark.parametrize("name", list(MASKS))
CAUSAL = pytest.mark.parametrize("causal", [True, False])
ALIBI = -np.array([2.0**-4, 2.0**-8])[:, None, None] * np.abs(np.subtract.outer(np.arange(T), np.arange(T)))


def seen_of(name, causal=True):
    """Who sees whom; a window looks both ways in a model that is not causal."""
    rule = MASKS[name][1]
    if name == "window" and not causal:
        rule = lambda i, j: abs(i - j) < 3  # noqa: E731
    return np.array([[rule(i, j) for j in range(T)] for i in range(T)])


def softmax(scores, seen):
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * seen
    return weights / weights.sum(-1, keepdims=True)


@CAUSAL
@NAMES
def test_attention_is_over_what_the_mask_shows(name, causal):
    model, w = compiled(node("attention", mask=MASKS[name][0]), sizes=replace(SIZES, causal=causal))
    q, k, v = parts(w)
    close(run(model), joined(softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8), seen_of(name, causal)) @ v, w))


@pytest.mark.parametrize(("name", "causal"), [("window", True), ("window", False), ("causal", False), ("full", False)])
def test_a_bias_is_added_to_what_is_seen(name, causal):
    attention = node("attention", mask=MASKS[name][0], bias="alibi")
    model, w = compiled(attention, sizes=replace(SIZES, causal=causal))
    q, k, v = parts(w)
    a = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8) + ALIBI, seen_of(name, causal))
    for _ in range(2):  # what the bias keeps for other models is not written over
        close(run(model), joined(a @ v, w))
    plain, w = compiled(node("attention", bias="alibi"), sizes=replace(SIZES, causal=causal))
    q, k, v = parts(w)
    a = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8) + ALIBI, seen_of("causal" if causal else "full"))
    close(run(plain), joined(a @ v, w))


@pytest.mark.parametrize("bias", [None, "alibi"])
def test_the_centre_of_shaped_attention_is_over_what_is_seen(bias):
    shaped = node("shaped", skip=1, gain=1, centre=1)
    model, w = compiled(node("attention", mask=MASKS["window"][0], matrix=shaped, bias=bias))
    q, k, v = parts(w)
    added = ALIBI if bias else np.zeros((2, T, T))
    a = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8) + added, seen_of("window"))
    close(run(model), joined((np.eye(T) + a - softmax(added, seen_of("window"))) @ v, w))
    starting = node("attention", mask=MASKS["window"][0], matrix=shaped, bias=bias, query=node("dense", init="zero"))
    model, w = compiled(starting)
    close(run(model), joined(parts(w)[2], w), 1e-14)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("matrix", ["softmax", "shaped", "value_skipinit"])
@pytest.mark.parametrize("bias", [None, "alibi", "t5"])
@NAMES
def test_products_are_counted(name, bias, matrix):
    sizes = replace(SIZES, causal=name not in ("prefix", "full"))
    model = architecture(sequence(node("attention", mask=MASKS[name][0], bias=bias, matrix=matrix)), sizes=sizes)
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


@pytest.mark.parametrize(("name", "leaks"), [("window", False), ("causal", False), ("prefix", True), ("full", True)])
def test_a_mask_leaks_if_and_only_if_it_says_so(name, leaks):
    mask = node("prefix", length=9.0) if name == "prefix" else MASKS[name][0]
    leak = ComponentContract().leak(sequence(node("attention", mask=mask)))
    assert (leak > 1e-3) == leaks == CATALOGUE[name].config.leaks
    assert leaks or leak == 0


def test_a_window_hides_what_is_far_and_two_layers_reach_twice_as_far():
    one, _ = compiled(node("attention", mask=MASKS["window"][0]))
    x, other = torch.from_numpy(X), torch.from_numpy(X).clone()
    other[:, 4] += 1.0
    assert changed(one, x, other) == [4, 5, 6]
    assert changed(lambda x: one(one(x)), x, other) == [4, 5, 6, 7, 8]


def changed(model, x, other):
    return (model(x) != model(other)).any(-1).any(0).nonzero().flatten().tolist()


def test_heads_that_share_keys_share_the_mask():
    attention = node("attention", mask=MASKS["window"][0], kv_heads="1")
    model, w = compiled(attention)
    q = parts({**w, "attention.key.weight": w["attention.query.weight"], "attention.value.weight": np.eye(16)})[0]
    k, v = ((X @ w[f"attention.{n}.weight"].T)[:, None] for n in ("key", "value"))
    a = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8), seen_of("window"))
    close(run(model), joined(a @ v, w))


@NAMES
def test_the_probe_of_entropy_reads_the_mask(name):
    model, w = compiled(node("attention", mask=MASKS[name][0]))
    q, k, _ = parts(w)
    p = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8), seen_of(name))
    core = model.get_submodule("attention.attend")
    read = mean_entropy(core, torch.from_numpy(q), torch.from_numpy(k))["attention_entropy"]
    expected = -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1).mean()
    close(read.detach().numpy(), expected, 1e-12)


def test_it_has_no_parameters_and_can_be_copied():
    model, _ = compiled(node("attention", mask=MASKS["window"][0]))
    plain, _ = compiled(node("attention"))
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied.get_submodule("attention.attend").mask == WindowMask(3, causal=True)
        close(run(copied), run(model), 0)


@pytest.mark.parametrize("matrix", ["e_spa", "u_spa"])
@NAMES
def test_a_matrix_that_is_solved_for_the_models_mask_takes_no_other(name, matrix):
    with pytest.raises(InputError, match=rf"the matrix {matrix} is solved for the model's own mask(.|\n)*  = set mask"):
        cost(architecture(sequence(node("attention", mask=MASKS[name][0], matrix=matrix))), CATALOGUE)


@pytest.mark.parametrize("bias", ["alibi", "t5", "transformer_xl"])
@pytest.mark.parametrize("name", ["prefix", "full"])
def test_a_bias_of_earlier_keys_is_not_used_for_later_ones(name, bias):
    block = sequence(node("attention", mask=MASKS[name][0], bias=bias))
    with pytest.raises(InputError, match=rf"the bias {bias} is that of earlier keys alone(.|\n)*  = set bias: none"):
        cost(architecture(block), CATALOGUE)
    cost(architecture(block, sizes=replace(SIZES, causal=False)), CATALOGUE)


@pytest.mark.parametrize(
    ("name", "condition"),
    [("window", "i - 3 < j ≤ i"), ("prefix", "j ≤ i or j < 5"), ("full", "j is any key"), ("causal", "j ≤ i")],
)
def test_the_equation_says_who_sees_whom(name, condition):
    written = str(equation(sequence(node("attention", mask=MASKS[name][0])), SIZES, CATALOGUE))
    assert f"M_ij = 0 where {condition}, else -∞" in written
    assert "may not see" in str(equation(sequence(node("attention")), SIZES, CATALOGUE))
