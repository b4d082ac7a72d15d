"""The ranking of results by several objectives, all minimised: Pareto fronts, crowding distance, hypervolume.

Deb et al. 2002, A fast and elitist multiobjective genetic algorithm: NSGA-II, Sections III-A and III-B.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby

from ablate.execute.search.result import Losses


def dominates(a: Losses, b: Losses) -> bool:
    """Return whether `a` dominates `b`: nowhere worse and somewhere better."""
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


def front(losses: Sequence[Losses]) -> list[int]:
    """Return the indices of the Pareto front, in order; of equal vectors all."""
    return _fronts(losses)[0] if losses else []


def ranked(losses: Sequence[Losses]) -> list[int]:
    """Return the indices, best first: by front, within one the least crowded first, ties in the given order."""
    order: list[int] = []
    for here in _fronts(losses):
        distance = dict(zip(here, crowding([losses[i] for i in here]), strict=True))
        order += sorted(here, key=lambda i: -distance[i])
    return order


def _fronts(losses: Sequence[Losses]) -> list[list[int]]:
    """Return the indices front by front. A vector's dominators precede it in lexicographic order.

    A dominator in one front is itself dominated by a vector of the front before, so the front of a vector is found by
    bisection.
    Zhang et al. 2015, An efficient approach to nondominated sorting for evolutionary multiobjective optimization.
    """
    order = sorted(range(len(losses)), key=lambda place: losses[place])
    if losses and len(losses[0]) == 1:
        return [list(alike) for _, alike in groupby(order, key=lambda place: losses[place])]
    fronts: list[list[int]] = []
    for i in order:
        vector = losses[i]
        home = bisect_left(fronts, True, key=lambda f: not any(dominates(losses[j], vector) for j in reversed(f)))
        if home == len(fronts):
            fronts.append([])
        fronts[home].append(i)
    return [sorted(members) for members in fronts]


def crowding(losses: Sequence[Losses]) -> list[float]:
    """Compute the crowding distance of each vector of a front: the gap around it, summed over objectives; infinite at
    the ends."""
    distance = [0.0] * len(losses)
    for objective in range(len(losses[0]) if losses else 0):
        order = sorted(range(len(losses)), key=lambda i: losses[i][objective])
        span = losses[order[-1]][objective] - losses[order[0]][objective]
        distance[order[0]] = distance[order[-1]] = math.inf
        for before, i, after in zip(order, order[1:], order[2:], strict=False):
            if span > 0:
                distance[i] += (losses[after][objective] - losses[before][objective]) / span
    return distance


def hypervolume(losses: Sequence[Losses], reference: Losses) -> float:
    """Compute the exact hypervolume that `losses` dominate up to `reference`; 0 if none is better than it.

    It sums slices along the last objective: between two of its values, the vectors up to the first count, with their
    hypervolume in the other objectives.
    """
    better = [loss for loss in losses if all(x < y for x, y in zip(loss, reference, strict=True))]
    if not better:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(loss[0] for loss in better)
    better.sort(key=lambda loss: loss[-1])
    volume = 0.0
    for place, loss in enumerate(better):
        end = better[place + 1][-1] if place + 1 < len(better) else reference[-1]
        if end > loss[-1]:
            volume += (end - loss[-1]) * hypervolume([other[:-1] for other in better[: place + 1]], reference[:-1])
    return volume
