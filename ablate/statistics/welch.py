"""Two samples that are not paired: Welch's t.

With n values x_i before and m values y_j after (logarithms where differences are ratios), their means, and variances
s² and r²:

    difference    ȳ - x̄
    error         √(s²/n + r²/m)
    df            (s²/n + r²/m)² / ((s²/n)²/(n-1) + (r²/m)²/(m-1))                 Welch 1938, Satterthwaite 1946
    equivalence   two one-sided tests with the same error and df                   Schuirmann 1987
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.statistics.paired import student_interval, student_p
from ablate.statistics.spread import spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Welch:
    """The difference of the means of two independent samples; `low` and `high` bound its interval at confidence 1-α.

    `tost_low` and `tost_high` bound the one at 1-2α, `p` is two-sided. Where neither sample varies, `error` is 0 and
    nothing else but the difference is known: `df` and `p` are None, and the intervals have no bounds.
    """

    before: int
    after: int
    difference: float
    error: float
    df: float | None
    p: float | None
    low: float
    high: float
    tost_low: float
    tost_high: float

    @property
    def n(self) -> int:
        """The size of the smaller sample."""
        return min(self.before, self.after)


def welch(before: Sequence[float], after: Sequence[float], *, log: bool = False, confidence: float = 0.95) -> Welch:
    """Compare two independent samples; on the log scale as ratios after/before.

    ValueError for fewer than two values on a side, for one that is not finite, and for one without a logarithm.

    >>> result = welch([2.0, 2.1, 2.2], [1.9, 2.0, 2.1, 2.2])
    >>> round(result.difference, 3), round(result.df, 2)
    (-0.05, 4.96)
    """
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if min(x.size, y.size) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(f"two samples need two or more finite values each, got {x.size} and {y.size}")
    if log:
        if min(x.min(), y.min()) <= 0:
            raise ValueError("ratios need values above zero")
        x, y = np.log(x), np.log(y)
    difference = float(y.mean() - x.mean())
    shares = [spread(side, of=max(float(np.abs(side).max()), float(log))) ** 2 / side.size for side in (x, y)]
    error = math.sqrt(sum(shares))
    if error == 0:
        return Welch(
            before=x.size,
            after=y.size,
            difference=difference,
            error=0.0,
            df=None,
            p=None,
            low=-math.inf,
            high=math.inf,
            tost_low=-math.inf,
            tost_high=math.inf,
        )
    df = sum(shares) ** 2 / sum(share**2 / (side.size - 1) for share, side in zip(shares, (x, y), strict=True))
    alpha = 1 - confidence
    low, high = student_interval(difference, error, df, alpha / 2)
    tost_low, tost_high = student_interval(difference, error, df, alpha)
    return Welch(
        before=x.size,
        after=y.size,
        difference=difference,
        error=error,
        df=df,
        p=student_p(difference, error, df),
        low=low,
        high=high,
        tost_low=tost_low,
        tost_high=tost_high,
    )
