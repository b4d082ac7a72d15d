"""The matrices of skipless attention against what defines them: Cholesky factors and roots of their covariances.

In float64 by NumPy where that has the digits; where covariances are nearly singular, by `decimal` with 60.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from ablate.errors import InputError
from ablate.signal.skipless import exponential_step, uniform_step
from ablate.signal.skipless_matrices import exponential_factor, exponential_matrix, row_scale_and_bias, uniform_matrix


def exponential(length, decay):
    places = np.arange(length)
    if math.isinf(decay):
        return np.eye(length)
    return np.exp(-decay * np.abs(np.subtract.outer(places, places)))


def uniform(length, correlation):
    return (1 - correlation) * np.eye(length) + correlation


def between_factors(before, after):
    """L_out L_in⁻¹, directly."""
    return np.linalg.solve(np.linalg.cholesky(before).T, np.linalg.cholesky(after).T).T


def root(covariance):
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(values)) @ vectors.T


def between_roots(before, after):
    return root(after) @ np.linalg.inv(root(before))


def close(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


LENGTHS = [1, 2, 8, 64, 512]
RATES = [(math.inf, 0.2), (math.inf, 0.005), (3.0, 0.7), (0.2, 0.1), (0.1, 0.005), (0.0055, 0.005), (0.2, 0.2)]
CORRELATIONS = [(0.0, 0.5), (0.0, 0.008), (0.05, 0.8), (0.5, 0.51), (0.79, 0.8), (0.8, 0.99), (0.3, 0.3)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("incoming", "outgoing"), RATES)
def test_exponential_attention_is_theorem_3(length, incoming, outgoing):
    found = exponential_matrix(length, incoming, outgoing)
    before, after = exponential(length, incoming), exponential(length, outgoing)
    close(found, between_factors(before, after))
    close(found @ before @ found.T, after)  # what the matrix is for: the one similarity becomes the other
    close(exponential_factor(length, outgoing), np.linalg.cholesky(after))
    assert found.min() >= 0
    assert (np.triu(found, 1) == 0).all()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("incoming", "outgoing"), CORRELATIONS)
def test_uniform_attention_is_theorem_1(length, incoming, outgoing):
    found = uniform_matrix(length, incoming, outgoing)
    before, after = uniform(length, incoming), uniform(length, outgoing)
    close(found, between_factors(before, after))
    close(found @ before @ found.T, after)
    assert found.min() >= 0


@pytest.mark.parametrize("length", [8, 64])
def test_rates_a_little_off_are_told_apart(length):
    assert np.abs(exponential_matrix(length, 0.2, 0.1) - exponential_matrix(length, 0.2, 0.1001)).max() > 1e-5
    assert np.abs(uniform_matrix(length, 0.2, 0.4) - uniform_matrix(length, 0.2, 0.4001)).max() > 1e-5


def decimal_uniform(length, correlation):
    return [[Decimal(1) if i == j else Decimal(correlation) for j in range(length)] for i in range(length)]


def decimal_factor(covariance):
    """The Cholesky factor, in decimals."""
    length = len(covariance)
    factor = [[Decimal(0)] * length for _ in range(length)]
    for i in range(length):
        for j in range(i + 1):
            rest = covariance[i][j] - sum(factor[i][k] * factor[j][k] for k in range(j))
            factor[i][j] = rest.sqrt() if i == j else rest / factor[j][j]
    return factor


def decimal_between(before, after):
    """L_out L_in⁻¹, row by row from the right."""
    first, last = decimal_factor(before), decimal_factor(after)
    length = len(first)
    found = [[Decimal(0)] * length for _ in range(length)]
    for i in range(length):
        for j in reversed(range(i + 1)):
            later = sum(found[i][k] * first[k][j] for k in range(j + 1, i + 1))
            found[i][j] = (last[i][j] - later) / first[j][j]
    return found


def relative_error(found, expected):
    """The largest of any entry in the lower triangle, which holds small numbers whose logarithms matter."""
    rows, columns = np.tril_indices(len(found))
    return max(abs(Decimal(found[i, j]) - expected[i][j]) / expected[i][j] for i, j in zip(rows, columns, strict=True))


@pytest.mark.parametrize(("incoming", "outgoing"), [(1e-4, 1e-6), (2e-6, 1e-6), (0.5, 0.499999), (40.0, 12.0)])
def test_exponential_attention_keeps_its_digits_where_covariances_are_nearly_singular(incoming, outgoing):
    with localcontext() as context:
        context.prec = 60
        covariances = [
            [[(-Decimal(rate) * abs(i - j)).exp() for j in range(24)] for i in range(24)]
            for rate in (incoming, outgoing)
        ]
        expected = decimal_between(*covariances)
        assert relative_error(exponential_matrix(24, incoming, outgoing), expected) < 1e-13


@pytest.mark.parametrize(("incoming", "outgoing"), [(0.999, 0.99999), (0.5, 0.500001), (1e-9, 2e-9), (0.0, 0.9999)])
def test_uniform_attention_keeps_its_digits_where_covariances_are_nearly_singular(incoming, outgoing):
    with localcontext() as context:
        context.prec = 60
        expected = decimal_between(*(decimal_uniform(24, rho) for rho in (incoming, outgoing)))
        assert relative_error(uniform_matrix(24, incoming, outgoing), expected) < 1e-10


def test_the_product_of_the_two_factors_would_lose_them():
    with localcontext() as context:
        context.prec = 60
        product = between_factors(uniform(24, 0.5), uniform(24, 0.500001))
        expected = decimal_between(decimal_uniform(24, 0.5), decimal_uniform(24, 0.500001))
        assert relative_error(product, expected) > 1e-9


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("repetition", [0.008, 0.05, 0.5])
@pytest.mark.parametrize("layer", [1, 2, 6])
def test_repeated_tokens_are_corrected_as_in_appendix_b(length, repetition, layer):
    step = exponential_step(layer, 6, 0.02)
    before, after = (np.linalg.cholesky(exponential(length, rate)) for rate in (step.incoming, step.outgoing))
    average = uniform(length, repetition)
    norms = [np.diag(factor @ average @ factor.T) for factor in (before, after)]
    expected = np.diag(norms[1] ** -0.5) @ after @ np.linalg.inv(before) @ np.diag(norms[0] ** 0.5)
    close(exponential_matrix(length, step.incoming, step.outgoing, repetition=repetition), expected)
    if length > 2:
        assert np.abs(exponential_matrix(length, step.incoming, step.outgoing) - expected).max() > 1e-3


@pytest.mark.parametrize("length", [8, 64, 512])
def test_attention_beside_a_skip_brings_the_block_to_the_schedule(length):
    alpha = 0.6
    for layer in (1, 3, 6):
        step, plain = uniform_step(layer, 6, 0.5, 0.02, alpha), uniform_step(layer, 6, 0.5, 0.02)
        a, before = uniform_matrix(length, step.incoming, step.outgoing), uniform(length, step.incoming)
        residual = (plain.outgoing - alpha**2 * plain.incoming) / (1 - alpha**2)
        close(a, between_factors(before, uniform(length, residual)))
        close(alpha**2 * before + (1 - alpha**2) * a @ before @ a.T, uniform(length, plain.outgoing))

        step, plain = exponential_step(layer, 6, 0.2, alpha), exponential_step(layer, 6, 0.2)
        kept = [1 - math.exp(-2 * rate) for rate in (plain.incoming, plain.outgoing)]  # a(γ)²
        rate = -math.log1p(-(kept[1] / kept[0] - alpha**2) / (1 - alpha**2) * kept[0]) / 2  # Eq. 26
        a = exponential_matrix(length, step.incoming, step.outgoing)
        close(a, between_factors(exponential(length, plain.incoming), exponential(length, rate)))


@pytest.mark.parametrize("length", [1, 2, 8, 64])
def test_without_a_causal_mask_the_symmetric_root_takes_the_factors_place(length):
    for incoming, outgoing in RATES:
        found = exponential_matrix(length, incoming, outgoing, causal=False)
        before, after = exponential(length, incoming), exponential(length, outgoing)
        close(found, between_roots(before, after))
        close(found @ before @ found.T, after)
        assert found.min() >= 0
    for incoming, outgoing in CORRELATIONS:
        found = uniform_matrix(length, incoming, outgoing, causal=False)
        before, after = uniform(length, incoming), uniform(length, outgoing)
        close(found, between_roots(before, after))
        assert found.min() >= 0
    average, (before, after) = uniform(length, 0.05), (root(exponential(length, rate)) for rate in (0.2, 0.05))
    norms = [np.diag(factor @ average @ factor) for factor in (before, after)]
    expected = after @ np.linalg.inv(before) * np.sqrt(norms[0] / norms[1][:, None])
    close(exponential_matrix(length, 0.2, 0.05, repetition=0.05, causal=False), expected)


@pytest.mark.parametrize("repetition", [0.0, 0.05])
def test_the_roots_between_two_layers_are_computed_once(repetition, monkeypatch):
    taken, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda kernel: taken.append(kernel[0, 1]) or eigh(kernel))
    steps = [exponential_step(layer, 12, 0.21) for layer in range(1, 13)]
    ask = {"repetition": repetition, "causal": False}
    found = [exponential_matrix(37, step.incoming, step.outgoing, **ask) for step in steps]
    assert len(taken) == len(set(taken)) == 12  # Σ behind each layer; that before the first is I
    again = exponential_matrix(37, steps[3].incoming, steps[3].outgoing, **ask)
    assert len(taken) == 14  # two are held, and no more
    np.testing.assert_array_equal(again, found[3])


@pytest.mark.parametrize("matrix", [exponential_matrix(64, 0.2, 0.05), uniform_matrix(64, 0.1, 0.4)])
def test_rows_and_softmax_give_the_matrix_back(matrix):
    rows, bias = row_scale_and_bias(matrix)
    weights = np.exp(bias)
    close(weights.sum(1), np.ones(64), 1e-14)
    close(rows[:, None] * weights, matrix, 1e-14)
    assert (np.isfinite(bias) == np.tri(64, dtype=bool)).all()
    assert np.abs(rows - 1).max() > 0.1  # not a softmax without D


def test_the_logarithm_of_nothing_is_finite_in_every_type():
    rows, bias = row_scale_and_bias(np.eye(3), causal=False)
    assert rows.tolist() == [1, 1, 1]
    assert (np.isfinite(bias) & np.isfinite(bias.astype(np.float16))).all()
    assert np.exp(bias.astype(np.float32)).tolist() == np.eye(3).tolist()
    close(np.exp(bias), np.eye(3), 1e-300)
    far, bias = row_scale_and_bias(exponential_matrix(512, math.inf, 5.0))
    assert np.isfinite(bias[np.tril_indices(512)]).all()
    assert far.min() > 0


def test_a_matrix_that_no_softmax_gives_is_refused():
    backwards = np.linalg.cholesky(exponential(4, 0.2)) @ np.linalg.inv(np.linalg.cholesky(exponential(4, 0.1)))
    with pytest.raises(InputError, match="negative weights"):
        row_scale_and_bias(backwards)
    with pytest.raises(InputError, match="row 2 sums to 0"):
        row_scale_and_bias(np.array([[1.0, 0.0], [0.0, 0.0]]))
