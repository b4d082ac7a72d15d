"""How well an early rung predicts a later one: Spearman's rank correlation of the values at both.

Only promoted blocks have values at both, the best of the earlier rung; over all blocks it would be higher.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from ablate.execute.search.rung_progress import Standing
from ablate.execute.search.rungs import Ladder

LEAST = 3
"""The fewest blocks for a correlation: that of two blocks is always 1 or -1."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """The rank correlation of objective number `objective` at the steps `lower` and `upper` (for the end: all steps).

    It is over the n blocks with a number at both; None if n is below three, or all numbers at one step are equal.
    """

    lower: int
    upper: int
    n: int
    objective: int
    spearman: float | None


def correlations(standing: Standing, ladder: Ladder, objectives: int) -> tuple[Correlation, ...]:
    """Compute the correlation of every two levels in every objective."""
    return tuple(
        _correlation(standing, ladder, lower, upper, objective)
        for lower, upper in combinations(range(ladder.end + 1), 2)
        for objective in range(objectives)
    )


def _correlation(standing: Standing, ladder: Ladder, lower: int, upper: int, objective: int) -> Correlation:
    pairs = [
        (levels[lower].came.values[objective], levels[upper].came.values[objective])
        for levels in standing.values()
        if all(level in levels and levels[level].came.values for level in (lower, upper))
    ]
    pairs = [pair for pair in pairs if not any(map(math.isnan, pair))]
    return Correlation(ladder.step(lower), ladder.step(upper), len(pairs), objective, spearman(pairs))


def spearman(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Compute Spearman's rank correlation of pairs, ties sharing their mean rank; None if it is not defined."""
    before, after = (list(side) for side in zip(*pairs, strict=True)) if (pairs := list(pairs)) else ([], [])
    if len(before) < LEAST or len(set(before)) == 1 or len(set(after)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(before, after).statistic)
