"""How much of a search's results remained at fresh seeds, and the block to continue with."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.report.searched.analysis import SearchAnalysis, difference, shares
from ablate.report.searched.record import Entry, Objective, SearchRecord
from ablate.verdict.summary import Effect


def verdicts(record: SearchRecord, name: str) -> list[Effect]:
    """Return the confirmed effects of a chosen block against the reference, for each objective that was judged."""
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
    """A difference from the reference at both times: as seen in the search, and as confirmed at fresh seeds.

    Differences are of logarithms on the log scale. `share` is the confirmed part of an advantage seen in the search;
    None if the search saw none.
    """

    name: str
    objective: Objective
    value: float
    mean: float | None
    searched: float | None
    effect: Effect

    @property
    def compared(self) -> bool:
        """True if there is a difference from the reference both times."""
        return self.searched is not None and self.effect.estimate is not None

    @property
    def share(self) -> float | None:
        """confirmed / searched, the share of the advantage that remained."""
        if self.searched is None or self.effect.estimate is None or not _gain(self.searched, self.objective) > 0:
            return None
        return self.effect.estimate / self.searched


def improved(effect: Effect, record: SearchRecord) -> bool:
    """Return whether an objective is found better; of a metric without a better side, on the side that is sought."""
    goal = next(objective.goal for objective in record.objectives if objective.metric == effect.metric)
    return effect.improves or effect.verdict.removesuffix("_by_rank") == {"min": "lower", "max": "higher"}[goal]


def _gain(difference: float, objective: Objective) -> float:
    return difference if objective.goal == "max" else -difference


def kept(record: SearchRecord) -> list[Kept]:
    """Return for each chosen block and objective what was seen and what was confirmed."""
    pairs: list[Kept] = []
    if record.confirmed is None or not record.entries:
        return pairs
    metrics = [objective.metric for objective in record.objectives]
    arms = {arm.name: arm for arm in record.confirmed.arms}
    for name in record.chosen:
        entry = record.entry(name)
        for effect in verdicts(record, name):
            place = metrics.index(effect.metric)
            if place >= len(entry.values):
                continue
            level = arms[name].levels.get(effect.metric)
            pairs.append(
                Kept(
                    name=name,
                    objective=record.objectives[place],
                    value=entry.values[place],
                    mean=None if level is None else level.mean,
                    searched=difference(entry, record.entries[0], place, record.objectives[place]),
                    effect=effect,
                )
            )
    return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The shares that remained at fresh seeds in one objective, of the n blocks that had an advantage in the search.

    `judged` is how many of the confirmed could be compared both times.
    """

    objective: Objective
    shares: tuple[float, ...]
    judged: int


def left(record: SearchRecord) -> list[Left]:
    """Return what remained for each objective in which something can be compared both times."""
    remained = []
    for objective in record.objectives:
        both = [pair for pair in kept(record) if pair.objective == objective and pair.compared]
        shares = tuple(sorted(pair.share for pair in both if pair.share is not None))
        if both:
            remained.append(Left(objective=objective, shares=shares, judged=len(both)))
    return remained


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The block to continue with. `better` is the number of objectives in which fresh seeds found it better, or None.

    `alike` is the number of blocks with the same count, including it; before confirmation, with the same minimum gain.
    """

    entry: Entry
    better: int | None
    alike: int


def pick(record: SearchRecord, analysis: SearchAnalysis) -> Pick | None:
    """Return the confirmed block with most verdicts of better, the best balanced if tied; else the best of the search.

    Best balanced: its minimum gain over the reference, over objectives as shares of their range, is the largest.
    """
    gains = {name: least for name in record.chosen if (least := _least_confirmed(record, name)) is not None}
    if gains:
        won = {name: sum(improved(effect, record) for effect in verdicts(record, name)) for name in gains}
        best = max(gains, key=lambda name: (won[name], gains[name]))
        alike = sum(won[name] == won[best] for name in gains)
        return Pick(entry=record.entry(best), better=won[best], alike=alike)
    searched = _least_searched(analysis)
    if not searched:
        return None
    first = max(searched, key=lambda place: searched[place])
    alike = sum(gain == searched[first] for gain in searched.values())
    return Pick(entry=record.entries[first], better=None, alike=alike)


def _least_confirmed(record: SearchRecord, name: str) -> float | None:
    """Return the minimum gain at fresh seeds, each as a share of the largest difference among the confirmed.

    None if there is no difference in some objective.
    """
    estimates = {effect.metric: effect.estimate for effect in verdicts(record, name)}
    gains = []
    for objective in record.objectives:
        among = [
            abs(effect.estimate)
            for other in record.chosen
            for effect in verdicts(record, other)
            if effect.metric == objective.metric and effect.estimate is not None
        ]
        estimate = estimates.get(objective.metric)
        if estimate is None:
            return None
        gains.append(_gain(estimate, objective) / (max(among) or 1.0))
    return min(gains)


def _least_searched(analysis: SearchAnalysis) -> dict[int, float]:
    """Return the minimum gain in the search of each block of the front except the reference."""
    places = [place for place in analysis.front if place > 0]
    known = [loss for loss in analysis.losses if loss is not None]
    best = tuple(min(column) for column in zip(*known, strict=True))
    worst = tuple(max(column) for column in zip(*known, strict=True))
    base = shares(analysis.reference, best, worst) if analysis.reference is not None else (1.0,) * len(best)
    gains = {}
    for place in places:
        here = analysis.losses[place]
        assert here is not None
        gains[place] = min(b - x for b, x in zip(base, shares(here, best, worst), strict=True))
    return gains
