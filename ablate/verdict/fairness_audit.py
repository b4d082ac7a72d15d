"""Fairness audit: the quantities that were not equal between the variants of a plan, whatever its terms declare.

Everything but seconds is counted, not measured: parameters and FLOPs in closed form, training FLOPs as those of one
sequence (see `Cost`) × batch × steps, and tokens as steps × batch × context. Evaluations are not included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ablate.block.expression import Block, Size, walk
from ablate.plan.fairness import budget_declared, declared_terms
from ablate.plan.matching import has_hidden, milliseconds
from ablate.plan.models import has_field, value_in
from ablate.plan.plan import Plan, Trial, Variant
from ablate.space.fair import Fair, Match, Terms, Tune, TunedField, text_of
from ablate.space.schedule import sequences_of
from ablate.space.space import Space
from ablate.space.variants import is_inside

UNKNOWN = "not known yet"
AS_IN_SPACE = "as in the space"
PARAMETERS, FLOPS, PACE, TIME = "parameters", "training FLOPs", "time per step", "total time"
DECLARED: Mapping[str, tuple[str, ...]] = {
    "steps": ("steps", "tokens"),
    "tokens": ("steps", "tokens"),
    "flops": (FLOPS,),
    "wallclock": (TIME,),
}
"""The quantities that a budget makes equal; batch sizes are equal, so equal steps are equal tokens."""

Value: TypeAlias = "float | str | None"  # a number, a text, or None where it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalQuantity:
    """One quantity in which a variant (its id, and the name shown) differs from the baseline.

    `share` is here / baseline - 1, None where that is undefined. `declared`: the terms declare it equal, so the
    difference is the error of the match; `within` is the tolerance, where the terms allow one and it is kept.
    """

    variant: str
    name: str
    quantity: str
    baseline: str
    here: str
    share: float | None
    declared: bool
    within: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unequal:
    """One set of terms (by name): the quantities that it declares equal, the differences, and those equal for all."""

    terms: str
    declared: str
    rows: tuple[UnequalQuantity, ...]
    equal: str


def unequal(plan: Plan, space: Space, seconds: Mapping[str, float] | None = None) -> tuple[Unequal, ...]:
    """Compare every variant with the baseline, at its size, under each set of terms; not A/A arms.

    `seconds` per training step are by variant id, where they were measured.
    """
    of = _Quantities(plan, space.fair, seconds or {})
    return tuple(_under(name, terms, of, space) for name, terms in space.fair.terms.items())


def _under(name: str, terms: Terms, of: _Quantities, space: Space) -> Unequal:
    plan = of.plan
    variants = [v for v in plan.variants if not v.setting.salt and (not name or name in v.terms)]
    beside = _beside(plan, name)
    baselines = {id: of.all(plan.variant(id)) for id in {plan.baseline, *beside.values()}}
    others = [
        (variant, of.all(variant), baselines[beside.get(variant.id, plan.baseline)])
        for variant in variants
        if variant.id not in baselines
    ]
    budget = DECLARED[terms.budget] if budget_declared(space, name) else ()
    meant_equal = {*budget, *([PARAMETERS] if isinstance(terms.match, Match) else [])}
    rows = tuple(
        UnequalQuantity(
            variant=variant.id,
            name=variant.name,
            quantity=quantity,
            baseline=_shown(quantity, wanted),
            here=_shown(quantity, here[quantity]),
            share=_share(wanted, here[quantity]),
            declared=quantity in meant_equal and not _is_treatment(quantity, variant),
            within=_within(quantity, terms, _share(wanted, here[quantity])),
        )
        for variant, here, baseline in others
        for quantity, wanted in baseline.items()
        if wanted is not None and here[quantity] not in (None, wanted)
    )
    alike = [
        quantity
        for quantity, value in baselines[plan.baseline].items()
        if value is not None and all(here[quantity] == baseline[quantity] for _, here, baseline in others)
    ]
    return Unequal(
        terms=name,
        declared=", ".join([*declared_terms(space, name), *_tuned_alike(of)]),
        rows=rows,
        equal=f"the same for all: {', '.join(alike)}" if others and alike else "",
    )


def _beside(plan: Plan, terms: str) -> dict[str, str]:
    """The baseline at the size of each variant of a ladder, by its id."""
    ladder = dict(plan.ladders).get(terms)
    steps = [dict(step.variants) for step in ladder.steps] if ladder is not None else []
    return {id: step[ladder.baseline] for step in steps for id in step.values()} if ladder is not None else {}


SET_BY: Mapping[str, tuple[str, ...]] = {
    "steps": ("recipe.steps",),
    "tokens": ("recipe.steps", "recipe.batch", "recipe.batch_ramp", "model.context"),
}
"""The addresses by which a treatment sets a quantity itself, so that it is not meant to be equal."""


def _is_treatment(quantity: str, variant: Variant) -> bool:
    set_by = SET_BY.get(quantity, ())
    return any(is_inside(address, outer) for address, _ in variant.setting.changes for outer in set_by)


def _within(quantity: str, terms: Terms, share: float | None) -> float | None:
    if quantity != PARAMETERS or not isinstance(terms.match, Match) or share is None:
        return None
    return terms.match.parameters if abs(share) <= terms.match.parameters else None


@dataclass(frozen=True, slots=True)
class _Quantities:
    plan: Plan
    fair: Fair
    seconds: Mapping[str, float]

    def all(self, variant: Variant) -> dict[str, Value]:
        quantities: dict[str, Value] = {PARAMETERS: variant.parameters, "FLOPs of a forward pass": variant.flops}
        like = self._like()
        return quantities if like is None else quantities | dict(self._trained(variant, like))

    def _like(self) -> Trial | None:
        """A trial with the sizes and steps of the space; any trial, where every variant has sizes of its own."""
        plain = {v.id for v in self.plan.variants if v.setting.plain}
        first = next(iter(self.plan.trials), None) if self.plan.ladders else None
        return next((trial for trial in self.plan.trials if trial.variant in plain), first)

    def _trained(self, variant: Variant, like: Trial) -> Iterator[tuple[str, Value]]:
        setting = variant.setting
        own = next((t for t in self.plan.trials if t.variant == variant.id), None) if setting.changes else None
        sizes, recipe = (own or like).work.architecture.sizes, (own or like).work.recipe
        steps = None if setting.open else setting.steps or recipe.steps
        pace = self.seconds.get(variant.id)
        yield "layers", setting.layers or sizes.n_layers
        yield "width", setting.width or sizes.d_model
        trained = [trial.work.architecture.block for trial in self._verdict(variant)]
        yield "hidden width of MLPs", _hidden(next(iter(trained), variant.block), setting.width or sizes.d_model)
        yield "steps", UNKNOWN if steps is None else steps
        yield "tokens", UNKNOWN if steps is None else sequences_of(recipe, steps) * sizes.seq_len
        yield FLOPS, UNKNOWN if steps is None else variant.cost.training_flops * sequences_of(recipe, steps)
        yield PACE, pace
        yield TIME, None if pace is None else UNKNOWN if steps is None else steps * pace
        for address in self._changed:
            yield address, text_of(dict(setting.changes)[address]) if address in dict(setting.changes) else AS_IN_SPACE
        if isinstance(self.fair.tune, Tune):
            yield from self._tuned(variant, self.fair.tune)

    def _tuned(self, variant: Variant, tune: Tune) -> Iterator[tuple[str, Value]]:
        trained = self._verdict(variant)
        own = dict(variant.setting.tuned)
        for field in tune.fields:
            if not self.has(variant, field):
                yield field.spoken, "absent"
            elif not trained:
                yield field.spoken, UNKNOWN
            elif field.path:
                yield field.spoken, value_in(trained[0].work.recipe, field)
            else:
                yield field.spoken, text_of(own[field.name]) if field.name in own else AS_IN_SPACE
        yield "tuning trials", len(self._tuning(variant))

    @property
    def _changed(self) -> tuple[str, ...]:
        """The addresses at which treatments change something around the block, but for what has a line of its own."""
        addresses = {address for variant in self.plan.variants for address, _ in variant.setting.changes}
        return tuple(sorted(addresses - {"model.layers", "model.width", "recipe.steps"}))

    def has(self, variant: Variant, field: TunedField) -> bool:
        if field.path:
            own = next((trial for trial in self.plan.trials if trial.variant == variant.id), None)
            return own is None or has_field(own.work.recipe, field)
        tuning = self._tuning(variant)
        tried = (setting for id, setting in self.plan.tried if id in tuning)
        return any(name == field.name for each in (variant.setting.tuned, *tried) for name, _ in each)

    def _verdict(self, variant: Variant) -> list[Trial]:
        return [t for t in self.plan.trials if t.variant == variant.id and t.split == "verdict"]

    def _tuning(self, variant: Variant) -> frozenset[str]:
        return frozenset(t.id for t in self.plan.trials if t.variant == variant.id and t.split == "tuning")


def _hidden(block: Block, width: int) -> Value:
    sizes = [node["hidden"] for node in walk(block) if has_hidden(node)]
    units = [round(size.at(width)) for size in sizes if isinstance(size, Size)]
    different = tuple(dict.fromkeys(units))
    return different[0] if len(different) == 1 else ", ".join(f"{count:,}" for count in different) or "none"


def _share(wanted: Value, here: Value) -> float | None:
    if isinstance(wanted, str) or isinstance(here, str) or not wanted or here is None:
        return None
    return here / wanted - 1


def _shown(quantity: str, value: Value) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    if quantity in (PACE, TIME):
        return milliseconds(value)
    return f"{value:.4g}" if quantity == FLOPS else f"{value:,}"


def _tuned_alike(of: _Quantities) -> Iterator[str]:
    tune = of.fair.tune
    if isinstance(tune, Tune):
        variants = (variant for variant in of.plan.variants if not variant.setting.salt)
        all_alike = all(of.has(variant, field) for variant in variants for field in tune.fields)
        yield f"each tuned over the same settings{'' if all_alike else ', for the fields it has'}"
