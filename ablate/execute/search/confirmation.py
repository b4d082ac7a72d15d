"""The blocks of a search that are worth confirming by another training: the best that finished."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ablate.execute.search.ranking import dominates, ranked
from ablate.execute.search.search import BlockSearch
from ablate.space.design import Goal


def best_blocks(search: BlockSearch, count: int) -> list[str]:
    """Return the marks of `count` blocks to confirm, best first: those that dominate the reference, then the others,
    each ordered by Pareto front and, within one, least crowded first. The reference is not among them."""
    whole, first = finished(search), search.jobs[0].mark
    losses = {mark: _losses(values, search.goals) for mark, values in whole.items()}
    marks = list(losses)
    order = [marks[i] for i in ranked(list(losses.values()))]
    order.sort(key=lambda mark: not (first in losses and dominates(losses[mark], losses[first])))
    return [mark for mark in order if mark != first][:count]


def finished(search: BlockSearch) -> Mapping[str, tuple[float, ...]]:
    """Return the values, by mark, of every block that was trained to the end and is finite in every objective."""
    values = {}
    for job in search.jobs:
        came = search.came(job.number)
        if came is not None and came.outcome == "finished" and all(map(math.isfinite, came.values)):
            values[job.mark] = came.values
    return values


def _losses(values: Iterable[float], goals: Sequence[Goal]) -> tuple[float, ...]:
    return tuple(value if goal == "min" else -value for value, goal in zip(values, goals, strict=True))
