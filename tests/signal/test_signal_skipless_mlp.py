"""Attention that undoes the MLP before it, against float64 NumPy: kernels through whole networks, layer by layer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erf

from ablate.errors import InputError
from ablate.signal.kernel_maps import CorrelationMap, Curved, correlation_map, correlations_through
from ablate.signal.skipless import exponential_step, scheduled_correlation, uniform_step
from ablate.signal.skipless_matrices import exponential_matrix, exponential_through, uniform_matrix, uniform_through

Array = NDArray[np.float64]

LAYERS, LENGTH = 12, 32
NODES, MASSES = np.polynomial.hermite_e.hermegauss(120)
MASSES = MASSES / MASSES.sum()


class Bent:
    """x + b erf(x/√2): odd, so that C(0) = 0, and close to linear where b is small."""

    def __init__(self, b: float):
        self.b = b

    def curve(self, x: Array) -> tuple[Array, Array, Array]:
        density = np.exp(-(x**2) / 2) * math.sqrt(2 / math.pi)
        return x + self.b * erf(x / math.sqrt(2)), 1 + self.b * density, -self.b * x * density


class ReLU:
    kinks = (0.0,)

    def curve(self, x: Array) -> tuple[Array, Array, Array]:
        return np.maximum(x, 0), (x > 0).astype(float), np.zeros_like(x)


def arc_cosine(c: Array) -> Array:
    """C of ReLU in closed form (Cho & Saul 2009)."""
    theta = np.arccos(c)
    return (np.sin(theta) + (math.pi - theta) * np.cos(theta)) / math.pi


def erf_kernel(c: Array, b: float) -> Array:
    """C of x + b erf(x/√2) in closed form: E[u v] = c, E[u erf(v/√2)] = c/√π, E[erf erf] = (2/π) asin(c/2)."""

    def covariance(c: Array) -> Array:
        return c + 2 * b * c / math.sqrt(math.pi) + b * b * 2 / math.pi * np.arcsin(c / 2)

    return covariance(c) / covariance(np.ones(()))


GRID = np.array([0.0, 1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 0.995, 0.9999, 1.0])


@pytest.mark.parametrize(
    ("activation", "expected"),
    [(ReLU(), arc_cosine(GRID)), (Bent(0.5), erf_kernel(GRID, 0.5)), (Bent(-0.4), erf_kernel(GRID, -0.4))],
)
def test_the_map_for_many_correlations_is_the_closed_form(activation: Curved, expected: Array) -> None:
    np.testing.assert_allclose(correlations_through(activation)(GRID), expected, atol=1e-9)
    assert correlations_through(activation) is correlations_through(activation)
    assert float(correlations_through(activation)(0.3)) == pytest.approx(correlation_map(activation, 0.3), abs=1e-9)


def kernel(decay: float) -> Array:
    places = np.arange(LENGTH)
    return np.eye(LENGTH) if math.isinf(decay) else np.exp(-decay * np.abs(places[:, None] - places))


def even(correlation: float) -> Array:
    return (1 - correlation) * np.eye(LENGTH) + correlation


def test_through_attention_and_mlps_kernels_are_what_the_schedule_says_at_every_depth() -> None:
    """Σ ← A Σ Aᵀ, then Σ ← C(Σ) entry by entry, C in closed form; left out, the MLPs take the kernel elsewhere."""
    b = 0.5
    through = correlations_through(Bent(b))
    sigma = paper = np.eye(LENGTH)
    furthest = 0.0
    for layer in range(1, LAYERS + 1):
        step = exponential_step(layer, LAYERS, 0.1)
        a = exponential_through(LENGTH, step.incoming, step.outgoing, through, True)
        assert np.array_equal(a, np.tril(a)) and a.min() >= 0
        sigma = a @ sigma @ a.T
        np.testing.assert_allclose(sigma, kernel(step.outgoing), atol=1e-8)
        ignored = exponential_matrix(LENGTH, step.incoming, step.outgoing)
        paper = ignored @ paper @ ignored.T
        furthest = max(furthest, float(np.abs(paper - kernel(step.outgoing)).max()))
        sigma, paper = erf_kernel(np.minimum(sigma, 1), b), erf_kernel(np.minimum(paper, 1), b)
    assert furthest > 1e-2


def test_uniform_kernels_too() -> None:
    b = 0.5
    through = correlations_through(Bent(b))
    sigma = np.eye(LENGTH)
    for layer in range(1, LAYERS + 1):
        step = uniform_through(uniform_step(layer, LAYERS, 0.8), layer, through)
        a = uniform_matrix(LENGTH, step.incoming, step.outgoing)
        sigma = a @ sigma @ a.T
        np.testing.assert_allclose(sigma, even(0.8 * layer / LAYERS), atol=1e-8)
        sigma = erf_kernel(np.minimum(sigma, 1), b)


def test_without_a_mask_the_roots_are_symmetric() -> None:
    step, through = exponential_step(5, LAYERS, 0.1), correlations_through(Bent(0.5))
    a = exponential_through(LENGTH, step.incoming, step.outgoing, through, False)
    before, after = erf_kernel(kernel(step.incoming), 0.5), kernel(step.outgoing)
    np.testing.assert_allclose(a @ before @ a.T, after, atol=1e-8)
    assert np.abs(np.triu(a, 1)).max() > 1e-3


def test_a_shorter_text_has_the_corner_of_a_longer_ones_matrix() -> None:
    step, through = exponential_step(5, LAYERS, 0.1), correlations_through(Bent(0.5))
    long = exponential_through(LENGTH, step.incoming, step.outgoing, through, True)
    short = exponential_through(9, step.incoming, step.outgoing, through, True)
    np.testing.assert_allclose(short, long[:9, :9], atol=1e-12)


def test_a_linear_map_changes_nothing() -> None:
    """C(c) = c: then it is Theorem 3's matrix."""
    places = np.cos(math.pi * (np.arange(30) + 0.5) / 30)
    fitted = np.polynomial.chebyshev.chebfit(places, np.cos((places + 1) * math.pi / 4), 29)
    linear = CorrelationMap(tuple(map(float, fitted)))
    step = exponential_step(5, LAYERS, 0.1)
    a = exponential_through(LENGTH, step.incoming, step.outgoing, linear, True)
    np.testing.assert_allclose(a, exponential_matrix(LENGTH, step.incoming, step.outgoing), atol=1e-11)


def test_what_no_softmax_gives_is_refused_with_the_reason_and_ways_out() -> None:
    through = correlations_through(ReLU())
    step = exponential_step(3, LAYERS, 0.1)
    with pytest.raises(InputError) as refused:
        exponential_through(LENGTH, step.incoming, step.outgoing, through, True)
    assert "no negative weights (arXiv:2302.10322, Sec. 3.4)" in str(refused.value) and "dks" in str(refused.value)
    with pytest.raises(InputError, match="no attention moves tokens apart"):
        uniform_through(uniform_step(3, LAYERS, 0.8), 3, through)
    assert uniform_through(uniform_step(1, LAYERS, 0.8), 1, through) == uniform_step(1, LAYERS, 0.8)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 3.0])
def test_other_rates_of_growth_begin_and_end_where_the_linear_one_does(power: float) -> None:
    """App. C: ρ_l = ρ_0 + (ρ_L - ρ_0) (l/L)^p; kernels multiplied through all layers."""
    sigma, seen = even(0.1), []
    for layer in range(1, LAYERS + 1):
        step = uniform_step(layer, LAYERS, 0.8, 0.1, 0.0, power)
        a = uniform_matrix(LENGTH, step.incoming, step.outgoing)
        sigma = a @ sigma @ a.T
        seen.append(sigma[-1, 0])
    expected = [0.1 + 0.7 * (layer / LAYERS) ** power for layer in range(1, LAYERS + 1)]
    np.testing.assert_allclose(seen, expected, atol=1e-12)
    assert scheduled_correlation(0, LAYERS, 0.8, 0.1, power) == 0.1
