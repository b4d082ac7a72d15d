"""The kernel maps of activations against closed forms, and against sums over a plain grid where there are none."""

import math

import numpy as np
import pytest
from builders import CATALOGUE
from scipy.special import erf

from ablate.signal.kernel_maps import Shaped, correlation_map, correlations_through, local_maps
from ablate.signal.network_shaping import UNCHANGED, AffineMaps, leaky_correlation

RELU, GELU, TANH, SQUARED = (CATALOGUE[name].config() for name in ("relu", "gelu", "tanh", "relu_squared"))
CORRELATIONS = [-1.0, -0.999999, -0.7, -1e-9, 0.0, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9, 1.0]


class Steep:
    """tanh, met a hundred times as steep."""

    def curve(self, x):
        return TANH.curve(x)


class TwoKinks:
    """Clamped to [-1, 2]."""

    kinks = (-1.0, 2.0)

    def curve(self, x):
        inside = ((x > -1) & (x <= 2)).astype(float)
        return np.clip(x, -1, 2), inside, np.zeros_like(x)


def relu_correlation(c: float) -> float:
    return (math.sqrt(1 - c * c) + (math.pi - math.acos(c)) * c) / math.pi


def gelu_product(variance: float, c: float) -> float:
    """E[GELU(u) GELU(v)]: DSLM's covariance plus the squared mean."""
    s, r = variance, c
    a = s / (1 + s)
    mean = s / math.sqrt(2 * math.pi * (s + 1))
    root = (s + 1) * math.sqrt((s + 1) ** 2 - (r * s) ** 2)
    inner = math.pi * r + 2 * r * math.asin(r * a) + 2 * s * (s * (1 - r * r) + 1 + r * r) / root - 2 * s / (s + 1)
    return s / (4 * math.pi) * inner + mean**2


@pytest.mark.sampled(4)
@pytest.mark.parametrize("c", CORRELATIONS)
def test_correlations_after_relu_and_gelu_are_their_closed_forms(c):
    assert abs(correlation_map(RELU, c) - relu_correlation(c)) < 1e-12
    for scale in (0.05, 1.0, 3.0, 40.0):
        expected = gelu_product(scale**2, c) / gelu_product(scale**2, 1.0)
        assert abs(correlation_map(GELU, c, AffineMaps(scale)) - expected) < 1e-11
    for slope in (0.0, 0.3, -0.5):
        leaky = CATALOGUE["leaky_relu"].config(slope=slope)
        assert abs(correlation_map(leaky, c) - leaky_correlation(c, slope)) < 1e-12


@pytest.mark.parametrize("c", [-0.95, -0.4, 0.3, 0.8, 0.99])
def test_correlations_after_a_shaped_tanh_are_those_of_a_grid(c):
    affine = AffineMaps(0.7, 0.9, -0.5, 2.0)
    z = np.arange(-9, 9, 0.02)  # the trapezoid rule converges like exp(-1/step) for what is smooth everywhere
    density = np.exp(-(z**2) / 2) * 0.02 / math.sqrt(2 * math.pi)
    phi = lambda x: 2.0 * (np.tanh(0.7 * x + 0.9) - 0.5)  # noqa: E731
    v = phi(c * z[:, None] + math.sqrt(1 - c * c) * z[None, :]) @ density
    expected = density @ (phi(z) * v) / (density @ phi(z) ** 2)
    assert abs(correlation_map(TANH, c, affine) - expected) < 1e-11


@pytest.mark.parametrize("c", [-0.9, 0.2, 0.95])
def test_correlations_across_several_kinks_are_those_of_their_slopes(c):
    """By Price's theorem C'(c) = E[φ'(u) φ'(v)] / Q, the chance that both are between the kinks."""
    from scipy.stats import multivariate_normal

    step = 1e-4
    both = multivariate_normal([0, 0], [[1, c], [c, 1]])
    chance = both.cdf([2, 2], lower_limit=[-1, -1])
    slope = (correlation_map(TwoKinks(), c + step) - correlation_map(TwoKinks(), c - step)) / (2 * step)
    assert abs(slope * local_maps(TwoKinks()).q - chance) < 1e-6


@pytest.mark.parametrize("c", CORRELATIONS)
def test_correlations_after_squared_relu_are_their_closed_form(c):
    """Cho & Saul 2009, n = 2; the same between maps that take the bend away from the ends of unit steps."""
    angle = math.acos(c)
    expected = (3 * math.sin(angle) * c + (math.pi - angle) * (1 + 2 * c * c)) / (3 * math.pi)
    assert abs(correlation_map(SQUARED, c) - expected) < 1e-12
    there = Shaped(SQUARED, AffineMaps(0.7, 0.3, 0.0, 2.0))
    back = AffineMaps(1 / 0.7, -0.3 / 0.7)
    assert abs(correlation_map(there, c, back) - expected) < 1e-12
    if c >= 0:
        assert abs(float(correlations_through(SQUARED)(c)) - expected) < 1e-9


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.7), (0.6, -0.5), (20.0, 3.0)])
def test_a_bend_inside_a_step_costs_no_digits(scale, shift):
    """Moments of (z + t)² where z > -t, t = shift/scale, in closed form."""
    t = shift / scale
    above, density = (1 + math.erf(t / math.sqrt(2))) / 2, math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    first, second = t * above + density, (1 + t * t) * above + t * density
    q = (t**4 + 6 * t**2 + 3) * above + (t**3 + 5 * t) * density
    expected = second**2 / q, 4 * first**2 / q, 4 * second / q, 4 * above / q
    shaped = Shaped(SQUARED, AffineMaps(scale, shift))
    assert shaped.bends == (-shift / scale,)
    assert shaped.kinks == ()
    for maps in (local_maps(shaped), local_maps(Shaped(shaped, UNCHANGED)), local_maps(SQUARED, shaped.affine)):
        found = maps.c_at_0, maps.c_slope_at_0, maps.c_slope_at_1, maps.c_curvature_at_1
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("c", [0.3, 0.9, 0.999])
def test_a_shaped_bend_has_the_correlations_of_the_same_maps_in_one(c):
    affine = AffineMaps(1.0, 0.7, -0.4, 1.3)
    assert abs(correlation_map(Shaped(SQUARED, affine), c) - correlation_map(SQUARED, c, affine)) < 1e-12


def test_a_correlation_is_within_one():
    with pytest.raises(ValueError, match=r"within \[-1, 1\], not 1.1"):
        correlation_map(RELU, 1.1)


def test_local_maps_of_relu_and_gelu_are_their_closed_forms():
    relu = local_maps(RELU)
    found = relu.mean, relu.q, relu.q_slope, relu.c_at_0, relu.c_slope_at_0, relu.c_slope_at_1, relu.c_curvature_at_1
    np.testing.assert_allclose(
        found, (1 / math.sqrt(2 * math.pi), 0.5, 0.5, 1 / math.pi, 0.5, 1.0, math.inf), rtol=1e-13
    )
    for scale in (0.01, 1.0, 50.0):
        s, a = scale**2, scale**2 / (1 + scale**2)
        gelu = local_maps(GELU, AffineMaps(scale))
        assert math.isclose(gelu.q, gelu_product(s, 1.0), rel_tol=1e-13)
        grown = (gelu_product(s * (1 + 1e-5), 1.0) - gelu_product(s * (1 - 1e-5), 1.0)) / 2e-5
        assert math.isclose(gelu.q_slope, grown, rel_tol=1e-8)
        slopes = 0.25 + math.asin(a) / (2 * math.pi) + s * (5 * s + 3) / (2 * math.pi * (s + 1) * (2 * s + 1) ** 1.5)
        assert math.isclose(gelu.c_slope_at_1, s * slopes / gelu.q, rel_tol=1e-13)
        assert math.isclose(gelu.c_at_0, s**2 / (2 * math.pi * (s + 1)) / gelu.q, rel_tol=1e-12)
        assert math.isclose(gelu.c_slope_at_0, s / 4 / gelu.q, rel_tol=1e-13)  # E[Φ(u) + uφ(u)] = 1/2 + 0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e6])
def test_steps_far_narrower_than_a_normal_are_met(scale):
    """a² E[tanh'(a (z - 1/2))²], summed over the step alone where that is narrow."""
    maps = local_maps(Steep(), AffineMaps(scale, -scale / 2))
    u = np.arange(-10 * scale, 9 * scale, 1e-3 * scale) if scale < 1e2 else np.arange(-40, 40, 1e-3)
    z, step = 0.5 + u / scale, (u[1] - u[0]) / scale
    expected = step * scale**2 * (np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)) @ np.cosh(u) ** -4.0
    assert math.isclose(maps.c_slope_at_1 * maps.q, expected, rel_tol=1e-10)


def test_curvature_is_that_of_the_correlation_map():
    affine, h = AffineMaps(0.8, 0.3, -0.2, 1.5), 1e-3
    maps = local_maps(GELU, affine)
    c = [correlation_map(GELU, 1 - k * h, affine) for k in range(5)]
    slope = (25 * c[0] - 48 * c[1] + 36 * c[2] - 16 * c[3] + 3 * c[4]) / (12 * h)
    bend = (35 * c[0] - 104 * c[1] + 114 * c[2] - 56 * c[3] + 11 * c[4]) / (12 * h * h)
    assert abs(slope - maps.c_slope_at_1) < 1e-8
    assert abs(bend - maps.c_curvature_at_1) < 1e-5
    assert abs(correlation_map(GELU, 0.0, affine) - maps.c_at_0) < 1e-13
    middle = (correlation_map(GELU, h, affine) - correlation_map(GELU, -h, affine)) / (2 * h)
    assert abs(middle - maps.c_slope_at_0) < 1e-6


def test_a_shaped_activation_is_one_itself():
    affine = AffineMaps(0.5, -1.0, 0.25, 3.0)
    shaped = Shaped(TwoKinks(), affine)
    assert shaped.kinks == (0.0, 6.0)
    assert local_maps(shaped) == local_maps(shaped, UNCHANGED)
    one, other = local_maps(shaped), local_maps(TwoKinks(), affine)
    assert math.isclose(one.q, other.q, rel_tol=1e-13)
    x = np.linspace(-3, 8, 23)
    smooth = Shaped(GELU, affine)
    f = lambda x: 3 * ((0.5 * x - 1) / 2 * (1 + erf((0.5 * x - 1) / math.sqrt(2))) + 0.25)  # noqa: E731
    np.testing.assert_allclose(smooth.curve(x)[0], f(x), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(smooth.curve(x)[1], (f(x + 1e-5) - f(x - 1e-5)) / 2e-5, rtol=0, atol=1e-9)
    np.testing.assert_allclose(smooth.curve(x)[2], (f(x + 1e-4) - 2 * f(x) + f(x - 1e-4)) / 1e-8, rtol=0, atol=1e-6)
