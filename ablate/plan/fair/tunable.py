"""Checks of tuned block fields: a value must not give a block that is refused, cannot be built or equals another, nor
undo what the terms make equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ablate.block.read import Invalid
from ablate.errors import InputError
from ablate.plan.fair.tuning import tuning_settings
from ablate.plan.models import Models
from ablate.plan.plan import Variant
from ablate.plan.tuned import Tuned, block_at, fields_of
from ablate.source.located import Span
from ablate.source.problems import Problems
from ablate.space.fair import Match, Tune, TunedField, text_of

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
    checking = _Checking(models, tune, problems)
    if any(of.values()) and checking.passes(alone) and checking.passes(every):
        checking.note_same(every)


class _Checking:
    """A check of every variant under every setting of its block."""

    def __init__(self, models: Models, tune: Tune, problems: Problems):
        self._models, self._tune, self._problems = models, tune, problems
        self._faults: dict[tuple[str, Span, tuple[str, ...]], list[str]] = {}

    def passes(self, settings: Mapping[Variant, Sequence[Tuned]]) -> bool:
        """Return whether nothing is wrong under any of the settings; report what is."""
        before = len(self._problems)
        for variant, each in settings.items():
            for setting in each:
                if setting:
                    self._look(variant, setting)
        for (message, place, notes), names in self._faults.items():
            self._problems.add(message, place, notes=(f"blocks: {', '.join(dict.fromkeys(names))}", *notes))
        return len(self._problems) == before

    def note_same(self, settings: Mapping[Variant, Sequence[Tuned]]) -> None:
        """Report variants that are the same model, trained for as many steps, under some settings of their blocks."""
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
        named = (f"{name} with {_told(setting)}" if setting else name for name, setting in tuned)
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
            message = f"{_told(setting)} is refused by {constraint.full_name}"
            self._note(variant, message, place, f"because {constraint.because}", constraint.let_through)
        if refusing:
            return
        try:
            tuned = self._models.tuned(variant, setting)
        except InputError as error:
            message, *way_out = (line.strip(" =") for line in str(error).splitlines())
            self._note(variant, f"{_told(setting)}: {message}", place, *way_out)
            return
        for message, at, way in self._undone(variant, tuned, field, place):
            self._note(variant, message, at, way)

    def _undone(
        self, variant: Variant, tuned: Variant, field: TunedField, place: Span
    ) -> Iterator[tuple[str, Span, str]]:
        """Yield what a setting would undo of the terms, where, and the way out."""
        told, terms = _told(tuned.setting.tuned), self._models.space.fair.terms
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
        """Return the last field of a setting, and where its value is written."""
        name, value = setting[-1]
        field = self._tune.field(name)
        return field, field.at(value).span


def _told(setting: Tuned) -> str:
    return ", ".join(f"{name} {text_of(value)}" for name, value in setting)
