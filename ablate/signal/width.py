"""Width: activations on the normal inputs of a wide layer, and how far one network of finite width is from its mean."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations
from math import inf, isfinite, pi, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.signal.kernel_maps import Curved, Floats, jumps, kinks, normal_nodes

# Activations on Gaussian inputs of any variances: the token kernel of φ(u), and what multiplies that of its gradient.
#
# Entries u_i and u_j of one channel at two tokens are normal, of variances q_i and q_j and correlation c. With
# Hermite polynomials h_n, normalised so that E[h_n(z)²] = 1, and z ~ N(0, 1),
#
#     φ(√q z) = Σ_n a_n(q) h_n(z)              E[φ(u_i) φ(u_j)]   = Σ_n a_n(q_i) a_n(q_j) cⁿ
#     b_n(q) = √(n+1) a_{n+1}(q) / √q          E[φ'(u_i) φ'(u_j)] = Σ_n b_n(q_i) b_n(q_j) cⁿ
#
# A jump of φ' at 0 makes both series slow. It is split off as φ = ψ + δ max(0, ·), of which the product of max(0, ·)
# with itself has a closed form (Cho & Saul 2009, Eq. 6 to 8), and the others' series are quick again. Jumps elsewhere
# are left in the series.
#
#     Poole et al. 2016, arXiv:1606.05340; Daniely et al. 2016, arXiv:1602.05897, Lemma 11 (the series).

Array: TypeAlias = NDArray[np.float64]

TERMS = 48
"""The most terms of a series; what later ones would add at c = 1 is given to the last."""
DIGITS, SAME = 12, 1e-10
"""Variances that agree to as many digits are one, and roots that differ by no more."""
NOTHING = 1e-11
"""What products of coefficients are below relative to their sum ends a series."""
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
    """Return the same for any variances, with that of each token."""
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
    """Return the last three numbers of an `ActivationKernel` at a variance; (1, 0, 0) where φ gives nothing."""
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
    """Return, for each variance, the coefficients of ψ, their mean square, the same of ψ', E[φ] and E[φ']."""
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
    """Return nodes z, weights, and the Hermite polynomials at the nodes, [TERMS, nodes]."""
    z, weight = normal_nodes(cuts)
    return z, weight, _hermite(z)


def _with_rest(coefficients: Array, squares: Array) -> Array:
    """Give the last coefficient of each row what those that follow would add to its mean square.

    Its sign is + in every row, since later coefficients have the same at all variances, and come in pairs.
    """
    rest = np.maximum(squares[:, 0] - (coefficients**2).sum(1), 0.0)
    last = np.sqrt(coefficients[:, -1] ** 2 + rest)
    return np.concatenate([coefficients[:, :-1], last[:, None]], axis=1)


def _jump(activation: Curved) -> float:
    """Return φ'(0+) - φ'(0-) where φ' jumps at 0, else 0."""
    if 0.0 not in kinks(activation):
        return 0.0
    tiny = np.finfo(np.float64).tiny
    _, (left, right), _ = activation.curve(np.array([-tiny, tiny]))
    return float(right - left)


def _hermite(z: Floats) -> Array:
    """Return h_0(z), …, h_{TERMS-1}(z), [TERMS, nodes]."""
    rows = [np.ones_like(z), z]
    for n in range(1, TERMS - 1):
        rows.append((z * rows[n] - sqrt(n) * rows[n - 1]) / sqrt(n + 1))
    return np.array(rows)


@functools.cache
def _ramp_series() -> tuple[Array, Array]:
    """Return the coefficients of max(0, z) and of its slope, [TERMS] each."""
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


# Finite width: how far the mean square of one random network is from its mean over random weights, to first order.
#
#     m̂ = m (1 + δ)        Var δ of a signal = follows² · Var δ of its root + what its own weights add
#
# A matrix of independent normal entries with d outputs adds 2 P / d, where P = ‖Σ‖² / (tr Σ)² is 1 if all T tokens
# are one and 1/T if they have nothing in common (Σ̂ is a Wishart matrix of d degrees of freedom); an orthogonal one
# with d' inputs 2 P (1/d - 1/d'), or nothing. Tokens may be mixed behind it: P is that of what comes out. An
# activation of slope s (of log E[φ²]) takes what came before times s², and adds what else φ² varies by over its
# width, in its part that goes with u times Σ_ij √(Σ_ii Σ_jj) Σ_ij / (tr Σ)² (`ActivationKernel`), in the rest
# times P. A norm forgets the size, and a sum weighs each path by its share of the mean square, of which two paths
# that meet by chance have a part.
#
# The size m_t of one token, of P = 1, varies by more than the mean over tokens. What of it they do not share has the
# variance D, and what bends with it is larger on average than at its mean:
#
#   log mean m_t - log m = a      a' = f a + κ α² D / 2      κ = m''/m over log-size, less f: 0 for m and m + c, s (s-1)
#                                 D' = f² α² D + u                for m^s; a sum has the mean κ of its paths by share
#
# α is the share that is a token's own of what it takes from all tokens, 1 but behind attention. What is added behind
# such a map, u, is of mean 1 and makes no difference. On the way back, the gradient of a token goes as m'/m through
# each map, without what its weights added: see `theory/initial_state.py`.
#
#     Li, Nica & Roy 2021, arXiv:2106.04013, and Hanin & Nica 2020, arXiv:1812.05994 (log-normal sizes, of variance
#     proportional to depth over width).


@dataclass(frozen=True, slots=True)
class Scatter:
    """How the log of a mean square varies from one draw of the weights to another, from its root on.

    `follows` is its slope over the log of the root's mean square, `variance` what came before the last activation,
    and `freedom` the sum of 1/d over the matrices since. Of one token, `own` is that variance, u, `noise` what all
    weights have added, each where it was added, `bends` κ, `raised` a of a root of D = 0, and `alone` α.
    """

    follows: float = 1.0
    variance: float = 0.0
    freedom: float = 0.0
    own: float = 0.0
    noise: float = 0.0
    bends: float = 0.0
    raised: float = 0.0
    alone: float = 1.0

    def total(self, kernel: Floats) -> float:
        """Return the variance that the weights between the root and this kernel add."""
        return self.variance + 2 * self.freedom * participation(kernel)

    @property
    def of_token(self) -> float:
        """The variance u that these weights add to the log of the mean square of one token."""
        return self.own + 2 * self.freedom

    @property
    def all_noise(self) -> float:
        """The variance that these weights add to one token, each where it stands, forgotten since or not."""
        return self.noise + 2 * self.freedom

    def through_weights(self, outputs: float, lengths_of: float = inf) -> Scatter:
        """Go through a matrix of so many outputs, which keeps the lengths of signals of as many channels, if of any."""
        return replace(self, freedom=self.freedom + max(1 / outputs - 1 / lengths_of, 0.0))

    def activated(self, kernel: Floats, width: float, moments: ActivationKernel) -> Scatter:
        """Go through an activation of inputs of this kernel: what the last matrices add is part of E[φ²] already."""
        size, whole = np.sqrt(np.diag(kernel)), float(np.trace(kernel))
        one_sided = float(size @ (kernel / whole) @ size) / whole if whole > 0 and isfinite(whole) else 0.0
        added = moments.one_sided * one_sided + max(moments.excess, 0.0) * participation(kernel)
        slope, alone = moments.follows, (moments.one_sided + max(moments.excess, 0.0)) / width
        return Scatter(
            slope * self.follows,
            slope**2 * self.total(kernel) + added / width,
            own=slope**2 * self.of_token + alone,
            noise=self.all_noise + alone,
            bends=slope * ((slope - 1) * self.follows**2 + self.bends),
            raised=slope * (self.raised + (slope - 1) * self.own / 2),
            alone=self.alone,
        )

    def forgotten(self) -> Scatter:
        """Go through a norm, which forgets the size."""
        return Scatter(follows=0.0, noise=self.all_noise)

    def _more(self, variance: float) -> Scatter:
        return replace(self, variance=self.variance + variance, own=self.own + variance, noise=self.noise + variance)

    def mixed(self, kernel: Floats, matrix: Floats, mixed: Floats) -> Scatter:
        """Go through a mixing M of tokens of this kernel, to those of `mixed`; what comes from others is not alone."""
        if matrix.shape[0] != matrix.shape[1]:
            return replace(self, alone=0.0)
        whole = np.diag(mixed)
        there = (whole > 0) & np.isfinite(whole)
        own = np.diag(matrix)[there] ** 2 * np.diag(kernel)[there] / whole[there]
        return replace(self, alone=self.alone * float(np.minimum(own, 1.0).mean()) if there.any() else 0.0)

    def attending(self, kernel: Floats, varied: Floats, heads: int) -> Scatter:
        """Go through attention, whose weights differ from head to head by what gives the part `varied` of a kernel.

        Each head's part varies by about its own size, so that the mean over heads adds 2 (its share)² / heads.
        """
        whole = float(np.trace(kernel))
        share = abs(float(np.trace(varied))) / whole if whole > 0 and isfinite(whole) else 0.0
        return self._more(2 * share**2 / heads)

    def attending_sampled(self, kernel: Floats, variance: float, heads: int, draws: int) -> Scatter:
        """Go through attention whose weights were drawn: the trace behind one head has this `variance`.

        So the mean over heads varies by its part 1 / heads, and the forecast, which is a mean over draws, by 1 / draws.
        """
        whole = float(np.trace(kernel))
        share = variance / whole / whole if whole > 0 and isfinite(whole) else 0.0  # whole² may overflow
        return self._more(share * (1 / heads + 1 / draws))

    def of(self, root: Scatter, kernel: Floats) -> Scatter:
        """Return the scatter behind a root that itself follows another one, and has this kernel."""
        return Scatter(
            self.follows * root.follows,
            self.total(kernel) + self.follows**2 * root.total(kernel),
            own=self.of_token + self.follows**2 * root.of_token,
            noise=self.all_noise + root.all_noise,
            bends=self.bends * root.follows**2 + self.follows * root.bends,
            raised=self.raised + self.follows * root.raised + self.bends * root.of_token / 2,
            alone=self.alone * root.alone,
        )

    def gated(self, kernel: Floats, gate: Scatter, gate_kernel: Floats, width: float) -> Scatter:
        """Multiply two signals of one root by entries, of weights of their own: 4 P / d of the product more."""
        both = self.total(kernel) + gate.total(gate_kernel) + 4 * participation(kernel * gate_kernel) / width
        return Scatter(
            self.follows + gate.follows,
            both,
            own=self.of_token + gate.of_token + 4 / width,
            noise=self.all_noise + gate.all_noise + 4 / width,
            bends=self.bends + gate.bends + 2 * self.follows * gate.follows,
            raised=self.raised + gate.raised,
            alone=_mean_by_weight([self.follows, gate.follows], [self.alone, gate.alone]),
        )


HERE = Scatter()
"""At the root itself."""
FORGOTTEN = Scatter(follows=0.0)
"""Behind what has no size."""


def added_scatter(
    paths: Sequence[tuple[Scatter, Floats]], crossing: Sequence[float], kernel: Floats, width: float
) -> Scatter:
    """Add up paths of one root, by their kernels, and the traces of what each has in common with the others.

    Two paths a and b, one of which has weights of its own, meet by chance: 4 Σ_ij Σa_ij Σb_ij / (d (tr Σ)²) more.
    """
    whole = float(np.trace(kernel))
    if not (whole > 0 and isfinite(whole)):
        return FORGOTTEN
    scatters = [scatter for scatter, _ in paths]
    parts = [float(np.trace(each)) / whole for _, each in paths]
    shares = [part + both / whole for part, both in zip(parts, crossing, strict=True)]
    variance = sum(share**2 * scatter.total(each) for share, (scatter, each) in zip(shares, paths, strict=True))
    own = sum(share**2 * scatter.of_token for share, scatter in zip(shares, scatters, strict=True))
    for (first, second), (part, rest) in zip(combinations(paths, 2), combinations(parts, 2), strict=True):
        if first[0].total(first[1]) or second[0].total(second[1]):
            variance += 4 * float(((first[1] / whole) * (second[1] / whole)).sum()) / width
            own += 4 * part * rest / width

    def mean(numbers: Iterable[float]) -> float:
        return sum(share * number for share, number in zip(shares, numbers, strict=True))

    return Scatter(
        mean(each.follows for each in scatters),
        variance,
        own=own,
        noise=own + mean(each.all_noise - each.of_token for each in scatters),
        bends=mean(each.bends for each in scatters),
        raised=mean(each.raised for each in scatters),
        alone=_mean_by_weight(
            [share * each.follows for share, each in zip(shares, scatters, strict=True)],
            [each.alone for each in scatters],
        ),
    )


def mean_scatter(scatters: Sequence[Scatter]) -> Scatter:
    """Return the mean of those of several heads, which vary alike."""
    return Scatter(*np.mean([astuple(each) for each in scatters], axis=0).tolist())


def _mean_by_weight(weights: Sequence[float], numbers: Sequence[float]) -> float:
    """Return a mean by weights; 1 where they are nothing."""
    whole = sum(weights)
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True)) / whole if whole else 1.0


def participation(kernel: Floats) -> float:
    """Return P = ‖Σ‖² / (tr Σ)², between 1/T and 1; 0 for a kernel without a size.

    >>> participation(np.ones((4, 4))), participation(np.eye(4))
    (1.0, 0.25)
    """
    whole = float(np.trace(kernel))
    return float(((kernel / whole) ** 2).sum()) if whole > 0 and isfinite(whole) else 0.0
