"""What a space chooses that is seldom meant: it is told where the plan is, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue, Part
from ablate.block.expression import Size, walk
from ablate.block.printer import print_value
from ablate.extension.kinds import PACKAGE
from ablate.plan.models import Models
from ablate.plan.plan import Variant
from ablate.source.located import Mapping, Span
from ablate.space.documents import Judged
from ablate.space.fair import HIDDEN, Match
from ablate.space.metrics import BITS, MEASURED_IN_TIME, NATS, bounded
from ablate.space.origin import GRAMMAR
from ablate.space.space import Space

WIDE = 0.1
"""A margin beyond this share of all that a metric can differ by is told: of what a uniform guess loses (ln V nats among
V tokens, 8 bits among bytes), and of the 1 between correlations of 0 and 1."""
BITS_OF_A_BYTE = 8.0
DOUBLED = 2.0
"""On the log scale a margin of this factor or more is told."""
LOSSES = (NATS, BITS)
PLACING = ("position", "bias")
"""Slots whose components tell where a token stands; attention is a part that has them."""


def choice_notes(variants: Sequence[Variant], models: Models) -> Iterator[str]:
    """Margins beyond what models differ by, metrics of the clock, hidden layers narrower than the model, attention
    without positions, and what of the model around the blocks the space has left to its grammar.
    """
    at_most = bounded(models.space.grammar.catalogue)
    for name, judged in models.space.judge.metrics.items():
        yield from _wide_margin(name, judged, math.log(models.vocab_size), at_most.get(name))
    yield from _timed(models.space)
    yield from _narrow(variants, models.space)
    yield from _left_to_the_grammar(models.space)
    catalogue = models.space.grammar.catalogue
    bare = [v.name for v in variants if _without_positions(models.architecture(v.block, v.setting), catalogue)]
    if bare:
        where = "every block" if len(bare) == len(variants) > 1 else ", ".join(bare)
        yield (
            f"no positions in {where}: attention there knows the order of tokens by its causal mask alone; "
            "block: {attention.position: rope} gives them to every block"
        )


def _left_to_the_grammar(space: Space) -> Iterator[str]:
    """Embedding, head and init as the grammar has them: they decide what a model is, so they are named."""
    model, init = space.model, print_value(space.around.init, space.grammar.catalogue, space.grammar.defaults)
    values = {
        ("embedding", "std"): f"embedding {{std: {model.embedding.std.text}, scale: {model.embedding.scale.text}}}",
        ("head",): f"head {model.head}",
        ("init",): f"init {init}",
    }
    left = [said for keys, said in values.items() if space.origins.layer(_leaf(space, "model", *keys)) == GRAMMAR]
    if left and space.origins.written("preset") is None:
        yield f"model: {', '.join(left)}, as the grammar has it: the space does not say"


def _leaf(space: Space, *keys: str) -> Span:
    """Where what stands at these keys is written: of a mapping its first key."""
    found = space.origins.written(*keys)
    return found.entries[0][0].span if isinstance(found, Mapping) and found.entries else space.origins.key(*keys)


def _wide_margin(name: str, judged: Judged, guess: float, at_most: float | None) -> Iterator[str]:
    """A margin that calls nearly everything equivalent; `guess` is the loss in nats of a uniform guess,
    `at_most` what the metric cannot go beyond."""
    margin = judged.margin
    if margin == "none":
        return
    share = float(margin[:-1]) / 100 if isinstance(margin, str) else None
    said = margin if isinstance(margin, str) else f"{margin:g}"
    alike = "whatever differs by less is equivalent"
    if judged.scale == "log":
        factor = 1 + share if share is not None else math.exp(min(float(margin), 700.0))
        if factor >= DOUBLED:
            yield f"margin: {said} of {name} is a factor of {factor:.3g} on its log scale, and {alike}"
    elif share is not None:
        if (share > WIDE and name in LOSSES) or share >= 1:
            yield f"margin: {said} of {name} is that share of the baseline's mean, and {alike}"
    elif name in LOSSES and float(margin) > WIDE * (lost := guess if name == NATS else BITS_OF_A_BYTE):
        unit, what = ("nats", f"ln {round(math.exp(guess)):,}") if name == NATS else ("bits", "8 a byte")
        yield (
            f"margin: {said} of {name} is in {unit}, {100 * float(margin) / lost:.0f} % of what guessing loses "
            f"({what}), and {alike}; 1% is a share of the baseline's mean"
        )
    elif at_most is not None and float(margin) > WIDE * at_most:
        yield f"margin: {said} of {name}, which is at most {at_most:g}: {alike}"


def _timed(space: Space) -> Iterator[str]:
    """Metrics of the clock, whose numbers are not of the blocks alone."""
    search = space.design.search
    compared = (*space.judge.metrics, *(search.objective if search is not None else ()))
    timed = [name for name in MEASURED_IN_TIME if name in compared]
    if timed:
        yield (
            f"{' and '.join(timed)}: of this machine, and of what it does besides; trials that run side by side slow "
            "each other, --workers 1 runs one at a time"
        )


def _narrow(variants: Sequence[Variant], space: Space) -> Iterator[str]:
    """Hidden layers of fewer units than their model is wide, unless a match made them so."""
    narrow: dict[tuple[int, int], list[str]] = {}
    for variant in variants:
        width = variant.setting.width or space.model.width
        written = () if _matched_by_hidden(variant, space) else walk(variant.block)
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
    """Whether its hidden widths may be those of a match, which the space does not say."""
    terms = [space.fair.terms[name].match for name in (variant.terms or space.fair.terms)]
    matched = any(isinstance(match, Match) and match.by == HIDDEN for match in terms)
    return matched and space.judge.against not in variant.names


def _without_positions(model: Architecture, catalogue: Catalogue) -> bool:
    """Whether tokens that attention mixes are told apart by nothing but which of them a causal mask hides."""
    specs = [catalogue[node.name] for node in walk(model.block)]
    places = [kind.slot for spec in specs for kind in spec.fields.values() if isinstance(kind, Part)]
    parts = [spec for spec in specs if "part" in spec.slots and not spec.modifier]
    own = any(not spec.path.is_relative_to(PACKAGE) for spec in parts)  # of those it is not known what they tell apart
    placed = any(set(PLACING) & set(spec.slots) for spec in specs)
    prescribed = any(hasattr(spec.config, "matrix_of") for spec in specs)  # has a bias of its own for every distance
    return model.positions == "none" and bool(set(PLACING) & set(places)) and not (placed or prescribed or own)
