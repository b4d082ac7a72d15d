"""Token kernels of activations against quadrature over two normals, for tokens of one size and of nearly one."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest
from scipy.special import erf

from ablate.components.activations.gelu import Config as Gelu
from ablate.components.activations.relu import Config as ReLU
from ablate.signal.gaussian_activations import ALIKE, NODES, activation_kernel

CORRELATION = np.array([[1.0, 0.3, -0.4], [0.3, 1.0, 0.9], [-0.4, 0.9, 1.0]])
SPREADS = [0.0, 1e-12, 1e-6, 0.5 * ALIKE, 1.5 * ALIKE, 5e-3, 0.3]
"""How far variances are apart, relatively: on both sides of what is taken for one size but for a first order."""


def kernel(spread):
    size = np.sqrt(1.7 * (1 + spread * np.array([0.0, 0.4, 1.0])))
    return np.outer(size, size) * CORRELATION


def gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


def gelu_slope(x):
    return (1 + erf(x / np.sqrt(2))) / 2 + x * np.exp(-(x**2) / 2) / np.sqrt(2 * pi)


def quadrature(function, covariance):
    """E[f(u_i) f(u_j)] of two normals, by Gauss and Hermite."""
    z, weight = np.polynomial.hermite_e.hermegauss(140)
    weight = weight / weight.sum()
    size = np.sqrt(np.diag(covariance))
    result = np.empty_like(covariance)
    for (i, j), entry in np.ndenumerate(covariance):
        c = min(entry / (size[i] * size[j]), 1.0)
        v = c * z[:, None] + np.sqrt(1 - c * c) * z
        result[i, j] = weight @ (function(size[i] * z)[:, None] * function(size[j] * v)) @ weight
    return result


@pytest.mark.parametrize("spread", SPREADS)
def test_a_smooth_activation(spread):
    covariance = kernel(spread)
    moments = activation_kernel(Gelu(), covariance)
    assert moments.values == pytest.approx(quadrature(gelu, covariance), rel=1e-8, abs=1e-8)
    assert moments.slopes == pytest.approx(quadrature(gelu_slope, covariance), rel=1e-8, abs=1e-8)
    z, weight = np.polynomial.hermite_e.hermegauss(140)
    size = np.sqrt(np.diag(covariance))[:, None]
    assert moments.mean == pytest.approx(gelu(size * z) @ weight / weight.sum(), rel=1e-8)
    assert moments.slope == pytest.approx(gelu_slope(size * z) @ weight / weight.sum(), rel=1e-8)


@pytest.mark.parametrize("spread", SPREADS)
def test_an_activation_whose_slope_jumps(spread):
    """Cho & Saul 2009, Eq. 6: √(q_i q_j) (√(1-c²) + c (π - acos c)) / (2π)."""
    covariance = kernel(spread)
    moments = activation_kernel(ReLU(), covariance)
    size, angle = np.sqrt(np.diag(covariance)), pi - np.arccos(CORRELATION)
    ramps = (np.sqrt(1 - CORRELATION**2) + CORRELATION * angle) / (2 * pi)
    assert moments.values == pytest.approx(np.outer(size, size) * ramps, rel=1e-8, abs=1e-8)
    assert moments.slopes == pytest.approx(angle / (2 * pi), rel=1e-8, abs=1e-8)
    assert moments.mean == pytest.approx(size / np.sqrt(2 * pi), rel=1e-8)


@pytest.mark.parametrize("spread", [5e-3, 0.3])
def test_many_sizes_are_interpolated_between(spread):
    size = np.sqrt(1.7 * (1 + spread * np.linspace(0, 1, 2 * NODES)))
    mixed = np.cos(np.subtract.outer(np.arange(2 * NODES), np.arange(2 * NODES)) / 9)
    covariance = np.outer(size, size) * mixed
    moments = activation_kernel(Gelu(), covariance)
    assert moments.values == pytest.approx(quadrature(gelu, covariance), rel=1e-8, abs=1e-8)
    assert moments.slopes == pytest.approx(quadrature(gelu_slope, covariance), rel=1e-8, abs=1e-8)


def test_sizes_that_are_apart_are_not_taken_for_one():
    """The twin: the kernel of the mean of the sizes is off by a first order of their spread."""
    apart, one = (activation_kernel(Gelu(), kernel(spread)).values for spread in (0.5 * ALIKE, 0.0))
    assert apart != pytest.approx((1 + 0.2 * ALIKE) * one, rel=1e-7)
