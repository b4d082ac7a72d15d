"""A difference judged by t: from its standard error and degrees of freedom to its interval, p and that of equivalence.

interval      difference ± t_{1-α/2, df} error
equivalence   difference ± t_{1-α, df} error: the interval of two one-sided tests            Schuirmann 1987
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from ablate.statistics.magnitude import times
from ablate.statistics.paired import student_interval, student_p


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
