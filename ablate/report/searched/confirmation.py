"""The share of a search's results that remained at fresh seeds, the block to continue with, and how to ablate it."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from ablate.report.searched.analysis import SearchAnalysis, difference, shares
from ablate.report.searched.record import Entry, SearchObjective, SearchRecord
from ablate.source.located import to_python
from ablate.source.yaml import parse_yaml
from ablate.verdict.summary import Effect


def verdicts(record: SearchRecord, name: str) -> list[Effect]:
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
class ConfirmedDifference:
    """A difference from the reference as seen in the search, and at fresh seeds; of logarithms on the log scale.

    `share` is the confirmed part of an advantage seen in the search; None if the search saw none.
    """

    name: str
    objective: SearchObjective
    value: float
    mean: float | None
    searched: float | None
    effect: Effect

    @property
    def compared(self) -> bool:
        return self.searched is not None and self.effect.estimate is not None

    @property
    def share(self) -> float | None:
        if self.searched is None or self.effect.estimate is None or not _gain(self.searched, self.objective) > 0:
            return None
        return self.effect.estimate / self.searched


def improved(effect: Effect, record: SearchRecord) -> bool:
    """Return whether it is found better; of a metric without a better side, on the side that is sought."""
    goal = next(objective.goal for objective in record.objectives if objective.metric == effect.metric)
    return effect.improves or effect.verdict.removesuffix("_by_rank") == {"min": "lower", "max": "higher"}[goal]


def _gain(difference: float, objective: SearchObjective) -> float:
    return difference if objective.goal == "max" else -difference


def confirmed_differences(record: SearchRecord) -> list[ConfirmedDifference]:
    pairs: list[ConfirmedDifference] = []
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
                ConfirmedDifference(
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
class RemainingShares:
    """The shares that remained at fresh seeds in one objective, of the n blocks that had an advantage in the search.

    `judged` is how many of the confirmed could be compared both times.
    """

    objective: SearchObjective
    shares: tuple[float, ...]
    judged: int


def remaining_shares(record: SearchRecord) -> list[RemainingShares]:
    remained = []
    for objective in record.objectives:
        both = [pair for pair in confirmed_differences(record) if pair.objective == objective and pair.compared]
        shares = tuple(sorted(pair.share for pair in both if pair.share is not None))
        if both:
            remained.append(RemainingShares(objective=objective, shares=shares, judged=len(both)))
    return remained


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The block to continue with. `better` is the number of objectives in which fresh seeds found it better, or None.

    `alike` blocks, itself included, have the same count, or before confirmation the same minimum gain.
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
    """The minimum gain at fresh seeds, as shares of the largest confirmed difference; None if an objective has none."""
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


# An ablation of the block to continue with, ready to paste: which of its edits matters?

ASK_COMMANDS = ("ablate plan COPY.yaml", "ablate run COPY.yaml")


def block_to_ask_about(record: SearchRecord, analysis: SearchAnalysis) -> Pick | None:
    candidate = pick(record, analysis)
    return candidate if candidate is not None and candidate.entry.edits else None


def path_snippet(record: SearchRecord, entry: Entry) -> str:
    """Return YAML for a space: the block, the values around it, and a path to both from the reference, edit by edit."""
    block = f"{entry.name}_block" if entry.around else entry.name
    values = {address: to_python(parse_yaml(text, address)) for address, text in entry.around}
    document = {
        "blocks": {block: to_python(parse_yaml(entry.block, entry.name))},
        **({"variants": {entry.name: {"block": block, "set": values}}} if values else {}),
        "design": {"path": {"from": record.reference, "to": entry.name}},
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=76)


def how_to_ask(record: SearchRecord, chosen: Pick) -> str:
    name = chosen.entry.name
    return (
        f"Which edit of {name} matters ({why_chosen(record, chosen)})? Copy the space, give it another name and "
        "enough seeds, replace its design with this, check with `ablate plan` what it would train, and `ablate run` "
        f"it. A line of its `block:` that changes neither {record.reference} nor {name} would be refused as having no "
        "effect: leave it out of the copy."
    )


def how_to_ask_briefly(record: SearchRecord, chosen: Pick) -> str:
    return (
        f"To ask which edit of {chosen.entry.name} matters ({why_chosen(record, chosen)}), replace the design of a "
        "copy of the space with the YAML on the page:"
    )


def why_chosen(record: SearchRecord, chosen: Pick) -> str:
    several = len(record.objectives) > 1
    best = "best balanced" if several else "largest gain"
    if chosen.better is None:
        one_of = f"one of {chosen.alike}" if chosen.alike > 1 else "the one"
        return (
            f"on the Pareto front, {one_of} with the largest minimum gain"
            if several
            else f"{one_of} best in the search"
        )
    if len(record.chosen) == 1:
        return "the one that was confirmed" if chosen.better else "the one chosen; it was not found better"
    of_them = f"the {best} of them" if several else f"the one with the {best} of them"
    if not chosen.better:
        return f"of those confirmed none was found better; {of_them}"
    if chosen.alike > 1:
        return f"one of {chosen.alike} that did best of those confirmed; {of_them}"
    return "of those confirmed, it did best"
