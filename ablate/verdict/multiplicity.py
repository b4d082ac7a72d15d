"""Multiplicity: from the p-values and intervals of single tests to those that hold for all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate import statistics
from ablate.space.judge import Judge
from ablate.statistics.paired import bounds_without_spread, sign_flip_interval, student_interval
from ablate.verdict.contrasts import Contrast
from ablate.verdict.hypothesis_test import Tested
from ablate.verdict.judgement import metric_families
from ablate.verdict.summary import Verdict

Asked = tuple[str, Contrast]  # a metric's name, and a contrast on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """The p-values of one contrast at one look, adjusted for the number of comparisons and of looks, so that all are
    compared with one level. `q` is of that look alone: over several looks it does not bound the false discovery rate.

    `level` is what Holm's procedure compares its p with, α/(m - k) with k comparisons rejected before it, and
    `level_equivalent` the same for its p of equivalence; None where it could not be tested, or no α is left.
    """

    p_adjusted: float | None
    q: float | None
    p_equivalent_adjusted: float | None
    level: float | None = None
    level_equivalent: float | None = None

    def significant(self, level: float) -> bool:
        return self.p_adjusted is not None and self.p_adjusted < level

    def equivalent(self, level: float) -> bool:
        return self.p_equivalent_adjusted is not None and self.p_equivalent_adjusted < level


NOTHING = Corrected(p_adjusted=None, q=None, p_equivalent_adjusted=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of α that a contrast is tested at: the level of all looks together, `held`, that of this look, that of
    a following judgement, and the size of the largest `family`. Those of one `wave` were judged equally often, and are
    corrected together; what is in none is settled: it was tested at `level`, and is tested no more.
    """

    wave: str
    held: float
    level: float
    next_level: float
    family: int

    @property
    def stricter(self) -> float:
        """The factor by which p-values are multiplied, so that they are compared with the level of all looks."""
        return self.held / self.level if self.level > 0 else 1.0


def correct(tested: Mapping[Asked, Tested], rules: Judge, shares: Mapping[Asked, Share]) -> dict[Asked, Corrected]:
    """Adjust both kinds of p by Holm within each wave of a family, and those of a difference by Benjamini and Hochberg.

    What could not be tested counts as a test, and so does whatever else the largest family holds: what was judged
    before, or is asked no more. With j tests of m at once, whichever are true, the chance of any false claim is at most
    α·j/m: Holm's divisor for one of i true ones is at least m - (j - i), and i/(m - j + i) ≤ j/m.
    """
    corrected: dict[Asked, Corrected] = {}
    for metrics in metric_families(rules):
        family = [request for request in tested if request[0] in metrics]
        q = statistics.benjamini_hochberg([tested[request].p for request in family])
        for request, q_adjusted in zip(family, q, strict=True):
            corrected[request] = replace(NOTHING, q=q_adjusted)
        for wave in filter(None, dict.fromkeys(shares[request].wave for request in family)):
            members = [request for request in family if shares[request].wave == wave]
            level = shares[members[0]].level
            others = [None] * (shares[members[0]].family - len(members))
            p = [*(tested[request].p for request in members), *others]
            inside = [*(tested[request].p_equivalent for request in members), *others]
            p_adjusted, inside_adjusted = statistics.holm(p), statistics.holm(inside)
            of_one, of_inside = _levels_of_one(p, p_adjusted, level), _levels_of_one(inside, inside_adjusted, level)
            for place, request in enumerate(members):
                stricter = shares[request].stricter
                corrected[request] = Corrected(
                    p_adjusted=_times(p_adjusted[place], stricter),
                    q=_times(corrected[request].q, stricter),
                    p_equivalent_adjusted=_times(inside_adjusted[place], stricter),
                    level=of_one[place],
                    level_equivalent=of_inside[place],
                )
    return corrected


def _levels_of_one(
    p_values: Sequence[float | None], adjusted: Sequence[float | None], level: float
) -> list[float | None]:
    """The level that Holm's procedure compares each p of a family with: that of its step, and for all p that are not
    rejected the level of the step at which it stopped. None for what was not tested, and where no α is left.
    """
    each = list(zip(p_values, adjusted, strict=True))
    rejected = [p for p, p_adjusted in each if p is not None and p_adjusted is not None and p_adjusted < level]

    def held(p: float | None, p_adjusted: float | None) -> float | None:
        if p is None or p_adjusted is None or level <= 0:
            return None
        before = sum(other < p for other in rejected) if p_adjusted < level else len(rejected)
        return level / (len(each) - before)

    return [held(p, p_adjusted) for p, p_adjusted in each]


def _times(p: float | None, factor: float) -> float | None:
    return None if p is None else min(1.0, p * factor)


# The interval that agrees with a verdict: at the level that Holm's procedure tests its comparison at.
#
# Of m comparisons, k of which are rejected before this one,
#
#     a difference      estimate ± t(1 - a/2)·SE,  a = α/(m - k)          has no zero in it
#     equivalent        estimate ± t(1 - a)·SE                             lies inside ±margin
#     undecided         the union of both, with k all those rejected       holds zero, and is not inside the margin
#
# and likewise by sign flips, by the simulated t of a trend over sizes, or by the sign test, if that gave the p-value. α
# is what the judgement or the look may spend. Where runs were lost and ranks decide, no interval over the survivors
# agrees with the verdict, so there is none; nor is there one before a verdict, or where no α is left.


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedInterval:
    """The bounds, and the `confidence` of this interval taken alone; infinite where n is too small for it."""

    low: float
    high: float
    confidence: float


def adjusted_interval(test: Tested, corrected: Corrected, verdict: Verdict) -> AdjustedInterval | None:
    """The interval that agrees with the verdict; None where none does."""
    if test.ranks is not None or verdict == "diverged" or test.estimate is None or test.error is None:
        return None
    of_zero = None if corrected.level is None else _of_difference(test, corrected.level)
    # Of equivalence it is that of two one-sided tests, each at this level; by t at every n.
    of_margin = None if corrected.level_equivalent is None else _by_student(test, corrected.level_equivalent)
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


def _by_student(test: Tested, tail: float) -> AdjustedInterval:
    assert test.estimate is not None and test.error is not None
    if test.df is None or test.error == 0:
        low, high = bounds_without_spread(test.estimate, test.n, 2 * tail)
    else:
        low, high = student_interval(test.estimate, test.error, test.df, tail)
    return AdjustedInterval(low=low, high=high, confidence=1 - 2 * tail)
