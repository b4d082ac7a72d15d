"""Notes: what a plan tells before anything is trained about choices that are rarely intended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map

from ablate.block.address import parts_of
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue, ComponentSpec, Part
from ablate.block.expression import Block, Size, print_value, walk
from ablate.extension.declaration import PACKAGE
from ablate.output.words import listed
from ablate.plan.models import Models
from ablate.plan.plan import DEFAULTS, IN_FORCE, RATES, Variant
from ablate.source.located import Mapping, Span
from ablate.space.fair import HIDDEN, Match, Tune
from ablate.space.judge import Judged
from ablate.space.metrics import BITS, MEASURED_IN_TIME, NATS, bounded
from ablate.space.overlay import GRAMMAR
from ablate.space.recipe import ObjectiveSpec, OptimizerSpec, Settings
from ablate.space.space import Space

# Choices: wide margins, metrics of time, narrow layers, missing positions, and defaults that decide what a model is.

WIDE = 0.1
"""A margin above this share of a metric's range is warned about: of the loss of a uniform guess (ln V nats for V
tokens, 8 bits per byte), and of 1 for correlations between 0 and 1.
"""
BITS_OF_A_BYTE = 8.0
DOUBLED = 2.0  # on the log scale a margin of this factor or more is warned about
LOSSES = (NATS, BITS)
PLACING = ("position", "bias")  # slots whose components encode a token's position; attention is a part that has them


def choice_notes(variants: Sequence[Variant], models: Models) -> Iterator[str]:
    """Warn about choices that are rarely intended, and tell rates, settings in force, and those left to the grammar."""
    catalogue = models.space.grammar.catalogue
    at_most = bounded(catalogue)
    for name, judged in models.space.judge.metrics.items():
        yield from _wide_margin(name, judged, math.log(models.vocab_size), at_most.get(name))
    yield from _timed(models.space)
    yield from _narrow(variants, models)
    yield from _left_to_the_grammar(models.space)
    yield from _by_variant(RATES, {variant.name: _rates(variant, models) for variant in variants})
    yield from _by_variant(IN_FORCE, {variant.name: _in_force(variant, models) for variant in variants})
    bare = [v.name for v in variants if _without_positions(models.architecture(v.block, v.setting), catalogue)]
    if bare:
        where = "every block" if len(bare) == len(variants) > 1 else ", ".join(bare)
        yield (
            f"no positions in {where}: attention there sees token order only through its causal mask; "
            "block: {attention.position: rope} adds them to every block"
        )


def _left_to_the_grammar(space: Space) -> Iterator[str]:
    """List embedding, head and init where they are the grammar's: they decide what a model is, so they are shown."""
    model, init = space.model, print_value(space.around.init, space.grammar.catalogue, space.grammar.defaults)
    values = {
        ("embedding", "std"): f"embedding {{std: {model.embedding.std.text}, scale: {model.embedding.scale.text}}}",
        ("head",): f"head {model.head}",
        ("init",): f"init {init}",
    }
    left = [
        value for keys, value in values.items() if space.origins.layer(_first_key(space, "model", *keys)) == GRAMMAR
    ]
    if left and space.origins.written("preset") is None:
        yield f"{DEFAULTS}{', '.join(left)}: not set in this space, so these are the grammar's defaults"


def _by_variant(lead: str, texts: Map[str, str]) -> Iterator[str]:
    for text in dict.fromkeys(filter(None, texts.values())):
        names = [name for name, own in texts.items() if own == text]
        yield f"{lead}: {text}" if len(names) == len(texts) else f"{lead} of {listed(names)}: {text}"


def _rates(variant: Variant, models: Models) -> str:
    """Return the rates of a recipe, in words; empty where all parameters have one."""
    space, recipe = models.at(variant.setting.changes), models.recipe(variant.setting)
    settings = space.grammar.catalogue.of_kind(OptimizerSpec)[recipe.optimizer.name].read(recipe.optimizer.settings)
    if not isinstance(settings, Settings):
        return ""
    tuned = _tuned_rates(space, recipe.optimizer.name) if not variant.setting.tuned else frozenset()
    own = {name: settings.lr for name in tuned if name.endswith("_lr") and getattr(settings, name, None) is None}
    settings = settings.model_copy(update=own)  # what is tuned has a rate of its own, whatever it is
    of: dict[str, list[str]] = {}
    for name, (lr, setting, rule) in settings.rates().items():
        if name != "head" or space.model.head != "tied":
            rate = f"as {setting} is tuned" if setting in tuned else f"{lr:g}"
            of.setdefault(f"{rate} by {rule}" if rule else rate, []).append(name)
    return "; ".join(f"{listed(names)} {rate}" for rate, names in of.items()) if len(of) > 1 else ""


def _tuned_rates(space: Space, optimizer: str) -> frozenset[str]:
    fields = space.fair.tune.fields if isinstance(space.fair.tune, Tune) else ()
    return frozenset(field.path[-1] for field in fields if field.path[1:3] == ("optimizer", optimizer))


def _in_force(variant: Variant, models: Models) -> str:
    """The settings of an objective as they act on a model, in words; empty where that is as they are written."""
    space = models.at(variant.setting.changes)
    chosen = space.recipe.objective
    told = space.grammar.catalogue.of_kind(ObjectiveSpec)[chosen.name].read(chosen.settings).in_force(space.model)
    return f"{chosen.name.replace('_', ' ')}: {told}" if told else ""


def _first_key(space: Space, *keys: str) -> Span:
    """Return where the value at these keys is written; for a mapping, its first key."""
    written = space.origins.written(*keys)
    return written.entries[0][0].span if isinstance(written, Mapping) and written.entries else space.origins.key(*keys)


def _wide_margin(name: str, judged: Judged, guess: float, at_most: float | None) -> Iterator[str]:
    """Warn about a margin that makes nearly everything equivalent.

    `guess` is the loss in nats of a uniform guess, `at_most` the upper bound of the metric.
    """
    margin = judged.margin
    if margin == "none":
        return
    share = float(margin[:-1]) / 100 if isinstance(margin, str) else None
    stated = margin if isinstance(margin, str) else f"{margin:g}"
    alike = "any smaller difference is equivalent"
    if judged.scale == "log":
        factor = 1 + share if share is not None else math.exp(min(float(margin), 700.0))
        if factor >= DOUBLED:
            yield f"margin: {stated} of {name} is a factor of {factor:.3g} on its log scale, and {alike}"
    elif share is not None:
        if (share > WIDE and name in LOSSES) or share >= 1:
            yield f"margin: {stated} of {name} is that share of the baseline's mean, and {alike}"
    elif name in LOSSES and float(margin) > WIDE * (lost := guess if name == NATS else BITS_OF_A_BYTE):
        unit, what = ("nats", f"ln {round(math.exp(guess)):,}") if name == NATS else ("bits", "8 per byte")
        yield (
            f"margin: {stated} of {name} is in {unit}, {100 * float(margin) / lost:.0f} % of the loss of guessing "
            f"({what}), and {alike}; 1% would be a share of the baseline's mean"
        )
    elif at_most is not None and float(margin) > WIDE * at_most:
        yield f"margin: {stated} of {name}, which is at most {at_most:g}: {alike}"


def _timed(space: Space) -> Iterator[str]:
    search = space.design.search
    compared = (*space.judge.metrics, *(search.objective if search is not None else ()))
    timed = [name for name in MEASURED_IN_TIME if name in compared]
    if timed:
        yield (
            f"{' and '.join(timed)}: depends on this machine and its other load; trials that run in parallel slow each "
            "other down, --workers 1 runs one at a time"
        )


def _narrow(variants: Sequence[Variant], models: Models) -> Iterator[str]:
    narrow: dict[tuple[int, int], list[str]] = {}
    for variant in variants:
        width = variant.setting.width or models.at(variant.setting.changes).model.width
        written = () if _matched_by_hidden(variant, models.space) else walk(variant.block)
        sizes = {value for node in written for field, value in node.fields if field == "hidden"}
        for units in sorted(size.units for size in sizes if isinstance(size, Size) and size.units is not None):
            if units < width:
                narrow.setdefault((units, width), []).append(variant.name)
    for (units, width), names in narrow.items():
        yield (
            f"hidden: {units} is {units} units, fewer than the model's width of {width} "
            f"({', '.join(names)}); {units} times the width is written {units}x"
        )


def _matched_by_hidden(variant: Variant, space: Space) -> bool:
    """Return whether its hidden widths may come from a match, rather than from the space."""
    terms = [space.fair.terms[name].match for name in (variant.terms or space.fair.terms)]
    matched = any(isinstance(match, Match) and match.by == HIDDEN for match in terms)
    return matched and space.judge.against not in variant.names


def _without_positions(model: Architecture, catalogue: Catalogue) -> bool:
    specs = [catalogue[node.name] for node in walk(model.block)]
    places = [kind.slot for spec in specs for kind in spec.fields.values() if isinstance(kind, Part)]
    parts = [spec for spec in specs if "part" in spec.slots and not spec.modifier]
    own = any(not spec.path.is_relative_to(PACKAGE) for spec in parts)  # their use of positions is not known
    placed = any(set(PLACING) & set(spec.slots) for spec in specs)
    prescribed = any(hasattr(spec.config, "matrix_of") for spec in specs)  # has its own bias for every distance
    return model.positions == "none" and bool(set(PLACING) & set(places)) and not (placed or prescribed or own)


# Constraints that the space tolerates with a warning.


def constraint_notes(variants: Sequence[Variant], space: Space) -> Iterator[str]:
    broken: dict[tuple[str, str], list[str]] = {}
    for variant in variants:
        for constraint in variant.breaks:
            broken.setdefault(constraint, []).append(variant.name)
    for (name, because), blocks in broken.items():
        who = ", ".join(dict.fromkeys(blocks))
        yield f"warning: {name} is broken by {who}, which this space tolerates: {because}"
    for name in sorted(space.warned - {name for name, _ in broken}):
        yield f"constraints: {{{name}: warn}} has no effect: no block here breaks {name}"


# Unpaired addresses: a user's component that replaces another under a different address.
#
# Two models of one seed share the initial values of each address that both have. A mixer that replaces attention
# without `role="attention"` is at another address, and so are the norm and the residual named after it.


def address_notes(variants: Sequence[Variant], baseline: Variant, catalogue: Catalogue) -> Iterator[str]:
    """Describe, for each such component, the variants that have it, and how to pair it."""
    known = _principals(baseline.block, catalogue)
    told: dict[tuple[str, str], list[str]] = {}
    for variant in variants:
        here = _principals(variant.block, catalogue)
        gone = [role for role in known if role not in here]
        for role, spec in here.items():
            if gone and role not in known and role == spec.name and not spec.path.is_relative_to(PACKAGE):
                told.setdefault((spec.name, gone[0]), []).append(variant.name)
    for (name, role), names in told.items():
        yield (
            f"{name} has an address of its own in {', '.join(names)}, where {baseline.name} has {role}: its parts, and "
            f"the norms and residuals named after it, share no initial values with those of {role}, and probes report "
            f'different addresses; to pair them, set role="{role}" in its @component, in {catalogue[name].path}'
        )


def _principals(block: Block, catalogue: Catalogue) -> dict[str, ComponentSpec]:
    specs = [catalogue[node.name] for _, node in parts_of(block, catalogue)]
    return {spec.role: spec for spec in reversed(specs) if not spec.modifier}
