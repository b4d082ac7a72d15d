"""What of a search is worth being trained once more: the best of what finished."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ablate.execute.search.ranking import dominates, ranked
from ablate.execute.search.search import BlockSearch
from ablate.space.design import Goal


def best_blocks(search: BlockSearch, count: int) -> list[str]:
    """The marks of so many blocks to confirm, best first: those that beat the reference in every objective, then the
    others, each by front and, within one, the least crowded first. The reference is none of them."""
    whole, first = finished(search), search.jobs[0].mark
    losses = {mark: _losses(values, search.goals) for mark, values in whole.items()}
    marks = list(losses)
    order = [marks[i] for i in ranked(list(losses.values()))]
    order.sort(key=lambda mark: not (first in losses and dominates(losses[mark], losses[first])))
    return [mark for mark in order if mark != first][:count]


def finished(search: BlockSearch) -> Mapping[str, tuple[float, ...]]:
    """The values of every block that was trained to the end, finite in every objective, by mark."""
    found = {}
    for job in search.jobs:
        came = search.came(job.number)
        if came is not None and came.outcome == "finished" and all(map(math.isfinite, came.values)):
            found[job.mark] = came.values
    return found


def _losses(values: Iterable[float], goals: Sequence[Goal]) -> tuple[float, ...]:
    return tuple(value if goal == "min" else -value for value, goal in zip(values, goals, strict=True))
