"""Paired statistics of a few seeds: numbers in, numbers out.

With d_i = y_i - x_i over the n seeds two variants share (of logarithms where differences are ratios):

    interval      d̄ ± t(n-1, 1-α/2)·s/√n                  Student 1908
    p             by t; by sign flips once there are enough pairs for several of their p-values to be below α/m, with m
                  tests in the family: from 10 at 5 % with one test, from 11 with three
    equivalence   d̄ ± t(n-1, 1-α)·s/√n inside ±margin     two one-sided tests, Schuirmann 1987; by t at every n

Where all differences are the same number there is no spread for a Student interval. Then order statistics are
used: [min d, max d] covers the median difference with probability 1 - 2^(1-n), and the sign test gives p = 2^(1-n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ablate.statistics.spread import logarithms, magnitude, spread

Floats = NDArray[np.float64]

Method: TypeAlias = Literal["student", "sign_flip", "sign"]
"""The method of the interval and of p: t for both; t and sign flips; the sign test."""

FLIPS_BELOW = 16
"""Sign flips are used where α/m is at least this many times their smallest p, 2^(1-n).

At one time, as few as two of all signs would decide, and flips would have a power of 60 % where t has 80 %. At sixteen
times they lose 4 points at most, so the power shown for t holds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The differences of n ≥ 2 pairs. `low` and `high` bound the interval at the requested confidence 1-α.

    `tost_low` and `tost_high` bound the narrower one, at 1-2α, equivalent to two one-sided tests at α. `p` is
    two-sided. Without spread (`sd` is 0) an interval has no width, or no bounds where n is too small for its
    confidence. `df` are the degrees of freedom of t, n - 1; None with the sign test. `differences` are the d_i.
    """

    n: int
    mean: float
    sd: float
    low: float
    high: float
    tost_low: float
    tost_high: float
    p: float
    method: Method
    df: float | None
    differences: tuple[float, ...] = ()

    def inside(self, margin: float) -> bool:
        """True if two one-sided tests find the mean difference inside ±margin."""
        return -margin < self.tost_low and self.tost_high < margin

    def p_equivalent(self, margin: float) -> float:
        """The p of equivalence: the larger of the tests against a difference of -margin or less, margin or more.

        Without spread each is a one-sided sign test, 2^-n where the differences lie on the right side of it.
        """
        return one_sided_p(self.mean, margin, self.sd / math.sqrt(self.n), self.df, self.n)


def paired(
    before: Sequence[float],
    after: Sequence[float],
    *,
    log: bool = False,
    confidence: float = 0.95,
    level: float | None = None,
    only_student: bool = False,
) -> Paired:
    """Compare values that share a seed, position by position; on the log scale as ratios after/before.

    `level` is what the smallest p of a family is compared with (default: α); `only_student` uses t at every n, as
    interim analyses require. ValueError for fewer than two pairs, sides of different length, and a value without a
    logarithm.

    >>> paired([2.0, 2.1, 2.2], [1.9, 2.0, 2.2]).mean.__round__(4)
    -0.0667
    """
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if x.shape != y.shape or x.size < 2:
        raise ValueError(f"a paired comparison needs two or more pairs, got {x.size} and {y.size} values")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("a paired comparison needs finite values")
    if log:
        if x.min() <= 0 or y.min() <= 0:
            raise ValueError("ratios need values above zero")
        k = magnitude(x, y)
        x, y = logarithms(x, k), logarithms(y, k)
    size = max(float(np.abs(x).max()), float(np.abs(y).max()), float(log))
    return of_differences(y - x, size=size, confidence=confidence, level=level, only_student=only_student)


def of_differences(
    differences: Sequence[float] | Floats,
    *,
    size: float = 0.0,
    confidence: float = 0.95,
    level: float | None = None,
    only_student: bool = False,
) -> Paired:
    """Compare from the differences themselves; `size` is the magnitude of the original values, for the rounding error.

    ValueError for fewer than two of them, and for one that is not finite.
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.size < 2 or not np.isfinite(d).all():
        raise ValueError(f"differences need two or more finite values, got {d.size}")
    alpha, n = 1 - confidence, d.size
    sd = spread(d, of=size)
    if sd == 0:
        return _without_spread(d, alpha)
    mean, error = float(d.mean()), sd / math.sqrt(n)
    method: Method = "student"
    low, high = student_interval(mean, error, n - 1, alpha / 2)
    tost_low, tost_high = student_interval(mean, error, n - 1, alpha)
    p = student_p(mean, error, n - 1)
    if not only_student and flips_suffice(n, alpha if level is None else level):
        method, p = "sign_flip", sign_flip_p(d)
    return Paired(
        n=n,
        mean=mean,
        sd=sd,
        low=low,
        high=high,
        tost_low=tost_low,
        tost_high=tost_high,
        p=p,
        method=method,
        df=float(n - 1),
        differences=tuple(d.tolist()),
    )


def flips_suffice(n: int, level: float) -> bool:
    """True if n pairs are enough for sign flips to replace t at that level."""
    return FLIPS_BELOW * least_flip_p(n) < level


def flips_from(level: float) -> int | None:
    """The fewest pairs at which sign flips replace t at that level of one test; None where no number does."""
    return next((n for n in range(2, EXACT + 1) if flips_suffice(n, level)), None)


def student_interval(mean: float, error: float, df: float, tail: float) -> tuple[float, float]:
    """The interval by t that leaves out `tail` on each side, given the standard error of the mean."""
    half = float(stdtrit(df, 1 - tail)) * error
    return mean - half, mean + half


def student_p(mean: float, error: float, df: float) -> float:
    """The two-sided p by t."""
    return 2 * float(stdtr(df, -abs(mean) / error))


def one_sided_p(mean: float, margin: float, error: float, df: float | None, n: int) -> float:
    """The p of two one-sided tests against ±margin; by the sign test where the n differences do not vary."""
    if df is None or error == 0:
        return 2.0**-n if abs(mean) < margin else 1.0
    return float(stdtr(df, (abs(mean) - margin) / error))


def bounds_without_spread(shift: float, n: int, miss: float) -> tuple[float, float]:
    """The interval of n identical differences: that number, or no bounds where n is too small."""
    return (shift, shift) if 2.0 ** (1 - n) <= miss else (-math.inf, math.inf)


def _without_spread(d: Floats, alpha: float) -> Paired:
    shift, n = float(np.median(d)), d.size
    low, high = bounds_without_spread(shift, n, alpha)
    tost_low, tost_high = bounds_without_spread(shift, n, 2 * alpha)
    return Paired(
        n=n,
        mean=shift,
        sd=0.0,
        low=low,
        high=high,
        tost_low=tost_low,
        tost_high=tost_high,
        p=1.0 if shift == 0 else 2.0 ** (1 - n),
        method="sign",
        df=None,
    )


# The test of sign flips: had the change done nothing, each difference could as well have had the other sign.
#
#     p = share of the 2^n signs s with |Σ s_i·d_i| ≥ |Σ d_i|        Fisher 1935, Pitman 1937
#
# It assumes only that the differences are distributed symmetrically around their mean; its p is never below 2^(1-n).
# The matching interval holds every shift for which the test of the shifted differences does not reject.


EXACT = 32  # up to this many pairs all 2^n signs are enumerated; beyond, `DRAWS` are drawn with a fixed seed

DRAWS = 99_999

CACHED = 2**18  # so many signs are multiplied at once: as numbers they stay in a core's cache

HALVINGS = 32  # bisection steps for the end of an interval

TIE = 1e-9  # sums closer than this share of Σ|d_i| count as equal, so that rounding does not decide


def sign_flip_p(differences: Floats) -> float:
    """The two-sided p of sign flips: exact up to `EXACT` pairs, then (1 + count)/(1 + draws)."""
    return _p_of_shifted(differences)(0.0)


def sign_flip_interval(differences: Floats, miss: float) -> tuple[float, float]:
    """The shifts δ for which flips of d_i - δ have p ≥ `miss`: the interval at confidence 1 - miss.

    p falls as δ leaves the mean on either side, so each end is found by bisection, to a share of 1e-9 of the range of
    the differences. Infinite where there are too few pairs to reject any shift.

    >>> low, high = sign_flip_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.05)
    >>> round(low, 6), round(high, 6)
    (1.0, 6.0)
    """
    if least_flip_p(differences.size) >= miss:
        return -math.inf, math.inf
    mean, low, high = float(differences.mean()), float(differences.min()), float(differences.max())
    spread, p = high - low, _p_of_shifted(differences)
    ends = _end_of_interval(p, mean, low - spread, miss), _end_of_interval(p, mean, high + spread, miss)
    if p(0.0) < miss:
        return ends
    # A shift of 0 is not rejected, so it is inside even if an end was rounded.
    return min(ends[0], 0.0), max(ends[1], 0.0)


def _end_of_interval(p: Callable[[float], float], inside: float, outside: float, miss: float) -> float:
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        if p(middle) < miss:
            outside = middle
        else:
            inside = middle
    return inside


def least_flip_p(n: int) -> float:
    """The smallest p that flips of n pairs can give."""
    return max(2.0 ** (1 - n), 0.0 if n <= EXACT else 1 / (1 + DRAWS))


def _p_of_shifted(differences: Floats) -> Callable[[float], float]:
    """p as a function of the shift δ that is taken off each difference."""
    counted = _exact(differences) if differences.size <= EXACT else _drawn(differences)

    def p(shift: float) -> float:
        shifted = differences - shift
        reached = abs(float(shifted.sum())) - TIE * float(np.abs(shifted).sum())
        return 1.0 if reached <= 0 else counted(shift, reached)

    return p


def _exact(differences: Floats) -> Callable[[float, float], float]:
    """Count all signs of one half against the sorted ones of the other (Horowitz & Sahni 1974), doubled by symmetry."""
    half = differences.size // 2  # both halves are sorted: sorted values are looked up in half of the time

    def p(shift: float, reached: float) -> float:
        some, others = np.sort(_sums(differences[:half] - shift)), np.sort(_sums(differences[half:] - shift))
        count = others.size * some.size - int(np.searchsorted(others, reached - some).sum())
        return 2 * count / 2.0**differences.size

    return p


def _sums(differences: Floats) -> Floats:
    return reduce(lambda sums, d: np.concatenate((sums + d, sums - d)), differences, np.zeros(1))


def _drawn(differences: Floats) -> Callable[[float, float], float]:
    """Count signs that are drawn once for all shifts, since Σ s_i·(d_i - δ) = Σ s_i·d_i - δ·Σ s_i."""
    random, n = np.random.default_rng(0), differences.size
    columns = np.stack((differences, np.ones(n)), axis=1)
    positive = np.zeros((DRAWS, 2))  # the sum of the differences that keep their sign, and how many they are
    wide = min(n, CACHED // 32)
    rows = CACHED // wide // 8 * 8  # whole bytes
    for start in range(0, DRAWS, 1000):
        drawn = np.frombuffer(random.bytes((min(1000, DRAWS - start) * n + 7) // 8), np.uint8)
        for row in range(start, min(start + 1000, DRAWS), rows):
            some = positive[row : min(row + rows, start + 1000)]
            kept = np.unpackbits(drawn[(row - start) * n // 8 :], count=len(some) * n).reshape(len(some), n)
            for column in range(0, n, wide):
                some += kept[:, column : column + wide] @ columns[column : column + wide]
    sums, signs = (2 * positive - columns.sum(axis=0)).T

    def p(shift: float, reached: float) -> float:
        return (1 + int((np.abs(sums - shift * signs) >= reached).sum())) / (1 + DRAWS)

    return p
