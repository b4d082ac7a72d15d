"""The interval that agrees with a verdict: at the level that Holm's procedure tests its comparison at.

Of m comparisons, k of which are rejected before this one,

    a difference      estimate ± t(1 - a/2)·SE,  a = α/(m - k)          has no zero in it
    equivalent        estimate ± t(1 - a)·SE                             lies inside ±margin
    undecided         the union of both, with k all those rejected       holds zero, and is not inside the margin

and likewise by sign flips, by the simulated t of a trend over sizes, or by the sign test where nothing varies, if that
gave the p-value. α is what the judgement or the look may spend. Where runs were lost and ranks decide, no interval over
the survivors agrees with the verdict, so there is none; nor is there one before a verdict, or where no α is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ablate.statistics.flips import sign_flip_interval
from ablate.statistics.paired import bounds_without_spread, student_interval
from ablate.verdict.hypothesis_test import Tested
from ablate.verdict.multiplicity import Corrected
from ablate.verdict.summary import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedInterval:
    """The bounds, and the `confidence` of this interval taken alone; infinite where n is too small for it."""

    low: float
    high: float
    confidence: float


def adjusted_interval(test: Tested, corrected: Corrected, verdict: Verdict) -> AdjustedInterval | None:
    """Return the interval that agrees with the verdict of a test; None where none does."""
    if test.ranks is not None or verdict == "diverged" or test.estimate is None or test.error is None:
        return None
    of_zero = None if corrected.level is None else _of_difference(test, corrected.level)
    of_margin = None if corrected.level_equivalent is None else _of_equivalence(test, corrected.level_equivalent)
    if verdict == "equivalent":
        return of_margin
    if verdict == "undecided" and of_zero is not None and of_margin is not None:
        return AdjustedInterval(
            low=min(of_zero.low, of_margin.low),
            high=max(of_zero.high, of_margin.high),
            confidence=max(of_zero.confidence, of_margin.confidence),
        )
    return of_zero


def _of_difference(test: Tested, level: float) -> AdjustedInterval:
    """Compute the interval of the two-sided test at that level."""
    if test.interval is not None:
        low, high = test.interval(level)
        return AdjustedInterval(low=low, high=high, confidence=1 - level)
    if test.method == "sign_flip":
        low, high = sign_flip_interval(np.array(test.differences), level)
        return AdjustedInterval(low=low, high=high, confidence=1 - level)
    if test.critical is not None and test.estimate is not None and test.error is not None:
        half = test.critical(1 - level) * test.error
        return AdjustedInterval(low=test.estimate - half, high=test.estimate + half, confidence=1 - level)
    return _by_student(test, level / 2)


def _of_equivalence(test: Tested, level: float) -> AdjustedInterval:
    """Compute the interval of the two one-sided tests, each at that level; by t at every n."""
    return _by_student(test, level)


def _by_student(test: Tested, tail: float) -> AdjustedInterval:
    assert test.estimate is not None and test.error is not None
    if test.df is None or test.error == 0:
        low, high = bounds_without_spread(test.estimate, test.n, 2 * tail)
    else:
        low, high = student_interval(test.estimate, test.error, test.df, tail)
    return AdjustedInterval(low=low, high=high, confidence=1 - 2 * tail)
