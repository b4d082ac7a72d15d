"""The schedules of skipless attention: equal to their equations, in digits, limits, and what they refuse."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from ablate.errors import InputError
from ablate.signal.skipless import (
    check_repetition,
    diagonal,
    exponential_step,
    scheduled_correlation,
    scheduled_decay,
    uniform_step,
)
from ablate.signal.skipless_matrices import exponential_factor, exponential_matrix, squared_norms, uniform_matrix

pytestmark = pytest.mark.fast

DECAYS = [1e-6, 0.005, 0.2, 0.5, 3.0, 20.0]


@pytest.fixture(autouse=True)
def sixty_digits():
    """What is compared with is computed by `decimal`."""
    with localcontext() as context:
        context.prec = 60
        yield


def squared(decay):
    """a(γ)² = 1 - exp(-2γ)."""
    return 1 - (-2 * Decimal(decay)).exp()


def from_squared(a_squared):
    """γ = -½ log(1 - a²)."""
    return -(1 - a_squared).ln() / 2


def off(found, exact):
    """The relative error of a float."""
    return abs(Decimal(found) - exact) / exact


@pytest.mark.parametrize("decay", [*DECAYS, 1e-12, 100.0])
def test_the_diagonal_to_the_last_digits(decay):
    assert off(diagonal(decay), squared(decay).sqrt()) < 3e-16


def test_the_plain_formula_would_lose_digits():
    assert off(math.sqrt(1 - math.exp(-2e-12)), squared(1e-12).sqrt()) > 1e-6


@pytest.mark.parametrize("final", DECAYS)
@pytest.mark.parametrize("n_layers", [1, 6, 100])
def test_decay_rates_are_those_of_appendix_c(final, n_layers):
    assert scheduled_decay(0, n_layers, final) == math.inf
    assert scheduled_decay(n_layers, n_layers, final) == final
    for layer in range(1, n_layers + 1):
        exact = from_squared(squared(final) ** (Decimal(layer) / n_layers))
        assert off(scheduled_decay(layer, n_layers, final), exact) < 1e-14
    steps = [exponential_step(layer, n_layers, final) for layer in range(1, n_layers + 1)]
    assert [s.outgoing for s in steps[:-1]] == [s.incoming for s in steps[1:]]
    kept = [diagonal(s.outgoing) / diagonal(s.incoming) for s in steps]
    np.testing.assert_allclose(kept, kept[0], rtol=1e-12)  # one diagonal in all layers


@pytest.mark.parametrize(("final", "skip"), [(0.2, 0.5), (0.2, 0.9), (0.6, 0.98), (5.0, 0.98)])
def test_decay_rates_beside_a_skip_are_equation_26(final, skip):
    alpha = Decimal(skip) ** 2
    for layer in range(1, 37):
        step = exponential_step(layer, 36, final, skip)
        incoming = squared(scheduled_decay(layer - 1, 36, final))
        kept = squared(scheduled_decay(layer, 36, final)) / incoming  # λ_0²
        assert step.incoming == scheduled_decay(layer - 1, 36, final)
        assert off(step.outgoing, from_squared((kept - alpha) / (1 - alpha) * incoming)) < 1e-11
        # what Eq. 26 was solved for: α² + (1 - α²) λ_α² is λ_0²
        lambda_alpha = squared(step.outgoing) / squared(step.incoming)
        assert off(float(alpha + (1 - alpha) * lambda_alpha), kept) < 1e-12
        # Eq. 25 as printed squares λ_α once more
        printed = from_squared((((kept - alpha) / (1 - alpha)) * incoming) ** 2)
        assert off(step.outgoing, printed) > 1e-2


def test_no_skip_is_a_skip_that_vanishes():
    beside = exponential_step(3, 6, 0.2, 1e-9)
    assert beside.outgoing == pytest.approx(exponential_step(3, 6, 0.2).outgoing, rel=1e-12)
    assert uniform_step(3, 6, 0.8, 0.1, 1e-9).outgoing == pytest.approx(uniform_step(3, 6, 0.8, 0.1).outgoing)


@pytest.mark.parametrize("initial", [0.0, 0.02, 0.8])
def test_correlations_grow_in_a_line(initial):
    steps = [uniform_step(layer, 8, 0.8, initial) for layer in range(1, 9)]
    np.testing.assert_allclose([s.incoming for s in steps], np.linspace(initial, 0.8, 9)[:-1], rtol=1e-15, atol=0)
    np.testing.assert_allclose([s.outgoing for s in steps], np.linspace(initial, 0.8, 9)[1:], rtol=1e-15, atol=0)
    assert all(s.outgoing >= s.incoming for s in steps)


@pytest.mark.parametrize("skip", [0.3, 0.9])
def test_correlations_beside_a_skip_bring_the_block_to_the_schedule(skip):
    for layer in range(1, 9):
        step = uniform_step(layer, 8, 0.5, 0.1, skip)
        block = skip**2 * step.incoming + (1 - skip**2) * step.outgoing
        assert block == pytest.approx(scheduled_correlation(layer, 8, 0.5, 0.1), rel=1e-14)


@pytest.mark.parametrize(
    ("refused", "because"),
    [
        (lambda: exponential_step(1, 6, 0.005, 0.7), "Eq. 24"),  # λ_0 = 0.0998^(1/6) = 0.681: λ_α is not real
        (lambda: exponential_step(1, 6, 0.2, 1.0), "normalised skip of 1"),
        (lambda: exponential_step(1, 6, 0.2, -0.5), "normalised skip of -0.5"),
        (lambda: uniform_step(1, 2, 0.8, 0.0, 0.8), "Sec. 3.4"),  # 0.4/0.36 > 1
        (lambda: uniform_step(1, 2, 0.8, 0.9), "Theorem 1"),
        (lambda: uniform_step(1, 2, 0.8, -0.1), "Theorem 1"),
        (lambda: exponential_matrix(4, 0.1, 0.2), "Theorem 2"),
        (lambda: exponential_matrix(4, 0.1, 0.0), "positive"),
        (lambda: exponential_matrix(4, 0.2, 0.1, repetition=1.0), "repetition of 1"),
        (lambda: uniform_matrix(4, 0.5, 0.4), "Theorem 1"),
        (lambda: uniform_matrix(4, 0.5, 1.0), "below 1"),
        (lambda: check_repetition(-0.1), "repetition of -0.1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason_and_a_way_out(refused, because):
    with pytest.raises(InputError, match=because) as caught:
        refused()
    assert "\n  = choose " in str(caught.value)


def test_the_limits_of_what_is_refused_pass():
    assert exponential_step(1, 6, 0.005, 0.68).outgoing > 0
    assert uniform_step(1, 2, 0.8, 0.0, 0.77).outgoing < 1
    assert uniform_matrix(4, 0.4, 0.4).tolist() == exponential_matrix(4, 0.4, 0.4).tolist() == np.eye(4).tolist()


TOKENS = np.random.default_rng(0).integers(0, 50, 100)
SAME = (TOKENS[:, None] == TOKENS).astype(float)
"""Of 100 tokens out of 50, the share r = 0.0178 of pairs is the same (App. H.2 asks for about 0.02)."""


def similarity(covariance):
    """Mean cosine of two different tokens."""
    norms = np.sqrt(np.diag(covariance))
    cosines = covariance / np.outer(norms, norms)
    return (cosines.sum() - len(norms)) / (len(norms) * (len(norms) - 1))


def through_layers(matrix):
    """The mean cosine behind each of 100 layers of attention alone, Σ ← A Σ Aᵀ (App. H.2, Fig. 7)."""
    covariance, found = SAME, {}
    for layer in range(1, 101):
        a = matrix(layer)
        covariance = a @ covariance @ a.T
        found[layer] = similarity(covariance)
    return [found[layer] for layer in (1, 10, 50, 100)]


def test_tokens_stay_apart_through_100_layers():
    def exponential(layer):
        step = exponential_step(layer, 100, 0.005)
        return exponential_matrix(100, step.incoming, step.outgoing)

    def uniform(layer):
        step = uniform_step(layer, 100, 0.8, initial=0.02)
        return uniform_matrix(100, step.incoming, step.outgoing)

    np.testing.assert_allclose(through_layers(exponential), [0.032, 0.098, 0.533, 0.884], atol=5e-4)
    np.testing.assert_allclose(through_layers(uniform), [0.025, 0.094, 0.404, 0.800], atol=5e-4)


def test_attention_without_a_prescribed_matrix_collapses():
    distance = np.subtract.outer(np.arange(100), np.arange(100))
    scores = np.where(distance >= 0, -(2.0 ** -np.arange(1, 9))[:, None, None] * distance, -np.inf)
    heads = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)  # causal ALiBi at zero queries
    covariance, found = SAME, []
    for _ in range(100):
        covariance = np.mean([a @ covariance @ a.T for a in heads], axis=0)
        found.append(similarity(covariance))
    np.testing.assert_allclose([found[0], found[9], found[49]], [0.32, 0.988, 1.0], atol=5e-3)


def test_norms_are_held_for_tokens_that_repeat():
    r, average = 0.05, 0.95 * np.eye(64) + 0.05
    norms = {}
    for repetition in (0.0, r):
        covariance = average
        for layer in range(1, 13):
            step = exponential_step(layer, 12, 0.02)
            a = exponential_matrix(64, step.incoming, step.outgoing, repetition=repetition)
            covariance = a @ covariance @ a.T
        norms[repetition] = np.diag(covariance)
    np.testing.assert_allclose(norms[r], 1, rtol=1e-11)
    assert norms[0.0].max() > 1.5  # Fig. 6: without the correction they grow
    factor = exponential_factor(64, 0.02)
    np.testing.assert_allclose(squared_norms(64, 0.02, r), np.diag(factor @ average @ factor.T), rtol=1e-12)
