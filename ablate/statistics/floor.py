"""The noise floor: how much differences between two training runs vary over seeds.

Verdicts depend on how an edit's differences vary, so pairs of an edit are used where there are any. A/A pairs, which
differ in their initialisation alone, are a substitute: unlike an edit and its baseline they share no initialisation,
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

    For A/A pairs (`edits` is 0) it is over n ≥ 2 of them. For the pairs of one or more `edits` it is pooled, each
    around its own mean; n is then the largest number of pairs of an edit, which limits how well the sd is known, since
    all share the baseline's runs. `pairs` is the total number. On the log scale it is that of log ratios. Planning from
    it assumes that the differences of an edit vary as these do: normally, with this standard deviation.
    """

    metric: str
    scale: Literal["linear", "log"]
    n: int
    sd: float
    whose: str
    edits: int = 0
    pairs: int = 0

    def sd_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the χ² interval of the true standard deviation, at 95 % by default."""
        return sd_interval(self.sd, self.n, level)

    def visible(self, n: int, alpha: float = 0.05, power: float = POWER) -> tuple[float, float, float]:
        """Return the smallest difference that n pairs find at level α with that power, and its 95 % interval.

        It is proportional to the standard deviation, and so is its interval to that of the latter. Without
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
        """Return the fewest pairs for an interval, at 1-2α, of ± half the margin, from the 80 % upper limit of sd.

        Without spread, those that the one-sided sign test takes. None if no affordable number is enough.
        """
        if self.sd == 0:
            return seeds_for_signs(2 * alpha)
        return seeds_for_margin(sd_upper(self.sd, self.n, SD_LEVEL), margin, confidence=1 - alpha)


def floor_of(
    metric: str, before: Sequence[float], after: Sequence[float], *, log: bool = False, whose: str = ""
) -> Floor:
    """Compute the floor of a metric from A/A pairs that share a seed, position by position. ValueError as `paired`."""
    result = paired(before, after, log=log)
    return Floor(metric=metric, scale="log" if log else "linear", n=result.n, sd=result.sd, whose=whose, pairs=result.n)


def floor_of_edits(metric: str, edits: Sequence[Pairs], *, log: bool = False, whose: str = "") -> Floor:
    """Compute the floor of a metric from the pairs (before, after) of edits, each at two seeds or more.

        s² = Σ_e Σ_i (d_ei - d̄_e)² / Σ_e (n_e - 1)

    ValueError without an edit, and as `paired`.
    """
    if not edits:
        raise ValueError("a floor of edits needs the pairs of one edit or more")
    results = [paired([x for x, _ in pairs], [y for _, y in pairs], log=log) for pairs in edits]
    df = sum(result.n - 1 for result in results)
    return Floor(
        metric=metric,
        scale="log" if log else "linear",
        n=max(result.n for result in results),
        sd=math.hypot(*(math.sqrt((result.n - 1) / df) * result.sd for result in results)),
        whose=whose,
        edits=len(results),
        pairs=sum(result.n for result in results),
    )
