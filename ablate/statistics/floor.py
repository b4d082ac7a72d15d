"""The noise floor: by how much differences between two trainings vary over seeds.

What is judged is how an edit's differences vary, so pairs of an edit tell it where there are any. A/A pairs, which
differ in their initialisation alone, stand in for them: they share no initialisation, as an edit and its baseline do,
and where that matters their differences vary more than those that are judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ablate.statistics.paired import paired
from ablate.statistics.planning import POWER, seeds_for_margin, seeds_for_signs, visible_difference
from ablate.statistics.spread import SD_LEVEL, sd_interval, sd_upper

Pairs: TypeAlias = Sequence[tuple[float, float]]
"""Values that share a seed: before, and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The standard deviation of the differences of pairs on one metric, and `whose` pairs they are.

    Of A/A pairs (`edits` is 0) it is over n ≥ 2 of them. Of the pairs of one or more `edits` it is pooled, each around
    its own mean; then n is how many the edit has that has most, and what is known of the sd goes by these: all share
    the baseline's runs. `pairs` are all of them. On the log scale it is that of log ratios. What is planned from it
    supposes that the differences of an edit vary as these do: normally, with this standard deviation.
    """

    metric: str
    scale: Literal["linear", "log"]
    n: int
    sd: float
    whose: str
    edits: int = 0
    pairs: int = 0

    def sd_interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of the true standard deviation by χ², at 95 % where nothing else is asked for."""
        return sd_interval(self.sd, self.n, level)

    def visible(self, n: int, alpha: float = 0.05, power: float = POWER) -> tuple[float, float, float]:
        """The smallest difference that n pairs find at level α with that power, and its 95 % interval.

        It is proportional to the standard deviation, so that its interval is as sure as that of the latter. Without
        spread the sign test decides: any difference is found from `seeds_for_signs(alpha)` pairs on, none (infinite)
        from fewer.
        """
        if self.sd == 0:
            least = 0.0 if n >= seeds_for_signs(alpha) else math.inf
            return least, least, least
        at = visible_difference(1.0, n, alpha, power)
        low, high = self.sd_interval()
        return at * self.sd, at * low, at * high

    def seeds_for_margin(self, margin: float, alpha: float = 0.05) -> int | None:
        """The fewest pairs for an interval, at 1-2α, of half the margin to each side, from the 80 % upper limit of sd.

        Without spread those that the sign test for one side takes. None if no affordable number would do.
        """
        if self.sd == 0:
            return seeds_for_signs(2 * alpha)
        return seeds_for_margin(sd_upper(self.sd, self.n, SD_LEVEL), margin, confidence=1 - alpha)


def floor_of(
    metric: str, before: Sequence[float], after: Sequence[float], *, log: bool = False, whose: str = ""
) -> Floor:
    """The floor of a metric from A/A pairs that share a seed, position by position. ValueError as `paired`."""
    found = paired(before, after, log=log)
    return Floor(metric=metric, scale="log" if log else "linear", n=found.n, sd=found.sd, whose=whose, pairs=found.n)


def floor_of_edits(metric: str, edits: Sequence[Pairs], *, log: bool = False, whose: str = "") -> Floor:
    """The floor of a metric from the pairs (before, after) of edits, each at two seeds or more.

        s² = Σ_e Σ_i (d_ei - d̄_e)² / Σ_e (n_e - 1)

    ValueError without an edit, and as `paired`.
    """
    if not edits:
        raise ValueError("a floor of edits needs the pairs of one edit or more")
    found = [paired([x for x, _ in pairs], [y for _, y in pairs], log=log) for pairs in edits]
    df = sum(one.n - 1 for one in found)
    return Floor(
        metric=metric,
        scale="log" if log else "linear",
        n=max(one.n for one in found),
        sd=math.sqrt(sum((one.n - 1) * one.sd**2 for one in found) / df),
        whose=whose,
        edits=len(found),
        pairs=sum(one.n for one in found),
    )
