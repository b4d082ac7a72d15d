"""From the p-values of single tests to what may be claimed of all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate import statistics
from ablate.space.documents import Judge
from ablate.verdict.contrasts import Contrast
from ablate.verdict.hypothesis_test import Tested

Asked = tuple[str, Contrast]
"""A metric's name and what is asked of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """p-values of one question at one look that may be held against one level however many are asked, and however often
    it is looked. `q` is of that look alone: over several it bounds no share of false finds.

    `level` is what Holm holds the p of this one against, α/(m - k) with k comparisons found before it, and
    `level_equivalent` the same of its p of equivalence; None where it could not be tested, or nothing is left of α.
    """

    p_adjusted: float | None
    q: float | None
    p_equivalent_adjusted: float | None
    level: float | None = None
    level_equivalent: float | None = None

    def significant(self, level: float) -> bool:
        """Whether a difference is found."""
        return self.p_adjusted is not None and self.p_adjusted < level

    def equivalent(self, level: float) -> bool:
        """Whether the difference is found to be inside the margin."""
        return self.p_equivalent_adjusted is not None and self.p_equivalent_adjusted < level


NOTHING = Corrected(p_adjusted=None, q=None, p_equivalent_adjusted=None)
"""Of what is not judged."""


def families(asked: Sequence[Asked], rules: Judge) -> list[list[Asked]]:
    """What is asked, in the groups over each of which the chance of any false claim is bounded."""
    if rules.family == "page":
        return [list(asked)]
    return [[one for one in asked if one[0] == name] for name in rules.metrics]


def correct(
    tested: Mapping[Asked, Tested], rules: Judge, stricter: Mapping[str, float], levels: Mapping[str, float]
) -> dict[Asked, Corrected]:
    """Holm's correction of both kinds of p within each family, and Benjamini and Hochberg's of the first.

    What could not be tested counts as a test. `stricter` is, by metric, how many times smaller the level of a look is
    than what all looks together are held at: p-values are given as many times larger, and held against the latter.
    `levels` are, by metric, those of the look itself.
    """
    found: dict[Asked, Corrected] = {}
    for family in families(list(tested), rules):
        p = statistics.holm([tested[one].p for one in family])
        q = statistics.benjamini_hochberg([tested[one].p for one in family])
        inside = statistics.holm([tested[one].p_equivalent for one in family])
        level = levels[family[0][0]]
        of_one = _levels_of_one([tested[one].p for one in family], p, level)
        of_inside = _levels_of_one([tested[one].p_equivalent for one in family], inside, level)
        each = zip(family, p, q, inside, of_one, of_inside, strict=True)
        for one, p_adjusted, q_adjusted, p_equivalent, level_here, level_inside in each:
            found[one] = Corrected(
                p_adjusted=_times(p_adjusted, stricter[one[0]]),
                q=_times(q_adjusted, stricter[one[0]]),
                p_equivalent_adjusted=_times(p_equivalent, stricter[one[0]]),
                level=level_here,
                level_equivalent=level_inside,
            )
    return found


def _levels_of_one(
    p_values: Sequence[float | None], adjusted: Sequence[float | None], level: float
) -> list[float | None]:
    """The level at which Holm's procedure holds each p of a family: that of its step, and for all that it does not find
    the level of the step at which it stopped. None of what was not tested, and where nothing is left of α.
    """
    each = list(zip(p_values, adjusted, strict=True))
    found = [p for p, p_adjusted in each if p is not None and p_adjusted is not None and p_adjusted < level]

    def held(p: float | None, p_adjusted: float | None) -> float | None:
        if p is None or p_adjusted is None or level <= 0:
            return None
        before = sum(other < p for other in found) if p_adjusted < level else len(found)
        return level / (len(each) - before)

    return [held(p, p_adjusted) for p, p_adjusted in each]


def _times(p: float | None, factor: float) -> float | None:
    return None if p is None else min(1.0, p * factor)
