"""What fresh seeds left of what a search saw, and the block to go on with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ablate.report.searched.reckoned import Reckoned, difference, shares
from ablate.report.searched.record import Entry, Objective, SearchRecord
from ablate.report.summary import Effect


def verdicts(record: SearchRecord, name: str) -> list[Effect]:
    """What confirmation found for a chosen block against the reference, objective by objective, where it was judged."""
    if record.confirmed is None:
        return []
    arms = {arm.name: arm.variant for arm in record.confirmed.arms}
    against = {
        effect.metric: effect
        for effect in record.confirmed.effects
        if effect.kind == "baseline" and effect.after == arms.get(name)
    }
    return [against[objective.metric] for objective in record.objectives if objective.metric in against]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What fresh seeds left of a difference to the reference: as seen in the search, and as confirmed.

    Differences are of logarithms on the log scale. `share` is the confirmed part of an advantage seen in the search;
    None where the search saw none.
    """

    name: str
    objective: Objective
    value: float
    mean: float | None
    searched: float | None
    effect: Effect

    @property
    def share(self) -> float | None:
        """confirmed / searched."""
        if self.searched is None or self.effect.estimate is None or not _gain(self.searched, self.objective) > 0:
            return None
        return self.effect.estimate / self.searched


def _gain(difference: float, objective: Objective) -> float:
    return difference if objective.goal == "max" else -difference


def kept(record: SearchRecord) -> list[Kept]:
    """For each chosen block and objective, what was seen and what was confirmed."""
    found: list[Kept] = []
    if record.confirmed is None or not record.entries:
        return found
    metrics = [objective.metric for objective in record.objectives]
    arms = {arm.name: arm for arm in record.confirmed.arms}
    for name in record.chosen:
        entry = record.entry(name)
        for effect in verdicts(record, name):
            place = metrics.index(effect.metric)
            if place >= len(entry.values):
                continue
            level = arms[name].levels.get(effect.metric)
            found.append(
                Kept(
                    name=name,
                    objective=record.objectives[place],
                    value=entry.values[place],
                    mean=None if level is None else level.mean,
                    searched=difference(entry, record.entries[0], place, record.objectives[place]),
                    effect=effect,
                )
            )
    return found


def mean_kept(record: SearchRecord, objective: Objective) -> float | None:
    """The confirmed share of the advantage that all chosen blocks together had in the search; None without one."""
    pairs = [
        (one.searched, one.effect.estimate)
        for one in kept(record)
        if one.objective == objective and one.searched is not None and one.effect.estimate is not None
    ]
    seen = math.fsum(searched for searched, _ in pairs)
    if not pairs or not _gain(seen, objective) > 0:
        return None
    return math.fsum(confirmed for _, confirmed in pairs) / seen


def shown_first(record: SearchRecord, found: Reckoned) -> Entry | None:
    """The block to go on with: of those confirmed the one with most verdicts of better, else the best balanced.

    That is the one of the front whose least gain on the reference, as a share of the objective's range, is largest.
    """
    if record.confirmed is not None and record.chosen:
        won = {name: sum(effect.verdict == "better" for effect in verdicts(record, name)) for name in record.chosen}
        return record.entry(max(record.chosen, key=lambda name: won[name]))
    places = [place for place in found.front if place > 0]
    if not places:
        return None
    known = [one for one in found.losses if one is not None]
    best = tuple(min(column) for column in zip(*known, strict=True))
    worst = tuple(max(column) for column in zip(*known, strict=True))
    base = shares(found.reference, best, worst) if found.reference is not None else (1.0,) * len(best)

    def least_gain(place: int) -> float:
        here = found.losses[place]
        assert here is not None
        return min(b - x for b, x in zip(base, shares(here, best, worst), strict=True))

    return record.entries[max(places, key=least_gain)]
