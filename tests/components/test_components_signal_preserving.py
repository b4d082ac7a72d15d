"""E-SPA and U-SPA against their equations in NumPy, inside attention as it is compiled."""

import copy
import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, residual, sequence
from matrix_fixtures import RNG, SIX, ZERO, X, close, compiled, joined, parts, run, softmax
from reading import transformer

from ablate.errors import InputError
from ablate.plan.size import cost


def exponential(length, decay):
    distance = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    return np.eye(length) if math.isinf(decay) else np.exp(-decay * distance)


def uniform(length, correlation):
    return (1 - correlation) * np.eye(length) + correlation


def root(covariance, causal):
    """The Cholesky factor, or the symmetric root."""
    if causal:
        return np.linalg.cholesky(covariance)
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(values)) @ vectors.T


def decay_at(layer, final, n_layers):
    return math.inf if layer == 0 else -math.log(1 - (1 - math.exp(-2 * final)) ** (layer / n_layers)) / 2


def e_spa_matrix(length, layer, causal, final, repetition=0.0, n_layers=6):
    before, after = (root(exponential(length, decay_at(at, final, n_layers)), causal) for at in (layer - 1, layer))
    norms = [np.diag(f @ uniform(length, repetition) @ f.T) if repetition else np.ones(length) for f in (before, after)]
    return norms[1][:, None] ** -0.5 * (after @ np.linalg.inv(before)) * norms[0] ** 0.5


def u_spa_matrix(length, layer, causal, final, initial=0.0, n_layers=6):
    kernels = (uniform(length, initial + (final - initial) * at / n_layers) for at in (layer - 1, layer))
    before, after = (root(kernel, causal) for kernel in kernels)
    return after @ np.linalg.inv(before)


SPA = {
    "e_spa": (node("e_spa", decay=0.2), lambda *at: e_spa_matrix(*at, 0.2)),
    "e_spa_fine": (node("e_spa", decay=0.005), lambda *at: e_spa_matrix(*at, 0.005)),
    "e_spa_repeated": (node("e_spa", decay=0.02, repetition=0.05), lambda *at: e_spa_matrix(*at, 0.02, 0.05)),
    "u_spa": (node("u_spa", correlation=0.8), lambda *at: u_spa_matrix(*at, 0.8)),
    "u_spa_repeated": (node("u_spa", correlation=0.8, initial=0.05), lambda *at: u_spa_matrix(*at, 0.8, 0.05)),
}
EACH_SPA = pytest.mark.parametrize(("matrix", "direct"), SPA.values(), ids=SPA)


@EACH_SPA
@pytest.mark.parametrize("layer", [1, 2, 6])
@pytest.mark.parametrize("causal", [True, False])
def test_at_zero_queries_attention_is_the_matrix(matrix, direct, layer, causal):
    sizes = replace(SIX, causal=causal)
    attention = node("attention", query=ZERO, matrix=matrix)
    model, w = compiled(attention, sizes=sizes, layer=layer)
    expected = joined(direct(12, layer, causal) @ parts(w)[2], w)
    close(run(model), expected)
    close(run(compiled(attention, sizes=sizes, layer=layer, dtype=torch.float32)[0], X, torch.float32), expected, 1e-4)
    neighbour = run(compiled(attention, sizes=sizes, layer=layer % 6 + 1)[0])
    assert np.abs(neighbour - expected).max() > 1e-6 or (matrix.name, layer) == ("e_spa", 1)


@EACH_SPA
@pytest.mark.parametrize("causal", [True, False])
def test_at_other_queries_the_matrix_is_the_bias_and_the_row_factor_of_equation_10(matrix, direct, causal):
    model, w = compiled(node("attention", matrix=matrix), sizes=replace(SIX, causal=causal), layer=3)
    q, k, v = parts(w)
    a = direct(12, 3, causal)
    d = a.sum(1)
    with np.errstate(divide="ignore"):
        bias = np.log(np.where(a > 0, a, 0) / d[:, None])
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(8) + bias
    expected = joined(d[:, None] * (softmax(scores, causal) @ v), w)
    close(run(model), expected)
    assert np.abs(joined(softmax(scores, causal) @ v, w) - expected).max() > 1e-3  # D is not 1


def test_a_skip_around_it_is_made_up_for():
    alpha = 0.5
    for matrix, before, after in (
        (node("u_spa", correlation=0.6, skip=alpha), uniform(12, 0.2), uniform(12, (0.3 - 0.25 * 0.2) / 0.75)),
        (node("e_spa", decay=0.6, skip=alpha), *(exponential(12, rate) for rate in beside_a_skip(0.6, alpha))),
    ):
        model, w = compiled(node("attention", query=ZERO, matrix=matrix), sizes=SIX, layer=3)
        a = root(after, True) @ np.linalg.inv(root(before, True))
        close(run(model), joined(a @ parts(w)[2], w))


def test_beside_a_skip_repeated_tokens_are_corrected_at_the_rates_that_the_matrix_has():
    alpha, rates = 0.5, beside_a_skip(0.6, 0.5)
    model, w = compiled(
        node("attention", query=ZERO, matrix=node("e_spa", decay=0.6, skip=alpha, repetition=0.05)), sizes=SIX, layer=3
    )
    before, after = (np.linalg.cholesky(exponential(12, rate)) for rate in rates)
    norms = [np.diag(factor @ uniform(12, 0.05) @ factor.T) for factor in (before, after)]
    a = norms[1][:, None] ** -0.5 * (after @ np.linalg.inv(before)) * norms[0] ** 0.5
    close(run(model), joined(a @ parts(w)[2], w))


def beside_a_skip(final, alpha):
    """Rates around layer 3 of 6, by Eq. 26."""
    before, after = (1 - math.exp(-2 * decay_at(layer, final, 6)) for layer in (2, 3))
    return decay_at(2, final, 6), -math.log(1 - (after / before - alpha**2) / (1 - alpha**2) * before) / 2


@EACH_SPA
@pytest.mark.parametrize("causal", [True, False])
def test_shorter_and_longer_sequences_have_matrices_of_their_own(matrix, direct, causal):
    attention = node("attention", query=ZERO, matrix=matrix)
    model, w = compiled(attention, sizes=replace(SIX, causal=causal), layer=2)
    for length in (12, 5, 1, 30, 7):
        x = RNG.normal(size=(2, length, 16))
        close(run(model, x), joined(direct(length, 2, causal) @ parts(w, x)[2], w))


def test_the_corner_of_a_longer_matrix_is_another_one_without_a_causal_mask():
    assert np.abs(e_spa_matrix(30, 2, False, 0.2)[:12, :12] - e_spa_matrix(12, 2, False, 0.2)).max() > 1e-4
    close(e_spa_matrix(30, 2, True, 0.2)[:12, :12], e_spa_matrix(12, 2, True, 0.2))


@EACH_SPA
def test_the_matrix_outlives_bfloat16_copies_and_pickles(matrix, direct):
    model, w = compiled(node("attention", query=ZERO, matrix=matrix), sizes=SIX, layer=2)
    expected = joined(direct(12, 2, True) @ parts(w)[2], w)
    spa = model.attention.matrix
    run(model)
    start = spa.start.solved
    run(model)
    assert spa.start.solved is start  # not solved anew at every step
    assert not list(spa.parameters()) + list(spa.buffers())
    copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(spa))
    assert copied.attention.matrix.start.solved is None
    assert pickled.start.solved is None
    close(run(copied), expected)
    rounded = model.to(torch.bfloat16)
    low = run(rounded, X, torch.bfloat16)
    assert rounded.attention.matrix.start.solved.bias.dtype == torch.float32
    close(low, expected, 0.15)
    there_and_back = rounded.to(torch.float64)
    q = torch.zeros(1, 2, 12, 8, dtype=torch.float64)
    for again in (there_and_back.attention.matrix.bias(q, q, 1.0), pickled.bias(q, q, 1.0)):
        assert torch.equal(again[0, 0], start.bias)
    assert not torch.equal(start.bias.bfloat16().double(), start.bias)  # as a buffer it would have lost digits


def test_one_matrix_serves_every_sequence_and_head():
    model, _ = compiled(node("attention", matrix="e_spa"))
    q = torch.zeros(3, 2, 12, 8, dtype=torch.float64)
    bias = model.attention.matrix.bias(q, q, 1.0)
    assert bias.shape == (1, 1, 12, 12)
    assert torch.equal(bias[0, 0].isfinite(), torch.ones(12, 12, dtype=torch.bool).tril())


REFUSED = {
    "beside too large a skip": (node("e_spa", decay=0.005, skip=0.9), "Eq. 24"),
    "a skip of 1": (node("e_spa", decay=0.2, skip=1), r"e_spa\.skip is 1\n  = give a number below 1"),
    "always the same token": (
        node("e_spa", decay=0.2, repetition=1),
        r"e_spa\.repetition is 1\n  = give a number below 1",
    ),
    "more than 1 to give": (node("u_spa", correlation=0.9, skip=0.9), "Sec. 3.4"),
    "correlations that fall": (node("u_spa", correlation=0.3, initial=0.5), "Theorem 1"),
}


@pytest.mark.parametrize(("matrix", "because"), REFUSED.values(), ids=REFUSED)
def test_a_matrix_that_does_not_exist_is_refused_before_anything_is_built(matrix, because):
    with pytest.raises(InputError, match=because):
        cost(architecture(sequence(residual(node("attention", matrix=matrix)))), CATALOGUE)
    with pytest.raises(InputError, match=because):
        compiled(node("attention", matrix=matrix))


@pytest.mark.parametrize("name", ["e_spa", "u_spa"])
def test_outside_the_layers_there_is_no_schedule(name):
    decaying, even = {"decay": 0.2, "repetition": 0.0}, {"correlation": 0.5, "initial": 0.0, "power": 1.0}
    values = decaying if name == "e_spa" else even
    with pytest.raises(InputError, match="outside the layers"):
        CATALOGUE[name].config(skip=0.0, mlp=None, **values).cost(SIZES, 8)


@pytest.mark.parametrize("matrix", ["e_spa", "u_spa"])
def test_a_block_that_has_run_once_traces_into_one_graph(matrix):
    model, _ = compiled(node("attention", matrix=matrix))
    x = torch.from_numpy(X)
    expected = model(x)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), expected)


@pytest.mark.parametrize("matrix", ["e_spa", "u_spa"])
def test_what_was_solved_in_inference_mode_can_be_trained_with(matrix):
    model, _ = compiled(node("attention", matrix=matrix))
    with torch.inference_mode():
        expected = model(torch.from_numpy(X))
    found = model(torch.from_numpy(X))
    torch.testing.assert_close(found, expected.clone(), rtol=1e-12, atol=1e-14)
    found.sum().backward()
    assert model.attention.query.weight.grad.any()


@EACH_SPA
def test_gradients_reach_the_queries_and_are_those_of_the_equation(matrix, direct):
    model, w = compiled(node("attention", matrix=matrix), sizes=SIX, layer=3)
    x = torch.from_numpy(X)
    model(x).square().sum().backward()
    grad = model.attention.query.weight.grad.numpy()
    a = direct(12, 3, True)
    d, step = a.sum(1), 1e-6
    bias = np.log(np.where(np.tri(12, dtype=bool), a / d[:, None], 1))
    for row, column in ((0, 0), (9, 5)):
        moved = []
        for sign in (1, -1):
            shifted = w | {"attention.query.weight": w["attention.query.weight"].copy()}
            shifted["attention.query.weight"][row, column] += sign * step
            q, k, v = parts(shifted)
            mixed = d[:, None] * (softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8) + bias, True) @ v)
            moved.append((joined(mixed, shifted) ** 2).sum())
        assert grad[row, column] == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-5, abs=1e-6)


RELATIVE = node("transformer_xl", init=node("orthogonal", gain=1), start="zero")
EXACT = {
    "zero keys": {"key": ZERO},
    "relative positions, u = v = 0 and zero queries": {"query": ZERO, "bias": RELATIVE},
    "T5's table at zero": {"query": ZERO, "bias": node("t5", init="zero")},
}
INEXACT = {
    "small queries and keys": {name: node("dense", init=node("orthogonal", gain=0.3)) for name in ("query", "key")},
    "1/d_k": {"scale": "1/head_width"},
    "relative positions beside zero keys": {"key": ZERO, "bias": RELATIVE},
    "u and v by the model's init": {"query": ZERO, "bias": node("transformer_xl")},
    "ALiBi": {"query": ZERO, "bias": "alibi"},
}


@pytest.mark.parametrize("fields", [*EXACT.values(), *INEXACT.values()], ids=[*EXACT, *INEXACT])
def test_the_start_is_exact_where_the_constraint_says_and_nowhere_else(fields):
    """ESPA, Sec. 3.3 and App. E: A v against Cholesky factors, and what `exact_start` says of the same block."""
    attention = node("attention", matrix=node("e_spa", decay=0.2), **fields)
    model, w = compiled(attention, sizes=SIX, layer=3)
    error = np.abs(run(model) - joined(e_spa_matrix(12, 3, True, 0.2) @ parts(w)[2], w)).max()
    admitted = "exact_start" not in {broken.name for broken in transformer().broken(sequence(attention))}
    assert admitted == (error < 1e-10) == (fields in EXACT.values()), error


def test_at_smaller_queries_and_keys_and_wider_heads_the_start_is_closer_to_the_matrix():
    """Figure 8, and why 1/d_k is exact in the limit: the error falls with σ², and with the scale of the scores."""

    def error(gain, scale):
        dense = node("dense", init=node("orthogonal", gain=gain))
        attention = node("attention", query=dense, key=dense, matrix=node("e_spa", decay=0.2), scale=scale)
        model, w = compiled(attention, sizes=SIX, layer=3)
        return np.abs(run(model) - joined(e_spa_matrix(12, 3, True, 0.2) @ parts(w)[2], w)).max()

    by_gain = [error(gain, "1/sqrt(head_width)") for gain in (1, 0.3, 0.1, 0.03)]
    assert all(larger > 5 * smaller for larger, smaller in itertools.pairwise(by_gain))
    assert error(1, "1/head_width") < error(1, "1/sqrt(head_width)")


def test_what_is_corrected_for_an_mlp_is_not_for_a_skip_or_repeated_tokens_as_well():
    for matrix in (
        node("e_spa", decay=0.2, skip=0.5, mlp="tanh"),
        node("e_spa", decay=0.2, repetition=0.05, mlp="tanh"),
        node("u_spa", correlation=0.5, skip=0.5, mlp="tanh"),
    ):
        with pytest.raises(InputError, match="not for both"):
            cost(architecture(sequence(node("attention", query=ZERO, matrix=matrix)), sizes=SIX), CATALOGUE)


def test_a_matrix_that_no_softmax_gives_is_refused_before_anything_is_built():
    matrix = node("e_spa", decay=0.005, mlp="relu")
    with pytest.raises(InputError, match="E-SPA after an MLP: its attention would have the entry -0"):
        cost(architecture(sequence(node("attention", query=ZERO, matrix=matrix)), sizes=SIX), CATALOGUE)
