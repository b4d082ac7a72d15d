"""The Pareto front of a search, the blocks that beat the reference, and the hypervolume.

Only blocks that finished are compared, by their values at the end: values at a rung are from an earlier step and are
only shown. All objectives are turned so that less is better, and are logarithms if they are on the log scale.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ablate.execute.search.ranking import Losses, dominates, front, hypervolume
from ablate.report.searched.record import Entry, SearchObjective, SearchRecord

BEYOND = 0.1  # distance of the hypervolume's reference point beyond the worst value, as a share of the values' range


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnalysis:
    """Places in the record's entries, and curves with a point for each entry.

    `incomparable` finished without values that can be compared. `front` is the Pareto front, sorted by the first
    objective, ties by order of start. `beating` are better than the reference in every objective, `better_in[i]` in
    objective i. `curve` is None before there is anything to show; for one objective it is the best value so far,
    otherwise the hypervolume as a share of the box from `worst` to `ideal` (empty if all values of every objective are
    equal).
    """

    losses: tuple[Losses | None, ...]
    compared: tuple[int, ...]
    incomparable: tuple[int, ...]
    front: tuple[int, ...]
    beating: tuple[int, ...]
    better_in: tuple[tuple[int, ...], ...]
    curve: tuple[float | None, ...]
    ideal: tuple[float, ...]
    worst: tuple[float, ...]

    @property
    def reference(self) -> Losses | None:
        return self.losses[0] if self.losses else None


def analyse(record: SearchRecord) -> SearchAnalysis:
    goals = record.objectives
    losses = tuple(losses_of(entry, goals) for entry in record.entries)
    compared = tuple(place for place, loss in enumerate(losses) if loss is not None)
    known = [loss for loss in losses if loss is not None]
    best = tuple(min(column) for column in zip(*known, strict=True))
    worst = tuple(max(column) for column in zip(*known, strict=True))
    order = sorted((compared[i] for i in front(known)), key=lambda place: (losses[place], place))
    others = [(place, loss) for place, loss in enumerate(losses) if loss is not None and place > 0]
    base = losses[0] if losses else None
    better = tuple(
        tuple(place for place, loss in others if base is not None and loss[i] < base[i]) for i in range(len(goals))
    )
    return SearchAnalysis(
        losses=losses,
        compared=compared,
        incomparable=tuple(
            place for place, entry in enumerate(record.entries) if entry.outcome == "finished" and losses[place] is None
        ),
        front=tuple(order),
        beating=tuple(place for place, _ in others if all(place in column for column in better)),
        better_in=better,
        curve=_curve(losses, goals, best, worst),
        ideal=tuple(value_of(loss, goal) for loss, goal in zip(best, goals, strict=False)),
        worst=tuple(value_of(loss, goal) for loss, goal in zip(worst, goals, strict=False)),
    )


def losses_of(entry: Entry, objectives: Sequence[SearchObjective]) -> Losses | None:
    """Return the values at the end, all to be minimised; None if it did not finish or a value is not comparable."""
    if entry.outcome != "finished" or entry.until is not None or len(entry.values) != len(objectives):
        return None
    losses = tuple(_loss(value, objective) for value, objective in zip(entry.values, objectives, strict=True))
    return losses if all(math.isfinite(loss) for loss in losses) else None


def _loss(value: float, objective: SearchObjective) -> float:
    if objective.log:
        value = math.log(value) if value > 0 and math.isfinite(value) else math.nan
    return -value if objective.goal == "max" else value


def value_of(loss: float, objective: SearchObjective) -> float:
    value = -loss if objective.goal == "max" else loss
    return math.exp(value) if objective.log else value


def shares(loss: Losses, best: Losses, worst: Losses) -> Losses:
    """Return losses as shares of the range from the best to `BEYOND` past the worst; 0 if all are equal."""
    spans = [(1 + BEYOND) * (most - least) for least, most in zip(best, worst, strict=True)]
    return tuple((x - least) / span if span else 0.0 for x, least, span in zip(loss, best, spans, strict=True))


def _curve(
    losses: Sequence[Losses | None], goals: Sequence[SearchObjective], best: Losses, worst: Losses
) -> tuple[float | None, ...]:
    if len(goals) == 1:
        return _best_so_far(losses, goals[0])
    if best == worst:
        return ()
    corner = (1.0,) * len(goals)
    curve: list[float | None] = []
    kept: list[Losses] = []
    for loss in losses:
        new = None if loss is None else shares(loss, best, worst)
        if new is not None and not any(new == old or dominates(old, new) for old in kept):
            kept = [old for old in kept if not dominates(new, old)] + [new]
            curve.append(hypervolume(kept, corner))
        else:
            curve.append(curve[-1] if curve else None)
    return tuple(curve)


def _best_so_far(losses: Sequence[Losses | None], goal: SearchObjective) -> tuple[float | None, ...]:
    curve: list[float | None] = []
    least: float | None = None
    for loss in losses:
        if loss is not None:
            least = loss[0] if least is None else min(least, loss[0])
        curve.append(None if least is None else value_of(least, goal))
    return tuple(curve) if least is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCount:
    edit: str
    shown: int
    trained: int
    diverged: int


def edit_counts(record: SearchRecord, shown: Sequence[Entry]) -> list[EditCount]:
    among = Counter(edit for entry in shown for edit in set(entry.edits))
    trained = Counter(edit for entry in record.trained for edit in set(entry.edits))
    diverged = Counter(edit for entry in record.trained if entry.outcome == "diverged" for edit in set(entry.edits))
    counts = [
        EditCount(edit=edit, shown=among[edit], trained=n, diverged=diverged[edit]) for edit, n in trained.items()
    ]
    return sorted(counts, key=lambda count: (-count.shown, -count.trained, count.edit))


def difference(entry: Entry, reference: Entry, place: int, objective: SearchObjective) -> float | None:
    """Return entry - reference in one objective, of logarithms on the log scale; None unless both finished with one."""
    if any(
        each.until is not None or each.outcome != "finished" or place >= len(each.values) for each in (entry, reference)
    ):
        return None
    after, before = entry.values[place], reference.values[place]
    if objective.log:
        if not (after > 0 and before > 0):
            return None
        after, before = math.log(after), math.log(before)
    return after - before if math.isfinite(after) and math.isfinite(before) else None
