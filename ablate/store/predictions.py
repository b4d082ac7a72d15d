"""Predictions: forecasts and claims of the plans of a folder, and whether a claim was there before its results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

from ablate.output.words import spoken
from ablate.plan.comparisons import FEWEST_ROWS, claim_steps
from ablate.plan.plan import THEORY, Comparison, Forecast, Plan
from ablate.source.problems import shorten
from ablate.space.judge import Expected
from ablate.store import durable, files
from ablate.store.documents import (
    Documents,
    PlanDocument,
    ResolvedSpace,
    VariantDocument,
    digest,
    judge_in,
    plan_document,
    plan_id,
)
from ablate.store.durable import JsonObject, compact
from ablate.store.records import KeptDesign, KeptPlan
from ablate.store.snapshot import Snapshot
from ablate.verdict.contrasts import Difference, FactorialEffect, SpeedUpTrend, WeightedSum, contrast, weights_of
from ablate.verdict.experiment import RESULTS
from ablate.verdict.summary import Stamp, Summary

# Forecasts of a plan's variants, read without a lock

NOT_KEPT = "the plan was kept without: by an earlier version, or by a search that has not ended"
"""The reason why a variant has no forecast in a plan that was kept without one of it."""

FORECAST = TypeAdapter(Forecast)


def reusable_forecasts(folder: Path, space: str, resolved: object) -> dict[tuple[str, str], Forecast]:
    """Read the forecasts that a plan need not make, by a trial and its variant.

    Those of other plans are left out where another version of the theory made them; those of the plan itself (with the
    same `resolved` space) stay, since its rows are not overwritten.
    """
    plan = plan_id(space, asked=digest(resolved))
    every = Snapshot(folder).plans.of_space.get(space, ())
    forecasts: dict[tuple[str, str], Forecast] = {}
    for kept in every:
        forecasts.update((of, made) for of, made in _forecasts(kept.document) if made.theory == THEORY)
    for kept in every:
        forecasts.update(_forecasts(kept.document) if kept.id == plan else ())
    return forecasts


def kept_forecasts(folder: Path, space: str) -> dict[tuple[str, str], Forecast]:
    """Read the forecasts of a space's plans, by a trial and its variant; where there are several, the latest."""
    forecasts: dict[tuple[str, str], Forecast] = {}
    for kept in Snapshot(folder).plans.of_space.get(space, ()):
        forecasts.update(_forecasts(kept.document))
    return forecasts


def _forecasts(document: PlanDocument) -> Iterator[tuple[tuple[str, str], Forecast]]:
    made = {each["id"]: forecast_of(each) for each in document["variants"] if "forecast" in each}
    yield from (((trial, variant), made[variant]) for trial, variant, _ in document["trials"] if variant in made)


def with_kept_forecasts(plan: Plan, folder: Path) -> Plan:
    """Return a plan with the forecasts that the folder keeps of its variants; `NOT_KEPT` where it keeps none."""
    kept, none = kept_forecasts(folder, plan.space), Forecast(refused=NOT_KEPT)
    made = {trial.variant: kept[trial.id, trial.variant] for trial in plan.trials if (trial.id, trial.variant) in kept}
    return replace(plan, forecasts=tuple((variant.id, made.get(variant.id, none)) for variant in plan.variants))


def forecast_of(variant: VariantDocument) -> Forecast:
    """Return the forecast that a plan's document has of a variant; one without a version of the theory is of 1."""
    if "forecast" not in variant:
        return Forecast(refused=NOT_KEPT)
    return FORECAST.validate_python({"theory": 1, **variant["forecast"]})


# Stamps of claims: when a folder first kept each one, and when it first had results of what it is about
#
# A claim is an item of `judge: {expect: …}`, the same at other seeds, and in another space if its variants are the same
# there. In one space variants of one name are the same, whatever the profile. Results count at whatever seeds, profile
# and plan, also of lost trials that the witness lists, and of the first attempt at each. The date of a plan is written
# before any of its trials begins, and never changed.

NOT_OF_THE_QUESTION = ("profiles", "trials")
"""Keys of a resolved space that say nothing of a claim: profiles that were not chosen, and a mark of the store."""
CLAIMS = ("judge", "expect")
NO_STATEMENT = ("of", "order", "equivalent", "by")
"""Keys of a claim that are no statement: names, which another space may call otherwise, and the size of its power."""
NOTHING = "none"

Claim: TypeAlias = JsonObject  # an item of `judge: {expect: …}`, as it is written


@dataclass(frozen=True, slots=True)
class ContrastSides:
    """The variants (ids) that enter a comparison with a minus and those with a plus.

    It is known once `each` side has a result, or `every` variant, or as many `rows` as a correlation takes.
    """

    minus: frozenset[str]
    plus: frozenset[str]
    known: Literal["each", "every", "rows"] = "each"

    @property
    def variants(self) -> frozenset[str]:
        return self.minus | self.plus


@dataclass(frozen=True, slots=True)
class FirstResult:
    at: float
    space: str


class Stamps:
    """The stamps of the claims of plans, from the files of a folder."""

    def __init__(self, now: Snapshot):
        self._now = now
        self._read: dict[int, tuple[tuple[Claim, tuple[ContrastSides, ...]], ...]] = {}

    def of(self, document: PlanDocument) -> tuple[Stamp, ...]:
        return tuple(self._stamp(document, claim, own) for claim, own in _read_claims(document))

    def _claims(self, plan: KeptPlan) -> tuple[tuple[Claim, tuple[ContrastSides, ...]], ...]:
        if id(plan) not in self._read:
            self._read[id(plan)] = _read_claims(plan.document)
        return self._read[id(plan)]

    def _stamp(self, document: PlanDocument, claim: Claim, own: tuple[ContrastSides, ...]) -> Stamp:
        known = self._known(document, own)
        first: KeptPlan | None = None
        was: dict[str, None] = {}
        for plan, when in self._dated:
            for other, theirs in self._claims(plan):
                if other["metric"] != claim["metric"] or not _about_the_same(document, own, plan.document, theirs):
                    continue
                if _statement(other) == _statement(claim) and _directed(document, own, plan.document, theirs):
                    first = first or plan
                elif other not in claims_of(document) and (known is None or when < known.at):
                    was[_told(other)] = None
        before = first is not None and (known is None or (first.first_seen or 0.0) < known.at)
        return Stamp(
            stamped="before results" if before else "not dated" if known is None else "after results",
            at=None if first is None else first.first_seen,
            plan="" if first is None else first.id,
            space="" if first is None else first.space,
            known_at=None if known is None else known.at,
            known_in="" if known is None else known.space,
            changes=() if first is None else tuple(changed_keys(first.document, document)),
            was=tuple(was),
        )

    def _known(self, document: PlanDocument, comparisons: Iterable[ContrastSides]) -> FirstResult | None:
        moments = [moment for each in comparisons if (moment := self._moment(document, each)) is not None]
        return min(moments, key=lambda moment: moment.at, default=None)

    def _moment(self, document: PlanDocument, compared: ContrastSides) -> FirstResult | None:
        sides: list[list[FirstResult | None]] = [
            [self._first(document, variant) for variant in sorted(side)] for side in (compared.minus, compared.plus)
        ]
        if compared.known == "rows":
            rows = sorted((one for side in sides for one in side if one is not None), key=lambda one: one.at)
            return rows[FEWEST_ROWS - 1] if len(rows) >= FEWEST_ROWS else None
        if compared.known == "each":
            needed = [min((one for one in side if one), key=lambda one: one.at, default=None) for side in sides if side]
        else:
            needed = [one for side in sides for one in side]
        there = [one for one in needed if one is not None]
        return max(there, key=lambda one: one.at) if there and len(there) == len(needed) else None

    def _first(self, document: PlanDocument, variant: str) -> FirstResult | None:
        """Return the first result of a variant, and of those that a plan of the same space calls by its name."""
        names = _names(document).get(variant, frozenset())
        same = {variant}
        for plan in self._now.plans.of_space.get(document["space"], ()):
            same |= {id for id, called in _names(plan.document).items() if called & names}
        moments = [self._results[id] for id in same if id in self._results]
        return min(moments, key=lambda moment: moment.at, default=None)

    @cached_property
    def _dated(self) -> Sequence[tuple[KeptPlan, float]]:
        plans = [plan for of_space in self._now.plans.of_space.values() for plan in of_space]
        dated = [(plan, plan.first_seen) for plan in plans if plan.first_seen is not None]
        return sorted(dated, key=lambda each: each[1])

    @cached_property
    def _results(self) -> Mapping[str, FirstResult]:
        ended = dict(_first_results(self._now))
        first: dict[str, FirstResult] = {}
        for trial, variant, space in _trials_of_plans(self._now):
            if trial in ended and (variant not in first or ended[trial] < first[variant].at):
                first[variant] = FirstResult(ended[trial], space)
        return first


def unkept(plan: Plan, resolved: ResolvedSpace) -> PlanDocument:
    """Return a plan that no folder keeps as it would be kept, as far as claims are about it."""
    document = plan_document(plan, Documents(source="", resolved=resolved, profile=plan.profile))
    kept: PlanDocument = json.loads(compact(document))
    return kept


def stamped(summary: Summary, plan: PlanDocument | None, folder: Path) -> Summary:
    """Return a summary whose claims say when they were made; as it is where it has none, or no plan of it is kept."""
    if plan is None or not summary.expectations:
        return summary
    stamps = Stamps(Snapshot(folder)).of(plan)
    marked = (replace(claim, stamp=stamp) for claim, stamp in zip(summary.expectations, stamps, strict=True))
    return replace(summary, expectations=tuple(marked))


def _read_claims(document: PlanDocument) -> tuple[tuple[Claim, tuple[ContrastSides, ...]], ...]:
    return tuple((claim, compared_by(document, claim)) for claim in claims_of(document))


def claims_of(document: PlanDocument) -> tuple[Claim, ...]:
    return tuple(map(_plain, judge_in(document).get("expect") or ()))


def _plain(claim: Claim) -> Claim:
    """Return a claim with its verdicts in one order, so that equal claims are equal; a single one stands alone."""
    verdict = claim.get("verdict")
    if isinstance(verdict, list | tuple):
        claim = {**claim, "verdict": verdict[0] if len(verdict) == 1 else sorted(map(str, verdict))}
    plain: Claim = json.loads(compact(claim))
    return plain


def compared_by(document: PlanDocument, claim: Claim) -> tuple[ContrastSides, ...]:
    """Return the sides that a claim compares in a plan, in its own direction; none where the plan does not."""
    expected = Expected.model_validate(claim)
    if expected.correlation is not None:
        salted = {each["after"] for each in document["comparisons"] if each["kind"] == "noise"}
        rows = frozenset(variant["id"] for variant in document["variants"]) - salted
        return (ContrastSides(frozenset(), rows, "rows"),)
    design = KeptDesign(document)
    steps = claim_steps(expected, names_in(document), design.comparisons, "lower")
    sides = ((_compared(design, step.comparison), step.turned) for step in steps)
    return tuple(ContrastSides(each.plus, each.minus, each.known) if turned else each for each, turned in sides)


def names_in(document: PlanDocument) -> Mapping[str, str]:
    return {name: variant["id"] for variant in document["variants"] for name in variant.get("names", ())}


def _compared(design: KeptDesign, comparison: Comparison) -> ContrastSides:
    known: Literal["each", "every"] = "every" if comparison.kind in ("interaction", "trend") else "each"
    question = contrast(comparison, dict(design.factors), dict(design.ladders))
    match question:
        case Difference():
            signs = [(comparison.before, -1.0), (comparison.after, 1.0)]
        case WeightedSum(weights=weights):
            signs = list(weights)
        case SpeedUpTrend(pairs=pairs):
            signs = [(variant, sign) for pair in pairs for variant, sign in zip(pair, (-1.0, 1.0), strict=True)]
        case FactorialEffect():
            signs = weights_of(question, dict(design.factors)[comparison.terms])
    minus = frozenset(variant for variant, sign in signs if sign < 0)
    return ContrastSides(minus, frozenset(variant for variant, sign in signs if sign > 0), known)


def _names(document: PlanDocument) -> dict[str, frozenset[str]]:
    return {variant["id"]: frozenset(variant.get("names", ())) for variant in document["variants"]}


def _about_the_same(
    here: PlanDocument, own: Sequence[ContrastSides], there: PlanDocument, theirs: Sequence[ContrastSides]
) -> bool:
    """Return whether two claims are about the same variants: by their ids, and within one space also by their names."""
    if not own or len(own) != len(theirs):
        return False
    if {each.variants for each in own} == {each.variants for each in theirs}:
        return True
    called = ({_called(each.variants, of) for each in among} for of, among in ((here, own), (there, theirs)))
    return here["space"] == there["space"] and next(called) == next(called)


def _directed(
    here: PlanDocument, own: Sequence[ContrastSides], there: PlanDocument, theirs: Sequence[ContrastSides]
) -> bool:
    return all(
        one.minus == other.minus or _called(one.minus, here) == _called(other.minus, there)
        for one, other in zip(own, theirs, strict=True)
    )


def _called(variants: Iterable[str], document: PlanDocument) -> frozenset[str]:
    names = {variant["id"]: variant["name"] for variant in document["variants"]}
    return frozenset(names[id] for id in variants)


def _statement(claim: Claim) -> Claim:
    return {key: value for key, value in claim.items() if key not in NO_STATEMENT}


def _told(claim: Claim) -> str:
    expected = Expected.model_validate(claim)
    return f"{expected.claim} ({' or '.join(map(spoken, expected.verdicts)) or expected.about})"


def _trials_of_plans(now: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yield each trial with a variant that it is in a plan, and the space of that; last those of no plan."""
    for space, plans in now.plans.of_space.items():
        for plan in plans:
            for trial, variant, _ in plan.document["trials"]:
                yield trial, variant, space
    for trial, specification in now.plans.specifications.items():
        yield trial, str(specification["variant"]), ""


def _first_results(now: Snapshot) -> Iterator[tuple[str, float]]:
    """Yield the time of the first result of each trial, also where its file is gone or it was trained again since."""
    first: dict[str, float] = {}
    endings = [*now.endings.values(), *(each.ending for each in now.witness.written.values() if each.ending)]
    for ending in endings:
        if ending.kind in RESULTS:
            first[ending.trial] = min(ending.ended, first.get(ending.trial, math.inf))
    for record in durable.read_lines(now.folder / files.WITNESS).records:
        match record:
            case ["written", {"ending": {"trial": str(trial), "kind": str(kind), "ended": int() | float() as ended}}]:
                if kind in RESULTS:
                    first[trial] = min(ended, first.get(trial, math.inf))
    yield from first.items()


def changed_keys(before: PlanDocument, after: PlanDocument) -> Iterator[str]:
    """Yield the differences of two spaces, key by key, other claims left out: `seeds: 3 → 4`."""
    yield from _difference("profile", before.get("profile"), after.get("profile"))
    then, now = (
        {key: value for key, value in document["resolved"].items() if key not in NOT_OF_THE_QUESTION}
        for document in (before, after)
    )
    yield from _changes((), then, now)


def _changes(keys: tuple[str, ...], before: JsonObject, after: JsonObject) -> Iterator[str]:
    for key in {**before, **after}:
        here = (*keys, key)
        then, now = before.get(key), after.get(key)
        if here == CLAIMS:
            continue
        if isinstance(then, Mapping) and isinstance(now, Mapping):
            yield from _changes(here, then, now)
        else:
            yield from _difference(".".join(here), then, now)


def _difference(name: str, before: object, after: object) -> Iterator[str]:
    if before != after:
        then, now = (NOTHING if value is None else _short(value) for value in (before, after))
        yield f"{name}: {then} → {now}"


def _short(value: object) -> str:
    return shorten(value if isinstance(value, str) else compact(value))
