"""Activations on Gaussian inputs of any variances: the token kernel of φ(u), and what multiplies that of its gradient.

Entries u_i and u_j of one channel at two tokens are normal, of variances q_i and q_j and correlation c. With Hermite
polynomials h_n, normalised so that E[h_n(z)²] = 1, and z ~ N(0, 1),

    φ(√q z) = Σ_n a_n(q) h_n(z)              E[φ(u_i) φ(u_j)]   = Σ_n a_n(q_i) a_n(q_j) cⁿ
    b_n(q) = √(n+1) a_{n+1}(q) / √q          E[φ'(u_i) φ'(u_j)] = Σ_n b_n(q_i) b_n(q_j) cⁿ

A jump of φ' at 0 makes both series slow. It is split off as φ = ψ + δ max(0, ·), of which the product of max(0, ·) with
itself has a closed form (Cho & Saul 2009, Eq. 6 to 8), and the others' series are quick again. Jumps elsewhere are left
in the series.

    Poole et al. 2016, arXiv:1606.05340; Daniely et al. 2016, arXiv:1602.05897, Lemma 11 (the series).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import inf, pi, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.signal.kernel_maps import Curved, Floats, jumps, kinks, normal_nodes

Array: TypeAlias = NDArray[np.float64]

TERMS = 48  # the most terms of a series; the share of later ones at c = 1 goes to the last
DIGITS, SAME = 12, 1e-10  # variances that agree to as many digits are one, and roots that differ by no more
NOTHING = 1e-11  # a series ends where products of coefficients are below this, relative to their sum
ALIKE = 1e-4
"""Variances that differ by less than this are near enough for a first order in their difference, within 1e-8."""
NODES, CLOSE = 12, 1e-2
"""More variances than this that differ by less than `RANGE` are interpolated between so many, or half of them where
they differ by less than `CLOSE`, within 1e-9."""
RANGE = 4.0


@dataclass(frozen=True, slots=True)
class ActivationKernel:
    """`values` E[φ(u_i) φ(u_j)], `slopes` E[φ'(u_i) φ'(u_j)], [T, T]; `mean` E[φ(u_i)], `slope` E[φ'(u_i)], [T].

    At the mean of the variances, `follows` is s = E[u φ φ'] / E[φ²], the slope of log E[φ²] over that of the variance,
    `one_sided` E[z φ²]² / E[φ²]² for u = √q z, and `excess` E[φ⁴] / E[φ²]² - 1 - 2 s² less that: what φ² varies by, in
    the parts of it that go with u² (s), with u, and with neither.
    """

    values: Array
    slopes: Array
    mean: Array
    slope: Array
    follows: float
    one_sided: float
    excess: float


def activation_kernel(activation: Curved, kernel: Array) -> ActivationKernel:
    """Compute the moments of an activation whose inputs have the covariance `kernel` [T, T].

    Within 1e-8 for activations that are smooth on the scale of their inputs but for a jump of φ' at 0.
    """
    largest = float(np.diag(kernel).max()) or 1.0
    variances, tokens = np.unique(np.round(np.diag(kernel) / largest, DIGITS), return_inverse=True)
    variances = largest * variances
    root = np.sqrt(np.diag(kernel))
    size = np.where(root > 0, root, 1.0)
    correlation = np.clip(kernel / np.outer(size, size), -1.0, 1.0)
    if variances[-1] - variances[0] <= ALIKE * variances[-1]:
        values, slopes, mean, slope = _of_one_size(activation, root, correlation)
    else:
        values, slopes, mean, slope = _of_sizes(activation, variances, tokens, correlation)
    scatter = _scatter(activation, float(np.diag(kernel).mean()))
    return ActivationKernel(values, slopes, mean, slope, *scatter)


def _of_one_size(activation: Curved, root: Array, correlation: Array) -> tuple[Array, Array, Array, Array]:
    """Return the first four of an `ActivationKernel` where all √q are nearly √q₀: with ε_i = √q_i - √q₀,

    a_n(q_i) a_n(q_j) = a_n² + (ε_i + ε_j) a_n a_n' + O(ε²), a_n' the slope of a_n over √q.
    """
    low, high = float(root.min()), float(root.max())
    middle, apart = (low + high) / 2, high - low if high - low > SAME * high else 0.0
    series = _series(activation, np.array([low, high] if apart else [middle]) ** 2)
    (a, da), (b, db), (mean, dmean), (slope, dslope) = (
        (each.mean(0), (each[-1] - each[0]) / (apart or 1.0))
        for each in (series.values, series.slopes, series.mean, series.slope)
    )
    more, sums = root - middle, np.add.outer(root - middle, root - middle)
    jump, (ramp, ramp_slope) = series.jump, _ramp_series() if series.jump else (0.0, 0.0)
    parts = ((a, da, middle * ramp, ramp), (b, db, ramp_slope, 0.0))
    values, slopes = (
        _power_series(x * (x + 2 * jump * y), correlation, NOTHING)
        + (sums * _power_series(x * dx + jump * (x * dy + dx * y), correlation, NOTHING / ALIKE) if apart else 0.0)
        for x, dx, y, dy in parts
    )
    if jump:
        both, both_slopes = _ramps(correlation)
        values, slopes = values + jump**2 * np.outer(root, root) * both, slopes + jump**2 * both_slopes
    return values, slopes, mean + dmean * more, slope + dslope * more


def _of_sizes(
    activation: Curved, variances: Array, tokens: NDArray[np.intp], correlation: Array
) -> tuple[Array, Array, Array, Array]:
    """The same for any variances; `tokens` has the place of each token's among them."""
    series = _series(activation, variances)
    a, b = series.values, series.slopes
    values, slopes = _product(a, a, tokens, correlation), _product(b, b, tokens, correlation)
    if series.jump:
        root = np.sqrt(variances)
        ramp, ramp_slope = _ramp_series()
        c, d = np.outer(root, ramp), np.tile(ramp_slope, (len(variances), 1))
        both, both_slopes = _ramps(correlation)
        mixed = _product(a, c, tokens, correlation) + _product(c, a, tokens, correlation)
        mixed_slopes = _product(b, d, tokens, correlation) + _product(d, b, tokens, correlation)
        values = values + series.jump * mixed + series.jump**2 * np.outer(root[tokens], root[tokens]) * both
        slopes = slopes + series.jump * mixed_slopes + series.jump**2 * both_slopes
    return values, slopes, series.mean[tokens], series.slope[tokens]


def _scatter(activation: Curved, variance: float) -> tuple[float, float, float]:
    """The last three numbers of an `ActivationKernel` at a variance; (1, 0, 0) where φ is 0."""
    root = sqrt(variance)
    z, weight, _ = _nodes(tuple(sorted({0.0, *(cut / (root or 1.0) for cut in jumps(activation))})))
    f, df, _ = activation.curve(root * z)
    square = float(f**2 @ weight)
    if not 0 < square < inf:
        return 1.0, 0.0, 0.0
    follows = float((root * z * f * df) @ weight) / square
    one_sided = (float((z * f**2) @ weight) / square) ** 2
    return follows, one_sided, float((f**2 / square) ** 2 @ weight) - 1 - 2 * follows**2 - one_sided


@dataclass(frozen=True, slots=True)
class _Series:
    """For each variance the coefficients of ψ and ψ', [variances, TERMS], E[φ] and E[φ']; and the jump δ of φ' at 0."""

    values: Array
    slopes: Array
    mean: Array
    slope: Array
    jump: float


def _series(activation: Curved, variances: Array) -> _Series:
    """Integrate an activation against Hermite polynomials, at all variances at once unless jumps part their nodes."""
    jump = _jump(activation)
    if set(jumps(activation)) <= {0.0}:
        nodes = NODES // 2 if variances[-1] < (1 + CLOSE) * variances[0] else NODES
        if len(variances) > nodes and variances[-1] < RANGE * variances[0]:
            return _interpolated(activation, variances, jump, nodes)
        return _integrated(activation, variances, jump, (0.0,))
    rows = [
        _integrated(activation, each, jump, tuple(cut / (sqrt(each[0]) or 1.0) for cut in (0.0, *jumps(activation))))
        for each in variances[:, None]
    ]
    parts = ([getattr(row, name) for row in rows] for name in ("values", "slopes", "mean", "slope"))
    values, slopes, mean, slope = (np.concatenate(part) for part in parts)
    return _Series(values, slopes, mean, slope, jump)


def _integrated(activation: Curved, variances: Array, jump: float, cuts: tuple[float, ...]) -> _Series:
    return _series_of(_integrals(activation, variances, jump, cuts), jump)


def _integrals(activation: Curved, variances: Array, jump: float, cuts: tuple[float, ...]) -> Array:
    """For each variance the coefficients of ψ, their mean square, the same of ψ', E[φ] and E[φ']."""
    z, weight, basis = _nodes(cuts)
    root = np.sqrt(variances)[:, None]
    f, df, _ = activation.curve(root * z)
    smooth, smooth_slope = f - jump * root * np.maximum(z, 0.0), df - jump * (z > 0)
    columns = [(weight * smooth) @ basis.T, smooth**2 @ weight[:, None]]
    columns += [(weight * smooth_slope) @ basis.T, smooth_slope**2 @ weight[:, None]]
    return np.concatenate([*columns, f @ weight[:, None], df @ weight[:, None]], axis=1)


def _series_of(integrals: Array, jump: float) -> _Series:
    values, square, slopes, slope_square, mean, slope = np.split(integrals, np.cumsum([TERMS, 1, TERMS, 1, 1]), axis=1)
    return _Series(_with_rest(values, square), _with_rest(slopes, slope_square), mean[:, 0], slope[:, 0], jump)


def _interpolated(activation: Curved, variances: Array, jump: float, nodes: int) -> _Series:
    """Interpolate the integrals in √q, of which they are smooth functions, between Chebyshev points."""
    low, high = sqrt(variances[0]), sqrt(variances[-1])
    points = (low + high) / 2 + (high - low) / 2 * np.polynomial.chebyshev.chebpts1(nodes)
    at = _integrals(activation, points**2, jump, (0.0,))
    apart = np.sqrt(variances)[:, None] - points
    basis = np.stack(
        [
            np.prod(np.delete(apart, k, axis=1), axis=1) / np.prod(point - np.delete(points, k))
            for k, point in enumerate(points)
        ],
        axis=1,
    )
    return _series_of(basis @ at, jump)


@functools.lru_cache(maxsize=16)
def _nodes(cuts: tuple[float, ...]) -> tuple[Floats, Floats, Array]:
    """Nodes z, weights, and the Hermite polynomials at the nodes, [TERMS, nodes]."""
    z, weight = normal_nodes(cuts)
    return z, weight, _hermite(z)


def _with_rest(coefficients: Array, squares: Array) -> Array:
    """Give the last coefficient of each row the share of later ones in its mean square.

    Its sign is + in every row, since later coefficients have the same at all variances, and come in pairs.
    """
    rest = np.maximum(squares[:, 0] - (coefficients**2).sum(1), 0.0)
    last = np.sqrt(coefficients[:, -1] ** 2 + rest)
    return np.concatenate([coefficients[:, :-1], last[:, None]], axis=1)


def _jump(activation: Curved) -> float:
    """φ'(0+) - φ'(0-) where φ' jumps at 0, else 0."""
    if 0.0 not in kinks(activation):
        return 0.0
    tiny = np.finfo(np.float64).tiny
    _, (left, right), _ = activation.curve(np.array([-tiny, tiny]))
    return float(right - left)


def _hermite(z: Floats) -> Array:
    """h_0(z), …, h_{TERMS-1}(z), [TERMS, nodes]."""
    rows = [np.ones_like(z), z]
    for n in range(1, TERMS - 1):
        rows.append((z * rows[n] - sqrt(n) * rows[n - 1]) / sqrt(n + 1))
    return np.array(rows)


@functools.cache
def _ramp_series() -> tuple[Array, Array]:
    """The coefficients of max(0, z) and of its slope, [TERMS] each."""
    z, weight, basis = _nodes((0.0,))
    return basis @ (weight * np.maximum(z, 0.0)), basis @ (weight * (z > 0))


def _ramps(c: Array) -> tuple[Array, Array]:
    """E[max(0, u) max(0, v)] = (√(1-c²) + c (π - acos c)) / (2π) and E[1(u>0) 1(v>0)] = (π - acos c) / (2π)."""
    angle = pi - np.arccos(c)
    return (np.sqrt((1 - c) * (1 + c)) + c * angle) / (2 * pi), angle / (2 * pi)


def _power_series(coefficients: Array, c: Array, nothing: float) -> Array:
    """Σ_n s_n c_ijⁿ, but for terms at the end that add up to less than `nothing` of all."""
    sizes = np.abs(coefficients)
    left = np.cumsum(sizes[::-1])[::-1]
    terms = max(int((left > nothing * left[0]).sum()), 1)
    total = np.full_like(c, coefficients[terms - 1])
    for coefficient in coefficients[terms - 2 :: -1] if terms > 1 else ():
        total *= c
        total += coefficient
    return total


def _product(a: Array, b: Array, tokens: NDArray[np.intp], c: Array) -> Array:
    """Σ_n a_n(i) b_n(j) c_ijⁿ, with the coefficients of each variance, and the variance of each token."""
    sizes = np.abs(a).max(0) * np.abs(b).max(0)
    terms = 1 + int(np.flatnonzero(sizes > NOTHING * sizes.sum()).max(initial=0))
    total, term = np.zeros_like(c), np.empty_like(c)
    for n in reversed(range(terms)):
        total *= c
        total += np.multiply.outer(a[tokens, n], b[tokens, n], out=term)
    return total
