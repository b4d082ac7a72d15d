"""Two samples that are not paired: Welch's t.

With n values x_i before and m values y_j after (logarithms where differences are ratios), their means, and variances
s² and r²:

    difference    ȳ - x̄
    error         √(s²/n + r²/m)
    df            (s²/n + r²/m)² / ((s²/n)²/(n-1) + (r²/m)²/(m-1))                 Welch 1938, Satterthwaite 1946
                  min(n, m) - 1, where n ≠ m and one of them is below `TELLING`     Mickey & Brown 1966
    equivalence   two one-sided tests with the same error and df                   Schuirmann 1987

Welch's df are estimated from both variances. Where the smaller sample is the noisier, and its few values happen to lie
close together, they are nearly those of the larger one, and the error is too small at the same time. Of normal values
with the same mean, at a level of 4 %, p is below it in (100,000 pairs of samples each):

    n and m    sd of the smaller, of the larger    two-sided, by Welch's df and min - 1    one-sided (equivalence)
    2 and 20   1, 1                                11.1 %   0.0 %                           7.3 %   0.2 %
    2 and 8    3, 1                                10.5     0.2                             7.0     1.4
    3 and 20   1, 1                                 6.6     0.8                             5.2     1.7
    3 and 10   3, 1                                 6.0     2.4                             4.9     3.1
    4 and 8    3, 1                                 5.0     2.8                             4.4     3.4
    5 and 20   1, 1                                 4.6     1.9                             4.4     2.6

With min(n, m) - 1 the level holds at any two variances: |difference|/error exceeds any number no more often than t with
these df does. That is wasteful where the larger sample is the noisier, and Welch's df are kept where they err little:
from five values on, and for samples of one size, where they err most with 2 and 2 and sds 10 and 1 (5.1 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.statistics.by_t import ByT
from ablate.statistics.magnitude import divided, logarithms, magnitude, times
from ablate.statistics.spread import spread

TELLING = 5
"""So many values tell the noise of the smaller of two samples well enough for Welch's degrees of freedom."""


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
        """The size of the smaller sample."""
        return min(self.before, self.after)

    @property
    def of_smaller(self) -> bool:
        """Return whether the degrees of freedom are those of the smaller sample alone."""
        return self.df is not None and of_smaller(self.before, self.after)


def of_smaller(n: int, m: int) -> bool:
    """Return whether samples of n and m values are compared with the degrees of freedom of the smaller one."""
    return n != m and min(n, m) < TELLING


def welch(before: Sequence[float], after: Sequence[float], *, log: bool = False, confidence: float = 0.95) -> Welch:
    """Compare two independent samples; on the log scale as ratios after/before.

    ValueError for fewer than two values on a side, for one that is not finite, and for one without a logarithm.

    >>> result = welch([2.0, 2.1, 2.2], [1.9, 2.0, 2.1, 2.2])
    >>> round(result.difference, 3), result.df
    (-0.05, 2.0)
    """
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if min(x.size, y.size) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(f"two samples need two or more finite values each, got {x.size} and {y.size}")
    if log and min(x.min(), y.min()) <= 0:
        raise ValueError("ratios need values above zero")
    k = magnitude(x, y)
    x, y = (logarithms(side, k) if log else divided(side, k) for side in (x, y))
    unit = 0 if log else k
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
