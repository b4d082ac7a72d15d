"""From the p-values of single tests to claims that hold for all of them together (multiple comparisons)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate import statistics
from ablate.space.documents import Judge
from ablate.verdict.contrasts import Contrast
from ablate.verdict.hypothesis_test import Tested

Asked = tuple[str, Contrast]
"""A metric's name, and a contrast on it."""


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
        """Return whether a difference is found."""
        return self.p_adjusted is not None and self.p_adjusted < level

    def equivalent(self, level: float) -> bool:
        """Return whether equivalence is found: a difference inside the margin."""
        return self.p_equivalent_adjusted is not None and self.p_equivalent_adjusted < level


NOTHING = Corrected(p_adjusted=None, q=None, p_equivalent_adjusted=None)
"""The p-values of what is not judged."""


def families(requests: Sequence[Asked], rules: Judge) -> list[list[Asked]]:
    """Group tests into families, over each of which the chance of any false claim is bounded."""
    if rules.family == "page":
        return [list(requests)]
    return [[request for request in requests if request[0] == name] for name in rules.metrics]


def correct(
    tested: Mapping[Asked, Tested], rules: Judge, stricter: Mapping[str, float], levels: Mapping[str, float]
) -> dict[Asked, Corrected]:
    """Adjust both kinds of p by Holm within each family, and those of a difference by Benjamini and Hochberg too.

    What could not be tested counts as a test. `stricter` is, by metric, the level of all looks together divided by that
    of this look: p-values are multiplied by it, and so are compared with the former. `levels` are, by metric, those of
    the look itself.
    """
    corrected: dict[Asked, Corrected] = {}
    for family in families(list(tested), rules):
        p = statistics.holm([tested[request].p for request in family])
        q = statistics.benjamini_hochberg([tested[request].p for request in family])
        inside = statistics.holm([tested[request].p_equivalent for request in family])
        level = levels[family[0][0]]
        of_one = _levels_of_one([tested[request].p for request in family], p, level)
        of_inside = _levels_of_one([tested[request].p_equivalent for request in family], inside, level)
        each = zip(family, p, q, inside, of_one, of_inside, strict=True)
        for request, p_adjusted, q_adjusted, p_equivalent, level_here, level_inside in each:
            corrected[request] = Corrected(
                p_adjusted=_times(p_adjusted, stricter[request[0]]),
                q=_times(q_adjusted, stricter[request[0]]),
                p_equivalent_adjusted=_times(p_equivalent, stricter[request[0]]),
                level=level_here,
                level_equivalent=level_inside,
            )
    return corrected


def _levels_of_one(
    p_values: Sequence[float | None], adjusted: Sequence[float | None], level: float
) -> list[float | None]:
    """Return the level that Holm's procedure compares each p of a family with: that of its step, and for all p that are
    not rejected the level of the step at which it stopped. None for what was not tested, and where no α is left.
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
