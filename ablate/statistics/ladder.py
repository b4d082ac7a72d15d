"""Two treatments over a ladder of sizes: the speed-up in training compute by one of them, and its trend over sizes.

The speed-up of a treatment B over a baseline A at size k is the factor g by which A would need more compute to reach
the loss of B, by the law L_A of the baseline (`scaling_law`), on the scale on which that is fitted:

    seeds paired    L_A(g·C_B) = L_A(C_A) - d̄         d̄: the mean paired difference A - B at size k
    not paired      L_A(g·C_B) = mean loss of B

Where seeds are paired the law thus only gives the slope, and passes through A's own mean at that size. That takes out
the noise that seeds share, and is the better of the two from a correlation of 1/2 on: 2(1-ρ) against 1 + h - 2ρh, in
units of the variance of a mean, with h that of the law.

    interval    of all g that a test does not refuse: what the equation leaves, over its error, against t* (Fieller
                1954); the error is of the seeds of B, those of A, what they share, and the parameters of L_A
    trend       the slope of log g over log C_B, by least squares whose weights are from the line of the noise of each
                size. All log g have L_A in common, so its error is of the slope as one sum over all means of A and B
    t*          from ladders simulated about the laws fitted, weights made anew in each (`spread`)

The trend is of the ladder itself: where log g bends, it is the slope of the straight line nearest to it. It rests on
L_A being right: a saturating law fitted as a power law tilts log g, and `curvature_p` of the law says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ablate.statistics.scaling_law import (
    Curve,
    Kind,
    SizeLadder,
    checked,
    falls,
    fit_curve,
    hat_of,
    scaled,
    tangents_of,
)
from ablate.statistics.spread import DRAWS, critical, magnitude, noise_line, satterthwaite, simulated, spread

Floats = NDArray[np.float64]

Method: TypeAlias = Literal["simulated_t"]

FARTHEST = float(np.log(1e6))
"""Speed-ups are searched for within a factor of a million; beyond, an interval has no bound."""

DOUBLINGS, HALVINGS = 40, 45  # steps out from an estimate to beyond its bound, and back to the bound


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedUp:
    """The speed-up of a treatment at one size, with `compute` of the treatment, and its interval at confidence `level`.

    Infinite where the treatment's loss is not above the loss at which the baseline's law ends. `extrapolated` where
    that law is read outside the sizes it was fitted to, as it is at the largest size by any treatment that is better;
    `extrapolated_interval` where a bound is. `n` are the seeds of the baseline and of the treatment there, `df`
    Satterthwaite's degrees of freedom.
    """

    compute: float
    speed_up: float
    low: float
    high: float
    extrapolated: bool
    extrapolated_interval: bool
    n: tuple[int, int]
    df: float
    level: float
    method: Method


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The slope of log speed-up over log compute: the speed-up grows as C^slope, and shrinks where that is negative.

    `error` is its standard error with `df` degrees of freedom, `low` and `high` bound it at confidence `level`, and p
    is two-sided, of a slope of 0. `n` are the seeds of the baseline and of the treatment at each size. `simulated` are
    the |t| of simulated ladders without a trend, in ascending order.
    """

    slope: float
    error: float
    low: float
    high: float
    p: float
    n: tuple[tuple[int, int], ...]
    df: float
    level: float
    method: Method
    simulated: Floats = field(repr=False, compare=False)

    def critical(self, level: float) -> float:
        """The t that |slope| over its error is compared with, at another confidence level.

        Infinite where no p of so many simulated ladders is that small, so that p and interval agree.
        """
        if 1 / (self.simulated.size + 1) > (1 - level) * (1 + ROUNDING):
            return float("inf")
        return max(float(critical(self.simulated[:, None], level)[0]), float(stdtrit(self.df, (1 + level) / 2)))


def speed_ups(
    baseline: SizeLadder, treatment: SizeLadder, *, paired: bool = True, kind: Kind = "power", level: float = 0.95
) -> tuple[SpeedUp, ...]:
    """Compute the speed-up of a treatment over a baseline at each size, by a law of the baseline.

    ValueError for ladders that do not match or are refused by themselves, and for loss that does not fall with compute.

    >>> baseline = SizeLadder(compute=(1e15, 1e16, 1e17), losses=((3.99, 4.01), (3.2, 3.21), (2.55, 2.57)))
    >>> treatment = SizeLadder(compute=(1e15, 1e16, 1e17), losses=((3.89, 3.91), (3.12, 3.14), (2.5, 2.51)))
    >>> [round(one.speed_up, 2) for one in speed_ups(baseline, treatment)]
    [1.3, 1.28, 1.25]
    """
    both = both_of(baseline, treatment, paired=paired, kind=kind, level=level)
    found = compare(both, level=level, random=np.random.default_rng(0))
    places = np.stack([found.log, found.low, found.high]) + both.other_x
    beyond = (places < both.x.min() - EDGE) | (places > both.x.max() + EDGE)
    return tuple(
        SpeedUp(
            compute=treatment.compute[k],
            speed_up=float(np.exp(found.log[k])),
            low=float(np.exp(found.low[k])),
            high=float(np.exp(found.high[k])),
            extrapolated=bool(beyond[0, k]),
            extrapolated_interval=bool(beyond[1:, k].any()),
            n=both.seeds[k],
            df=float(found.df[k]),
            level=level,
            method="simulated_t",
        )
        for k in range(both.x.size)
    )


def trend(
    baseline: SizeLadder, treatment: SizeLadder, *, paired: bool = True, kind: Kind = "power", level: float = 0.95
) -> Trend | None:
    """Test whether the speed-up of a treatment grows or shrinks with compute; None where one of them is infinite.

    ValueError as for `speed_ups`.
    """
    both = both_of(baseline, treatment, paired=paired, kind=kind, level=level)
    found = compare(both, level=level, random=np.random.default_rng(0))
    if not np.isfinite(found.slope):
        return None
    half = float(found.slope_t * found.slope_error)
    return Trend(
        slope=float(found.slope),
        error=float(found.slope_error),
        low=float(found.slope) - half,
        high=float(found.slope) + half,
        p=float(found.p),
        n=both.seeds,
        df=float(found.slope_df),
        level=level,
        method="simulated_t",
        simulated=found.slope_simulated,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """The means [..., sizes] and single-seed variances of a baseline and of `other`: paired differences, baseline -
    treatment, or the treatment itself where seeds are not `paired`.
    """

    kind: Kind
    paired: bool
    x: Floats
    other_x: Floats
    means: Floats
    other: Floats
    variances: Floats
    other_variances: Floats
    covariances: Floats
    n: Floats
    other_n: Floats

    @property
    def seeds(self) -> tuple[tuple[int, int], ...]:
        return tuple((int(n), int(m)) for n, m in zip(self.n, self.other_n, strict=True))

    @property
    def treatment(self) -> Floats:
        return self.means - self.other if self.paired else self.other

    def weights(self, variances: Floats, other: Floats, covariances: Floats) -> tuple[Floats, Floats]:
        """The weights of means in either law, but for their n, and those of the values beside the baseline.

        Those of a law are from the noise of both treatments, and the same in both.
        """
        df, other_df = self.n - 1, self.other_n - 1
        if self.paired:
            pooled, pooled_df = (variances + (variances + other - 2 * covariances)) / 2, df
        else:
            pooled, pooled_df = (df * variances + other_df * other) / (df + other_df), df + other_df
        in_laws = 1 / noise_line(pooled, pooled_df, self.x).variance(self.x)
        beside = self.other_n / noise_line(other, other_df, self.other_x).variance(self.other_x)
        return in_laws, beside

    def error(
        self, p: Floats, q: Floats, variances: Floats, other: Floats, covariances: Floats
    ) -> tuple[Floats, Floats]:
        """The error and df of sums p·means + q·other, [..., sums, sizes], from variances [..., sizes]."""
        v, w, c = (one[..., None, :] for one in (variances, other, covariances))
        if self.paired:
            return satterthwaite((p**2 * v + q**2 * w + 2 * p * q * c) / self.n, self.n - 1)
        terms = np.concatenate(np.broadcast_arrays(p**2 * v / self.n, q**2 * w / self.other_n), axis=-1)
        return satterthwaite(terms, np.concatenate([self.n - 1, self.other_n - 1]))

    def own_error(self, p: Floats, q: Floats) -> tuple[Floats, Floats]:
        """The error and df of sums from the variances of these seeds."""
        return self.error(p, q, self.variances, self.other_variances, self.covariances)

    def lines(self) -> tuple[Floats, Floats, Floats]:
        """By the lines of noise, the variances at each size, those beside, and the correlation of both."""
        v = noise_line(self.variances, self.n - 1, self.x).variance(self.x)
        w = noise_line(self.other_variances, self.other_n - 1, self.other_x).variance(self.other_x)
        if not self.paired:
            return v, w, np.zeros(self.means.shape[:-1])
        correlation = ((self.n - 1) * self.covariances / np.sqrt(v * w)).sum(axis=-1) / (self.n - 1).sum()
        return v, w, np.clip(correlation, -MOST, MOST)

    def noise_at(self, x: float, other_x: float, drawn: DrawnNoise | None = None) -> NoiseAt:
        """By the lines of noise, the variances at a further size, of these seeds or of simulated ones."""
        v, w, c = (self.variances, self.other_variances, self.covariances) if drawn is None else drawn.covariance

        def at(variances: Floats, n: Floats, sizes: Floats, place: float) -> Floats:
            return noise_line(variances, n - 1, sizes).variance(np.array([place]))[..., 0]

        of_baseline = at(v, self.n, self.x, x)
        of_treatment = at(v + w - 2 * c if self.paired else w, self.other_n, self.other_x, other_x)
        between = at(w, self.other_n, self.other_x, other_x) if self.paired else of_baseline + of_treatment
        return NoiseAt(losses=np.stack([of_baseline, of_treatment], axis=-1), difference=between)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseAt:
    """Variances of single seeds at a further size: of the losses of both treatments, and of their difference."""

    losses: Floats
    difference: Floats


MOST = 0.99  # the largest correlation between a baseline and its paired differences that is simulated

ROUNDING = 1e-9  # the share by which a level may be off

EDGE = 1e-9  # rounding tolerance of what lies within the sizes measured


def magnitude_of(baseline: SizeLadder, treatment: SizeLadder) -> int:
    """The k of the power of two that losses of both are divided by."""
    return magnitude(*baseline.losses, *treatment.losses)


def both_of(baseline: SizeLadder, treatment: SizeLadder, *, paired: bool, kind: Kind, level: float) -> Both:
    checked(baseline, kind, level)
    checked(treatment, kind, level)
    if len(baseline.compute) != len(treatment.compute):
        raise ValueError(
            f"two ladders are compared size by size, got {len(baseline.compute)} and {len(treatment.compute)} sizes"
        )
    k = magnitude_of(baseline, treatment)
    before, after = ([scaled(np.array(one), kind, k) for one in ladder.losses] for ladder in (baseline, treatment))
    for i, (x, y) in enumerate(zip(before, after, strict=True), start=1):
        if paired and x.size != y.size:
            raise ValueError(f"paired seeds come in pairs, and size {i} has {x.size} and {y.size}")
        if paired and spread(x - y, of=1.0) == 0:
            raise ValueError(
                f"the paired differences of size {i} are the same at every seed: nothing tells their noise"
            )
    both = moments(before, after, np.log(baseline.compute), np.log(treatment.compute), paired=paired, kind=kind)
    for curve in curves_of(both):
        falls(curve)
    return both


def moments(
    before: Sequence[Floats], after: Sequence[Floats], x: Floats, other_x: Floats, *, paired: bool, kind: Kind
) -> Both:
    """Means and variances over seeds of a baseline and a treatment, each a list by size of values [..., seeds]."""
    other = [one - two for one, two in zip(before, after, strict=True)] if paired else list(after)

    def over_sizes(of: Callable[[int], Floats]) -> Floats:
        return np.stack([of(i) for i in range(len(before))], axis=-1)

    def covariance(i: int) -> Floats:
        if not paired:
            return np.zeros(before[i].shape[:-1])
        apart = (before[i] - before[i].mean(-1, keepdims=True)) * (other[i] - other[i].mean(-1, keepdims=True))
        return np.asarray(apart.sum(-1) / (before[i].shape[-1] - 1))

    return Both(
        kind=kind,
        paired=paired,
        x=x,
        other_x=other_x,
        means=over_sizes(lambda i: np.asarray(before[i].mean(-1))),
        other=over_sizes(lambda i: np.asarray(other[i].mean(-1))),
        variances=over_sizes(lambda i: np.asarray(before[i].var(-1, ddof=1))),
        other_variances=over_sizes(lambda i: np.asarray(other[i].var(-1, ddof=1))),
        covariances=over_sizes(covariance),
        n=np.array([one.shape[-1] for one in before], dtype=np.float64),
        other_n=np.array([one.shape[-1] for one in after], dtype=np.float64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderComparison:
    """Log speed-ups [..., sizes] with their bounds and df, and their slope [...] with its t* and p; NaN without one."""

    log: Floats
    low: Floats
    high: Floats
    df: Floats
    slope: Floats
    slope_error: Floats
    slope_df: Floats
    slope_t: Floats
    slope_simulated: Floats
    p: Floats


def compare(both: Both, *, level: float, random: np.random.Generator, draws: int = DRAWS) -> LadderComparison:
    """Compare as many pairs of ladders as there are in [...]; `speed_ups` and `trend` are of a single one."""
    curve = curves_of(both)[0]
    at_sizes = curve.value(both.x)
    target = at_sizes - both.other if both.paired else both.other
    log = curve.reach(target) - both.other_x
    near = np.clip(log, -FARTHEST, FARTHEST)
    fall = curve.fall(both.other_x + near)
    beside = np.eye(both.x.size) * (1.0 if both.paired else -1.0)

    def at_speed_up(g: Floats, hat: Floats, tangents: Callable[[Floats], Floats]) -> Floats:
        p = tangents(both.other_x + g) @ hat
        return p - tangents(both.x) @ hat if both.paired else p

    def sums(g: Floats, weights: tuple[Floats, Floats], wider: int) -> tuple[Floats, Floats]:
        """The sums over means that make the rest of each equation, and the trend as one more."""

        def tangents(x: Floats) -> Floats:
            found = tangents_of(both.kind, x - curve.centre, curve.b, curve.size)
            return found.reshape(*found.shape[:-2], *(1,) * wider, *found.shape[-2:])

        p = at_speed_up(g, hat_of(tangents(both.x), both.n * weights[0]), tangents)
        f = fall.reshape(*fall.shape[:-1], *(1,) * wider, -1)
        c = _slope_weights(weights[1] * f**2, both.other_x) / f
        q = np.broadcast_to(beside, p.shape)
        return (
            np.concatenate([p, c[..., None, :] @ p], axis=-2),
            np.concatenate([q, c[..., None, :] @ q], axis=-2),
        )

    own = both.weights(both.variances, both.other_variances, both.covariances)
    error, df = both.own_error(*sums(near, own, 0))
    drawn = drawn_noise(both, random, draws)
    p, q = sums(near, both.weights(*drawn.covariance), 1)
    t = drawn.sums(p, q) / both.error(p, q, *drawn.covariance)[0]
    least = np.maximum(critical(t, level), stdtrit(df, (1 + level) / 2))

    def kept(g: Floats) -> Floats:
        p = at_speed_up(g, curve.hat, lambda x: tangents_of(both.kind, x - curve.centre, curve.b, curve.size))
        at, _ = both.own_error(p, np.broadcast_to(beside, p.shape))
        room: Floats = least[..., :-1] - np.abs(curve.value(both.other_x + g) - target) / at
        return room

    with np.errstate(invalid="ignore"):
        slope = (_slope_weights(own[1] * fall**2, both.other_x) * log).sum(axis=-1)
    reached = (np.abs(t[..., -1]) >= np.abs(slope / error[..., -1])[..., None]).sum(axis=-1)
    student = 2 * stdtr(df[..., -1], -np.abs(slope / error[..., -1]))
    step = error[..., :-1] / fall
    return LadderComparison(
        log=log,
        low=bound_from(kept, near, -step),
        high=np.where(np.isfinite(log), bound_from(kept, near, step), np.inf),
        df=df[..., :-1],
        slope=slope,
        slope_error=error[..., -1],
        slope_df=df[..., -1],
        slope_t=least[..., -1],
        slope_simulated=np.sort(np.abs(t[..., -1]), axis=-1),
        p=np.where(np.isfinite(slope), np.maximum((1 + reached) / (1 + draws), student), np.nan),
    )


def curves_of(both: Both) -> tuple[Curve, Curve]:
    weights, _ = both.weights(both.variances, both.other_variances, both.covariances)
    return (
        fit_curve(both.kind, both.x, both.means, both.n * weights),
        fit_curve(both.kind, both.other_x, both.treatment, both.other_n * weights),
    )


def _slope_weights(weights: Floats, x: Floats) -> Floats:
    """The coefficients of values at x [..., sizes] in the slope of their weighted line."""
    apart = weights * (x - (weights * x).sum(axis=-1, keepdims=True) / weights.sum(axis=-1, keepdims=True))
    slope: Floats = apart / (apart * x).sum(axis=-1, keepdims=True)
    return slope


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNoise:
    """Simulated deviations of means and of the values beside them [..., draws, sizes], and their covariances."""

    means: Floats
    other: Floats
    covariance: tuple[Floats, Floats, Floats]

    def sums(self, p: Floats, q: Floats) -> Floats:
        """The sums p·means + q·other of each draw, [..., draws, sums]."""
        found: Floats = (p * self.means[..., None, :] + q * self.other[..., None, :]).sum(axis=-1)
        return found


def drawn_noise(both: Both, random: np.random.Generator, draws: int) -> DrawnNoise:
    """Ladders simulated about the lines of noise."""
    noise = simulated(both.n, both.other_n, paired=both.paired, random=random, shape=(*both.means.shape[:-1], draws))
    v, w, r = both.lines()
    means, other, *covariance = noise.correlated(np.sqrt(v), np.sqrt(w), r)
    return DrawnNoise(means=means, other=other, covariance=(covariance[0], covariance[1], covariance[2]))


def bound_from(kept: Callable[[Floats], Floats], start: Floats, step: Floats) -> Floats:
    """The distance from `start`, by steps of that sign, up to which nothing is refused; infinite beyond `FARTHEST`."""
    side = np.sign(step)
    inside, outside = np.zeros_like(start), np.maximum(np.abs(step), 1e-12)
    for _ in range(DOUBLINGS):
        more = (kept(start + side * outside) >= 0) & (outside < FARTHEST)
        inside, outside = np.where(more, outside, inside), np.where(more, np.minimum(2 * outside, FARTHEST), outside)
    open_ended = kept(start + side * outside) >= 0
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        more = kept(start + side * middle) >= 0
        inside, outside = np.where(more, middle, inside), np.where(more, outside, middle)
    return np.where(open_ended, side * np.inf, start + side * outside)
