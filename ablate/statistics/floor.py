"""The noise floor: how far two trainings differ, seed by seed, that nothing tells apart but their initialisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ablate.statistics.paired import paired
from ablate.statistics.planning import POWER, seeds_for_margin, seeds_for_signs, visible_difference
from ablate.statistics.spread import SD_LEVEL, sd_interval, sd_upper


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The standard deviation of the differences of n ≥ 2 A/A pairs on one metric, and `whose` pairs they are.

    On the log scale it is that of log ratios. What is planned from it supposes that the differences of an edit vary as
    those of the A/A arms do: normally, with this standard deviation.
    """

    metric: str
    scale: Literal["linear", "log"]
    n: int
    sd: float
    whose: str

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
    return Floor(metric=metric, scale="log" if log else "linear", n=found.n, sd=found.sd, whose=whose)
