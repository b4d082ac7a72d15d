"""What was not equal between the variants of a plan, whatever its terms declare.

Counted, not measured, but for seconds: parameters and FLOPs in closed form, training FLOPs those of a sequence (see
`Cost`) × batch × steps, tokens steps × batch × context. Evaluations are in none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ablate.block.expression import Block, Size, walk
from ablate.plan.fair.budget import milliseconds
from ablate.plan.fair.match import has_hidden
from ablate.plan.plan import Plan, Variant
from ablate.plan.trial import Trial
from ablate.plan.tuned import value_in
from ablate.space.fair import Fair, Match, Terms, Tune, TunedField, text_of

UNKNOWN = "not known yet"
PARAMETERS, FLOPS, PACE, TIME = "parameters", "training FLOPs", "time of a step", "time of all steps"
DECLARED: Mapping[str, tuple[str, ...]] = {
    "steps": ("steps", "tokens"),
    "tokens": ("steps", "tokens"),
    "flops": (FLOPS,),
    "wallclock": (TIME,),
}
"""What a budget says is equal; batches are equally large, so steps and tokens are one."""
WORDS = {"steps": "steps", "tokens": "tokens", "flops": FLOPS, "wallclock": "wall-clock time of all steps"}

Value: TypeAlias = "float | str | None"
"""A number, words, or None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalQuantity:
    """One quantity in which a variant (its id, and the name shown) is not as the baseline.

    `share` is here / baseline - 1, None where it has none. `baseline` and `here` are numbers or words as they are
    shown. `declared`: the terms say that it is equal, so that this is how near it came; `within` is the share by which
    they let it be off, where they do and it is off by no more.
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
    """Under one set of terms (by name): what the terms declare, where variants differ, and what all have alike."""

    terms: str
    declared: str
    rows: tuple[UnequalQuantity, ...]
    equal: str


def unequal(plan: Plan, fair: Fair, seconds: Mapping[str, float] | None = None) -> tuple[Unequal, ...]:
    """For each set of terms every variant against the baseline, A/A arms aside.

    `seconds` are those of a training step by variant id, where they were measured.
    """
    of = _Quantities(plan, fair, seconds or {})
    return tuple(_under(name, terms, of) for name, terms in fair.terms.items())


def _under(name: str, terms: Terms, of: _Quantities) -> Unequal:
    plan = of.plan
    variants = [v for v in plan.variants if not v.setting.salt and (not name or name in v.terms)]
    baseline = of.all(plan.variant(plan.baseline))
    others = [(variant, of.all(variant)) for variant in variants if variant.id != plan.baseline]
    said = {*DECLARED[terms.budget], *([PARAMETERS] if isinstance(terms.match, Match) else [])}
    rows = tuple(
        UnequalQuantity(
            variant=variant.id,
            name=variant.name,
            quantity=quantity,
            baseline=_shown(quantity, wanted),
            here=_shown(quantity, here[quantity]),
            share=_share(wanted, here[quantity]),
            declared=quantity in said,
            within=_within(quantity, terms, _share(wanted, here[quantity])),
        )
        for variant, here in others
        for quantity, wanted in baseline.items()
        if wanted is not None and here[quantity] not in (None, wanted)
    )
    alike = [
        quantity
        for quantity, wanted in baseline.items()
        if wanted is not None and all(here[quantity] == wanted for _, here in others)
    ]
    return Unequal(
        terms=name,
        declared=_declared(terms, of),
        rows=rows,
        equal=f"the same for all: {', '.join(alike)}" if others and alike else "",
    )


def _within(quantity: str, terms: Terms, share: float | None) -> float | None:
    """By how much it may be off, where it is off by no more."""
    if quantity != PARAMETERS or not isinstance(terms.match, Match) or share is None:
        return None
    return terms.match.parameters if abs(share) <= terms.match.parameters else None


@dataclass(frozen=True, slots=True)
class _Quantities:
    """What of a variant can be compared."""

    plan: Plan
    fair: Fair
    seconds: Mapping[str, float]

    def all(self, variant: Variant) -> dict[str, Value]:
        """Every quantity by name, in the order in which they are shown."""
        found: dict[str, Value] = {PARAMETERS: variant.parameters, "FLOPs of a forward pass": variant.flops}
        like = self._like()
        return found if like is None else found | dict(self._trained(variant, like))

    def _like(self) -> Trial | None:
        """A trial of a variant that is trained as the space has it."""
        plain = {v.id for v in self.plan.variants if v.setting.plain}
        return next((trial for trial in self.plan.trials if trial.variant in plain), None)

    def _trained(self, variant: Variant, like: Trial) -> Iterator[tuple[str, Value]]:
        setting, sizes, recipe = variant.setting, like.architecture.sizes, like.recipe
        steps = None if setting.open else setting.steps or recipe.steps
        pace = self.seconds.get(variant.id)
        yield "layers", setting.layers or sizes.n_layers
        yield "width", setting.width or sizes.d_model
        trained = [trial.architecture.block for trial in self._verdict(variant)]
        yield "hidden width of MLPs", _hidden(next(iter(trained), variant.block), setting.width or sizes.d_model)
        yield "steps", UNKNOWN if steps is None else steps
        yield "tokens", UNKNOWN if steps is None else steps * recipe.batch * sizes.seq_len
        yield FLOPS, UNKNOWN if steps is None else variant.cost.training_flops * recipe.batch * steps
        yield PACE, pace
        yield TIME, None if pace is None else UNKNOWN if steps is None else steps * pace
        if isinstance(self.fair.tune, Tune):
            yield from self._tuned(variant, self.fair.tune)

    def _tuned(self, variant: Variant, tune: Tune) -> Iterator[tuple[str, Value]]:
        """The settings that it is trained with, and how many trials went into their choice."""
        trained = self._verdict(variant)
        own = dict(variant.setting.tuned)
        for field in tune.fields:
            if not self.has(variant, field):
                yield field.spoken, "not in it"
            elif not trained:
                yield field.spoken, UNKNOWN
            elif field.path:
                yield field.spoken, value_in(trained[0].recipe, field)
            else:
                yield field.spoken, text_of(own[field.name]) if field.name in own else "as the space has it"
        yield "trials of tuning", len(self._tuning(variant))

    def has(self, variant: Variant, field: TunedField) -> bool:
        """Whether a field that is tuned is one of the recipe, or of the variant's block."""
        tuning = self._tuning(variant)
        tried = (setting for id, setting in self.plan.tried if id in tuning)
        return bool(field.path) or any(
            name == field.name for each in (variant.setting.tuned, *tried) for name, _ in each
        )

    def _verdict(self, variant: Variant) -> list[Trial]:
        """The trials of a variant for the verdict, of blocks as tuning has set them."""
        return [t for t in self.plan.trials if t.variant == variant.id and t.split == "verdict"]

    def _tuning(self, variant: Variant) -> frozenset[str]:
        """The trials of tuning of a variant, by id."""
        return frozenset(t.id for t in self.plan.trials if t.variant == variant.id and t.split == "tuning")


def _hidden(block: Block, width: int) -> Value:
    """Of all its MLPs, each width once."""
    sizes = [node["hidden"] for node in walk(block) if has_hidden(node)]
    units = [round(size.at(width)) for size in sizes if isinstance(size, Size)]
    different = tuple(dict.fromkeys(units))
    return different[0] if len(different) == 1 else ", ".join(f"{one:,}" for one in different) or "none"


def _share(wanted: Value, here: Value) -> float | None:
    """How much more it is, where both are numbers."""
    if isinstance(wanted, str) or isinstance(here, str) or not wanted or here is None:
        return None
    return here / wanted - 1


def _shown(quantity: str, value: Value) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    if quantity in (PACE, TIME):
        return milliseconds(value)
    return f"{value:.4g}" if quantity == FLOPS else f"{value:,}"


def _declared(terms: Terms, of: _Quantities) -> str:
    """What the terms say is equal, in words."""
    match, tune = terms.match, of.fair.tune
    said = [f"equal {WORDS[terms.budget]}"]
    if isinstance(match, Match):
        said.append(f"parameters within {100 * match.parameters:.4g} % by {match.by}")
    if isinstance(tune, Tune):
        variants = (variant for variant in of.plan.variants if not variant.setting.salt)
        all_alike = all(of.has(variant, field) for variant in variants for field in tune.fields)
        said.append(f"each tuned over the same settings{'' if all_alike else ', of fields that it has'}")
    return ", ".join(said)
