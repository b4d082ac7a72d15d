"""Tuning: every variant is trained under every combination of the listed values, and is judged at its best.

All have the same settings, except for fields that a block does not have, and seeds and a split apart from those of
the verdict. The setting with the best mean of the first judged metric is chosen; one without a value at any seed (it
diverged, or failed) is not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypedDict

from ablate.block.reader import Invalid
from ablate.errors import InputError
from ablate.output.words import spoken
from ablate.plan.models import Models, Tuned, block_at, fields_of
from ablate.plan.plan import Plan, Trial, Variant
from ablate.source.located import Span
from ablate.source.problems import Problems
from ablate.space.fair import Match, Plain, Tune, TunedField, text_of
from ablate.space.judge import Judged
from ablate.space.space import Space

FIRST_SEED = 1_000_000  # tuning seeds count from here, away from those of the verdict


class TunedTrialEnd(TypedDict):
    """The end of a trial, as far as tuning uses it, with its final metrics by name."""

    status: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedSettings:
    """The settings that tuning chose, by variant id, as in `Known.tuned`, and notes about them."""

    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def tuning_settings(fields: Sequence[TunedField]) -> tuple[Tuned, ...]:
    names = [field.name for field in fields]
    return tuple(tuple(zip(names, values, strict=True)) for values in product(*(field.values for field in fields)))


def tuning_seeds(tune: Tune) -> range:
    return range(FIRST_SEED, FIRST_SEED + tune.seeds)


def choose(
    space: Space, plan: Plan, finals: Mapping[str, TunedTrialEnd], failed: Collection[str] = ()
) -> TunedSettings:
    """Choose the setting that each variant of the plan is judged with.

    `finals` are the ends of trials by id, as in the store; those that are `failed` and not there ended without a value.
    A variant with a tuning trial that is neither is not chosen for yet. Where no setting has a value at all seeds, an
    empty one is chosen: the variant is trained with the recipe's values.
    """
    tune = space.fair.tune
    if not isinstance(tune, Tune):
        return TunedSettings()
    metric, rules = next(iter(space.judge.metrics.items()))
    tuned: dict[str, Tuned] = {}
    notes: list[str] = []
    for variant in plan.variants:
        trials = [trial for trial in plan.trials if trial.variant == variant.id and trial.split == "tuning"]
        if not trials or not all(trial.id in finals or trial.id in failed for trial in trials):
            continue
        means = {
            setting: _mean([_final_value(finals.get(trial.id), metric) for trial in group], rules)
            for setting, group in _by_setting(trials, plan).items()
        }
        tuned[variant.id] = best = _best(means, rules)
        notes.append(_chosen_note(variant, best, means, metric, tune))
    return TunedSettings(tuned=tuned, notes=tuple(notes))


def _by_setting(trials: Collection[Trial], plan: Plan) -> dict[Tuned, list[Trial]]:
    groups: dict[Tuned, list[Trial]] = {}
    of = {trial.id: trial for trial in trials}
    for id, setting in plan.tried:
        if id in of:
            groups.setdefault(setting, []).append(of[id])
    return groups


def _final_value(end: TunedTrialEnd | None, metric: str) -> float | None:
    """Return the final value of a trial; None where it did not finish, or has no finite value."""
    value = end["metrics"].get(metric) if end is not None and end["status"] == "finished" else None
    return float(value) if value is not None and math.isfinite(value) else None


def _mean(values: Collection[float | None], rules: Judged) -> float | None:
    """Compute the mean on the metric's scale; None where some seed has no value on it."""
    known = [value for value in values if value is not None and (rules.scale == "linear" or value > 0)]
    if not known or len(known) < len(values):
        return None
    return math.fsum(math.log(value) if rules.scale == "log" else value for value in known) / len(known)


def _best(means: Mapping[Tuned, float | None], rules: Judged) -> Tuned:
    """Return the setting with the best mean, the first listed among equals; empty where none has a mean."""
    known = {setting: mean for setting, mean in means.items() if mean is not None}
    if not known:
        return ()
    return min(known, key=lambda setting: known[setting] if rules.better == "lower" else -known[setting])


def _chosen_note(variant: Variant, best: Tuned, means: Mapping[Tuned, float | None], metric: str, tune: Tune) -> str:
    if not best:
        return (
            f"{variant.name}: none of its {len(means)} settings has {spoken(metric)} at all tuning seeds: "
            "trained with the recipe's values"
        )
    chosen = ", ".join(f"{tune.field(name).spoken} {text_of(value)}" for name, value in best)
    lost = sum(mean is None for mean in means.values())
    without = f" ({lost} of them without a value at some seed)" if lost else ""
    edges = [field.spoken for name, value in best if _at_the_edge(field := tune.field(name), value)]
    grid = "are at the edge of their grids: widen them" if len(edges) > 1 else "is at the edge of its grid: widen it"
    edge = f"; {' and '.join(edges)} {grid}, as the best may lie beyond" if edges else ""
    return f"{variant.name}: {chosen} is the best of {len(means)} settings{without} by {spoken(metric)}{edge}"


def _at_the_edge(field: TunedField, value: Plain) -> bool:
    if not field.ordered or len(field.values) < 2:
        return False
    numbers = sorted(float(str(listed)) for listed in field.values)
    return value in (numbers[0], numbers[-1]) and value != 0


def tuning_notes(models: Models, variants: Sequence[Variant]) -> Iterator[str]:
    space, tune = models.space, models.space.fair.tune
    if not isinstance(tune, Tune):
        return
    recipes = {variant: models.at(variant.setting.changes).recipe for variant in variants}
    of = {v: fields_of(tune, v.block, recipe, space.grammar.catalogue) for v, recipe in recipes.items()}
    settings = {variant: len(tuning_settings(fields)) for variant, fields in of.items()}
    trials = tune.seeds * sum(number for number in settings.values() if number > 1)
    grid = " × ".join(f"{field.spoken} {', '.join(map(text_of, field.values))}" for field in tune.fields)
    seeds = "1 separate seed" if tune.seeds == 1 else f"{tune.seeds:,} separate seeds"
    where = "" if all(fields == tune.fields for fields in of.values()) else " where it has these fields"
    yield (
        f"each model is tuned over {max(settings.values())} settings ({grid}){where}, by "
        f"{spoken(next(iter(space.judge.metrics)))} on the tuning split at {seeds}: {trials:,} "
        "trials before those of the verdict"
    )
    for variant, fields in of.items():
        missing = [field.name for field in tune.fields if field not in fields]
        if missing:
            left = f"tuned over {settings[variant]} settings" if settings[variant] > 1 else "not tuned"
            yield f"{variant.name} has no {' and no '.join(missing)}: it is {left}"


# Checks of tuned block fields: a value must not give a block that is refused, cannot be built or equals another, nor
# undo what the terms make equal.

WAY_OUT = "leave it out of fair.tune, or set budget: steps"


def check_tuned(variants: Sequence[Variant], models: Models, problems: Problems) -> None:
    """Report each such value once, with the blocks concerned: first values alone, then combined with others."""
    tune = models.space.fair.tune
    if not isinstance(tune, Tune):
        return
    catalogue = models.space.grammar.catalogue
    of = {
        v: [field for field in fields_of(tune, v.block, models.space.recipe, catalogue) if not field.path]
        for v in variants
    }
    alone = {v: [((field.name, value),) for field in fields for value in field.values] for v, fields in of.items()}
    every = {variant: tuning_settings(fields) for variant, fields in of.items()}
    checking = _TuningCheck(models, tune, problems)
    if any(of.values()) and checking.passes(alone) and checking.passes(every):
        checking.note_same(every)


class _TuningCheck:
    def __init__(self, models: Models, tune: Tune, problems: Problems):
        self._models, self._tune, self._problems = models, tune, problems
        self._faults: dict[tuple[str, Span, tuple[str, ...]], list[str]] = {}

    def passes(self, settings: Mapping[Variant, Sequence[Tuned]]) -> bool:
        before = len(self._problems)
        for variant, each in settings.items():
            for setting in each:
                if setting:
                    self._look(variant, setting)
        for (message, place, notes), names in self._faults.items():
            self._problems.add(message, place, notes=(f"blocks: {', '.join(dict.fromkeys(names))}", *notes))
        return len(self._problems) == before

    def note_same(self, settings: Mapping[Variant, Sequence[Tuned]]) -> None:
        first: dict[tuple[str, int | None], Variant] = {}
        for variant, each in settings.items():
            for setting in each:
                tuned = self._models.tuned(variant, setting)
                key = self._models.treatment(tuned.block, tuned.setting), tuned.setting.steps
                same = first.setdefault(key, tuned)
                if same.id != tuned.id:
                    self._note_same(same, tuned)
                    break

    def _note_same(self, first: Variant, second: Variant) -> None:
        tuned = [(variant.name, variant.setting.tuned) for variant in (first, second)]
        named = (f"{name} with {_setting_text(setting)}" if setting else name for name, setting in tuned)
        notes = ("leave it out of fair.tune: what distinguishes blocks is compared, not tuned",)
        place = self._last(second.setting.tuned or first.setting.tuned)[0].key.span
        self._problems.add(f"{' and '.join(named)} are the same model", place, notes=notes)

    def _look(self, variant: Variant, setting: Tuned) -> None:
        space, (field, place) = self._models.space, self._last(setting)
        try:
            block = block_at(space, variant.block, setting, self._problems)
        except Invalid:
            return
        refusing = space.refused(block)
        for constraint in refusing:
            message = f"{_setting_text(setting)} is refused by {constraint.full_name}"
            self._note(variant, message, place, f"because {constraint.because}", constraint.let_through)
        if refusing:
            return
        try:
            tuned = self._models.tuned(variant, setting)
        except InputError as error:
            message, *way_out = (line.strip(" =") for line in str(error).splitlines())
            self._note(variant, f"{_setting_text(setting)}: {message}", place, *way_out)
            return
        for message, at, way in self._undone(variant, tuned, field, place):
            self._note(variant, message, at, way)

    def _undone(
        self, variant: Variant, tuned: Variant, field: TunedField, place: Span
    ) -> Iterator[tuple[str, Span, str]]:
        """Yield each term that a setting would undo, as a message, its place and the way out."""
        told, terms = _setting_text(tuned.setting.tuned), self._models.space.fair.terms
        under = [terms[name] for name in variant.terms or terms]
        budgets = {condition.budget for condition in under}
        if any(isinstance(condition.match, Match) for condition in under) and tuned.parameters != variant.parameters:
            message = f"{told} changes the parameters, which fair.match makes equal"
            yield message, place, "leave it out of fair.tune, or set match: none"
        if "flops" in budgets and tuned.cost.training_flops != variant.cost.training_flops:
            yield f"{told} changes the FLOPs per step, from which fair.budget computes the steps", place, WAY_OUT
        if "wallclock" in budgets:
            message = f"{field.name} may change the time per step, from which fair.budget computes the steps"
            yield message, field.key.span, WAY_OUT

    def _note(self, variant: Variant, message: str, place: Span, *notes: str) -> None:
        self._faults.setdefault((message, place, notes), []).append(variant.name)

    def _last(self, setting: Tuned) -> tuple[TunedField, Span]:
        name, value = setting[-1]
        field = self._tune.field(name)
        return field, field.at(value).span


def _setting_text(setting: Tuned) -> str:
    return ", ".join(f"{name} {text_of(value)}" for name, value in setting)
