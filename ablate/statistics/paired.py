"""Paired statistics of a few seeds: numbers in, numbers out.

With d_i = y_i - x_i over the n seeds two variants share (of logarithms where differences are ratios):

    interval      d̄ ± t(n-1, 1-α/2)·s/√n                  Student 1908
    equivalence   d̄ ± t(n-1, 1-α)·s/√n inside ±margin     two one-sided tests, Schuirmann 1987
    family        step-down adjusted p                    Holm 1979
    proportions   Wilson's score interval                 Wilson 1927
    planning      from an upper limit of s, since s itself plans too small a study about half the time
                                                          Browne 1995, Kieser & Wassmer 1996

Where every difference is the same number there is no spread to put a Student interval around. Then the order statistics
speak: [min d, max d] covers the median difference with probability 1 - 2^(1-n), and the sign test gives p = 2^(1-n).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, nctdtr, ndtri, stdtr, stdtrit

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""Differences that vary by less than this share of the values they come from do not vary."""

SD_LEVEL = 0.8
"""One-sided level of the upper limit of the standard deviation from which studies are planned."""

POWER = 0.8
"""The chance a planned study should have to find a difference that is there."""

MOST_SEEDS = 1000
"""No plan asks for more seeds than this; it says that they would not do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The differences of n ≥ 2 pairs. `low` and `high` bound the interval at the confidence 1-α that was asked for.

    `tost_low` and `tost_high` bound the narrower one, at 1-2α, that two one-sided tests at α amount to. `p` is for two
    sides. Without spread (`sd` is 0) an interval has no width, or no bounds where n is too small for its confidence.
    """

    n: int
    mean: float
    sd: float
    low: float
    high: float
    tost_low: float
    tost_high: float
    p: float

    def inside(self, margin: float) -> bool:
        """Whether two one-sided tests find the mean difference inside ±margin."""
        return -margin < self.tost_low and self.tost_high < margin


def paired(before: Sequence[float], after: Sequence[float], *, log: bool = False, confidence: float = 0.95) -> Paired:
    """Compare values that share a seed, position by position; on the log scale as ratios after/before.

    ValueError for fewer than two pairs, for sides of different length, and for a value without a logarithm.

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
        x, y = np.log(x), np.log(y)
    d = y - x
    alpha = 1 - confidence
    mean, sd = float(d.mean()), spread(d, of=max(float(np.abs(x).max()), float(np.abs(y).max()), float(log)))
    if sd == 0:
        return _without_spread(d, alpha)
    low, high = _student(mean, sd, d.size, alpha / 2)
    tost_low, tost_high = _student(mean, sd, d.size, alpha)
    p = 2 * float(stdtr(d.size - 1, -abs(mean) / (sd / math.sqrt(d.size))))
    return Paired(n=d.size, mean=mean, sd=sd, low=low, high=high, tost_low=tost_low, tost_high=tost_high, p=p)


def spread(values: Floats, *, of: float = 0.0) -> float:
    """The standard deviation of two or more values; 0 where it is mere rounding of them or of numbers up to `of`."""
    sd = float(values.std(ddof=1))
    return sd if sd > ROUNDING * max(of, float(np.abs(values).max())) else 0.0


def _student(mean: float, sd: float, n: int, tail: float) -> tuple[float, float]:
    half = float(stdtrit(n - 1, 1 - tail)) * sd / math.sqrt(n)
    return mean - half, mean + half


def _without_spread(d: Floats, alpha: float) -> Paired:
    shift = float(np.median(d))
    p = 1.0 if shift == 0 else 2.0 ** (1 - d.size)

    def bounds(miss: float) -> tuple[float, float]:
        return (shift, shift) if 2.0 ** (1 - d.size) <= miss else (-math.inf, math.inf)

    (low, high), (tost_low, tost_high) = bounds(alpha), bounds(2 * alpha)
    return Paired(n=d.size, mean=shift, sd=0.0, low=low, high=high, tost_low=tost_low, tost_high=tost_high, p=p)


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's step-down adjusted p-values: each may be held against α, and all such claims together err with at most α.

        p̃_(i) = max over j ≤ i of min(1, (m - j + 1)·p_(j))        p_(1) ≤ … ≤ p_(m)

    None stands for a test that was planned but could not be made: it stays None and counts in m, so that what fails
    to run does not make the rest look surer.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = sorted((i for i, p in enumerate(p_values) if p is not None), key=lambda i: p_values[i] or 0.0)
    adjusted: list[float | None] = [None] * len(p_values)
    reached = 0.0
    for rank, i in enumerate(order):
        reached = max(reached, min(1.0, (len(p_values) - rank) * (p_values[i] or 0.0)))
        adjusted[i] = reached
    return tuple(adjusted)


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion; it stays honest at 0 of n and n of n, and is (0, 1) at n = 0."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return 0.0, 1.0
    z = float(ndtri(0.5 + confidence / 2))
    share, shrink = successes / n, 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrink
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def sd_upper(sd: float, n: int, level: float = SD_LEVEL) -> float:
    """The upper confidence limit s·√((n-1)/χ²(n-1, 1-level)) of a standard deviation, from n ≥ 2 normal values."""
    return sd * math.sqrt((n - 1) / float(chdtri(n - 1, level)))


def seeds_for_margin(sd: float, margin: float, *, confidence: float = 0.95) -> int | None:
    """The fewest pairs at which the interval of the equivalence test reaches half the margin to each side.

    Then a true difference of less than half the margin is most often found equivalent. None beyond `MOST_SEEDS`.
    """
    return _fewest(lambda n: float(stdtrit(n - 1, confidence)) * sd / math.sqrt(n) <= margin / 2)


def seeds_for_power(difference: float, sd: float, *, alpha: float = 0.05, power: float = POWER) -> int | None:
    """The fewest pairs at which a two-sided paired t-test at level α finds `difference` with the given power.

        power(n) = P(|T| > t(n-1, 1-α/2)),  T noncentral with n-1 degrees of freedom and centre √n·difference/sd

    The lesser tail is left out, and the centre stops at 30, where the distribution is still computed reliably: both
    can only ask for more seeds. None beyond `MOST_SEEDS`.
    """

    def found(n: int) -> float:
        centre = min(math.sqrt(n) * abs(difference) / sd, 30.0)
        return 1 - float(nctdtr(n - 1, centre, stdtrit(n - 1, 1 - alpha / 2)))

    return _fewest(lambda n: found(n) >= power)


def seeds_for_signs(level: float) -> int:
    """The fewest pairs at which differences that are all the same have 2^(1-n) ≤ level."""
    return max(2, math.ceil(1 - math.log2(level)))


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The least n from 2 to `MOST_SEEDS` that is enough, given that more always is; None if none is."""
    n = bisect.bisect_left(range(2, MOST_SEEDS + 1), True, key=enough) + 2
    return n if n <= MOST_SEEDS else None
