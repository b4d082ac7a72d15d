"""Tests by t of differences that are not paired: of two samples, against a known noise, and over strata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ablate.statistics.paired import student_interval, student_p
from ablate.statistics.spread import Floats, divided, logarithms, magnitude, spread, times

# A difference judged by t: from its standard error and degrees of freedom to its interval, p and that of equivalence.
#
#     interval       difference ± t_{1-α/2, df} error
#     equivalence    difference ± t_{1-α, df} error: the interval of two one-sided tests      Schuirmann 1987


@dataclass(frozen=True, slots=True, kw_only=True)
class ByT:
    """A difference with its interval, `low` to `high` at confidence 1-α and `tost_low` to `tost_high` at 1-2α.

    `p` is two-sided. Where nothing varies, `error` is 0 and nothing else but the difference is known: `df` and `p` are
    None, and the intervals have no bounds.
    """

    difference: float
    error: float
    df: float | None
    p: float | None
    low: float
    high: float
    tost_low: float
    tost_high: float

    @classmethod
    def of(
        cls, difference: float, error: float, df: float | None, *, confidence: float, unit: int = 0, **more: Any
    ) -> Self:
        """Judge a difference, given over 2^`unit`; `more` are the fields of a subclass."""
        alpha, p = 1 - confidence, None
        (low, high), (tost_low, tost_high) = 2 * [(-math.inf, math.inf)]
        if error == 0:
            df = None
        if df is not None:
            p = student_p(difference, error, df)
            low, high = student_interval(difference, error, df, alpha / 2)
            tost_low, tost_high = student_interval(difference, error, df, alpha)
        return cls(
            difference=times(difference, unit),
            error=times(error, unit),
            df=df,
            p=p,
            low=times(low, unit),
            high=times(high, unit),
            tost_low=times(tost_low, unit),
            tost_high=times(tost_high, unit),
            **more,
        )


# Two samples that are not paired: Welch's t.
#
# With n values x_i before and m values y_j after (logarithms where differences are ratios), their means, and
# variances s² and r²:
#
#     difference    ȳ - x̄
#     error         √(s²/n + r²/m)
#     df            (s²/n + r²/m)² / ((s²/n)²/(n-1) + (r²/m)²/(m-1))                 Welch 1938, Satterthwaite 1946
#                   min(n, m) - 1, where n ≠ m and one of them is below `TELLING`     Mickey & Brown 1966
#     equivalence   two one-sided tests with the same error and df                   Schuirmann 1987
#
# Welch's df are estimated from both variances. Where the smaller sample is the noisier, and its few values happen to
# lie close together, they are nearly those of the larger one, and the error is too small at the same time. Of normal
# values with the same mean, at a level of 4 %, p is below it in (100,000 pairs of samples each):
#
#     n and m    sd of the smaller, of the larger    two-sided, by Welch's df and min - 1    one-sided (equivalence)
#     2 and 20   1, 1                                11.1 %   0.0 %                           7.3 %   0.2 %
#     2 and 8    3, 1                                10.5     0.2                             7.0     1.4
#     3 and 20   1, 1                                 6.6     0.8                             5.2     1.7
#     3 and 10   3, 1                                 6.0     2.4                             4.9     3.1
#     4 and 8    3, 1                                 5.0     2.8                             4.4     3.4
#     5 and 20   1, 1                                 4.6     1.9                             4.4     2.6
#
# With min(n, m) - 1 the level holds at any two variances: |difference|/error exceeds any number no more often than t
# with these df does. That is wasteful where the larger sample is the noisier, and Welch's df are kept where they err
# little: from five values on, and for samples of one size, where they err most with 2 and 2 and sds 10 and 1 (5.1 %).

TELLING = 5  # so many values give the noise of the smaller of two samples well enough for Welch's degrees of freedom


@dataclass(frozen=True, slots=True, kw_only=True)
class Welch(ByT):
    """The difference of the means of two independent samples of so many values.

    `sd` is √(s² + r²), that of the difference of two single values, 0 where neither sample varies.
    """

    before: int
    after: int
    sd: float

    @property
    def n(self) -> int:
        return min(self.before, self.after)

    @property
    def of_smaller(self) -> bool:
        """True if the degrees of freedom are those of the smaller sample alone."""
        return self.df is not None and of_smaller(self.before, self.after)


def of_smaller(n: int, m: int) -> bool:
    """True if samples of n and m values are compared with the degrees of freedom of the smaller one."""
    return n != m and min(n, m) < TELLING


def welch(before: Sequence[float], after: Sequence[float], *, log: bool = False, confidence: float = 0.95) -> Welch:
    """Compare two independent samples; on the log scale as ratios after/before.

    ValueError for fewer than two values on a side, for one that is not finite, and for one without a logarithm.

    >>> result = welch([2.0, 2.1, 2.2], [1.9, 2.0, 2.1, 2.2])
    >>> round(result.difference, 3), result.df
    (-0.05, 2.0)
    """
    x, y, unit = _over_unit(before, after, 2, "two samples need two or more finite values", log=log)
    difference = float(y.mean() - x.mean())
    sds = [spread(side, of=max(float(np.abs(side).max()), float(log))) for side in (x, y)]
    shares = [sd**2 / side.size for sd, side in zip(sds, (x, y), strict=True)]
    error = math.sqrt(sum(shares))
    df = None
    if error > 0:
        df = sum(shares) ** 2 / sum(share**2 / (side.size - 1) for share, side in zip(shares, (x, y), strict=True))
    if of_smaller(x.size, y.size):
        df = float(min(x.size, y.size) - 1)
    sd = times(math.hypot(*sds), unit)
    return Welch.of(difference, error, df, confidence=confidence, unit=unit, before=x.size, after=y.size, sd=sd)


def _over_unit(
    before: Sequence[float], after: Sequence[float], fewest: int, need: str, *, log: bool
) -> tuple[Floats, Floats, int]:
    """Both sides over 2^unit, or as logarithms with a unit of 0; ValueError for sides that cannot be compared."""
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if min(x.size, y.size) < fewest or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(f"{need} each, got {x.size} and {y.size}")
    if log and min(x.min(), y.min()) <= 0:
        raise ValueError("ratios need values above zero")
    k = magnitude(x, y)
    return (logarithms(x, k), logarithms(y, k), 0) if log else (divided(x, k), divided(y, k), k)


# Runs too few to tell their own noise, judged against a floor: that of reruns of one configuration, or a given sd.
#
# With n values x_i before and m values y_j after (logarithms where differences are ratios), and a floor of standard
# deviation s, which k reruns tell with k - 1 degrees of freedom, and a given one with infinitely many:
#
#     difference    ȳ - x̄
#     error         s √(1/n + 1/m)
#     interval      ± t s √(1/n + 1/m)
#
# Of one run against the k reruns themselves that is the prediction interval t s √(1 + 1/k). It holds if the runs have
# the noise of the floor: a candidate that is noisier is taken for different more often than is said.


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNoise:
    """The standard deviation of runs of one metric, on its scale, its degrees of freedom, and `whose` it is, in words.

    ValueError for one that is not above 0.
    """

    sd: float
    df: float
    whose: str

    def __post_init__(self) -> None:
        if not (0 < self.sd < math.inf and self.df > 0):
            raise ValueError(f"a floor is above 0, got {self.sd:g}")

    @staticmethod
    def of(values: Sequence[float], *, log: bool = False, whose: str = "") -> KnownNoise:
        """Compute it from reruns. ValueError for fewer than two, and for those that do not vary.

        >>> round(KnownNoise.of([2.0, 2.1, 2.2]).sd, 12)
        0.1
        """
        x = np.asarray(values, dtype=np.float64)
        if x.size < 2 or not np.isfinite(x).all() or (log and x.min() <= 0):
            raise ValueError("a floor needs two or more finite values, above zero for ratios")
        k = magnitude(x)
        scaled = logarithms(x, k) if log else divided(x, k)
        sd = spread(scaled, of=max(float(np.abs(scaled).max()), float(log)))
        return KnownNoise(sd=times(sd, 0 if log else k), df=x.size - 1, whose=whose)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstFloor(ByT):
    """The difference of two sides of so many values, whose noise is known."""

    before: int
    after: int


def against_floor(
    before: Sequence[float], after: Sequence[float], noise: KnownNoise, *, log: bool = False, confidence: float = 0.95
) -> AgainstFloor:
    """Compare two sides by the noise of a floor; on the log scale as ratios after/before.

    ValueError for a side without a value, for one that is not finite, and for one without a logarithm.

    >>> result = against_floor([2.0, 2.1, 2.2], [2.5], KnownNoise.of([2.0, 2.1, 2.2]))
    >>> round(result.difference, 3), round(result.error, 4), result.df
    (0.4, 0.1155, 2)
    """
    x, y, unit = _over_unit(before, after, 1, "two sides need a finite value", log=log)
    error = noise.sd / 2.0**unit * math.sqrt(1 / x.size + 1 / y.size)
    difference = float(y.mean() - x.mean())
    return AgainstFloor.of(difference, error, noise.df, confidence=confidence, unit=unit, before=x.size, after=y.size)


# The mean over strata of what a treatment does in each, where these strata are all that is asked about.
#
# With n_g differences in stratum g of G, their mean d_g and variance s_g² (of two samples s²/n + r²/m in place of
# s_g²/n_g, with n - 1 and m - 1 degrees of freedom):
#
#     difference    Σ d_g / G
#     error         √(Σ s_g²/n_g) / G
#     df            (Σ s_g²/n_g)² / Σ (s_g²/n_g)²/(n_g - 1)            Satterthwaite 1946
#                   min n_g - 1, where that is below `TELLING` - 1
#
# Runs vary within strata alone: the strata are not drawn from others. Satterthwaite's df are estimated, and where one
# stratum is noisier than all others and has few runs they are too many: at 4 %, p is below it in 8.5 % of 20 strata
# of two differences each, one of ten times the sd of the others, in 6.3 % of three, and in 4.8 % of five.

Samples = Sequence[Sequence[float]]
"""The values of one stratum: its differences, or the values of both sides, before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratified(ByT):
    """The mean difference over `strata`, and that of `each`; `n` is the number of runs of the smallest side of one."""

    strata: int
    n: int
    each: tuple[float, ...]

    @property
    def of_smallest(self) -> bool:
        """True if the degrees of freedom are those of the smallest stratum alone."""
        return self.df is not None and self.n < TELLING


def stratified(strata: Sequence[Samples], *, confidence: float = 0.95) -> Stratified:
    """Compare two sides over strata, each with its differences, or with the values before and those after.

    ValueError without a stratum, for a side of one with fewer than two values, and for one that is not finite.

    >>> result = stratified([[[0.1, 0.2, 0.3, 0.2, 0.1]], [[0.3, 0.4, 0.5, 0.4, 0.4]]])
    >>> round(result.difference, 3), round(result.error, 4), round(result.df or 0, 1)
    (0.29, 0.0245, 7.8)
    """
    sides = [[np.asarray(side, dtype=np.float64) for side in samples] for samples in strata]
    flat = [side for samples in sides for side in samples]
    if not flat or min(side.size for side in flat) < 2 or not all(np.isfinite(side).all() for side in flat):
        raise ValueError("strata need two or more finite values a side")
    k = magnitude(*flat)
    sides = [[divided(side, k) for side in samples] for samples in sides]
    each = [float(samples[-1].mean()) - (float(samples[0].mean()) if len(samples) > 1 else 0.0) for samples in sides]
    parts = [(float(side.var(ddof=1)) / side.size, side.size - 1) for samples in sides for side in samples]
    count, whole = len(sides), sum(part for part, _ in parts)
    smallest, df = min(side.size for side in flat), None
    if whole > 0:
        df = whole**2 / sum(part**2 / of for part, of in parts) if smallest >= TELLING else float(smallest - 1)
    return Stratified.of(
        sum(each) / count,
        math.sqrt(whole) / count,
        df,
        confidence=confidence,
        unit=k,
        strata=count,
        n=smallest,
        each=tuple(times(mean, k) for mean in each),
    )
