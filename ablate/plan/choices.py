"""What a space chooses that is seldom meant: it is told where the plan is, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ablate.block.expression import Size, walk
from ablate.plan.plan import Variant
from ablate.space.metrics import BITS, NATS
from ablate.space.space import Space

WIDE = 0.1
"""A margin beyond this share of what a uniform guess loses is told: ln V nats among V tokens, 8 bits among bytes."""


def choice_notes(variants: Sequence[Variant], space: Space, vocab_size: int) -> Iterator[str]:
    """Margins beyond what models differ by, and hidden layers narrower than the model."""
    guesses = {
        NATS: ("nats", math.log(vocab_size), f"guessing loses (ln {vocab_size:,})"),
        BITS: ("bits", 8.0, "guessing bytes loses (8)"),
    }
    for name, judged in space.judge.metrics.items():
        if name not in guesses or judged.scale != "linear" or not isinstance(judged.margin, float):
            continue
        unit, guess, what = guesses[name]
        if judged.margin > WIDE * guess:
            yield (
                f"margin: {judged.margin:g} of {name} is in {unit}, {100 * judged.margin / guess:.0f} % of what {what}"
                ", and whatever differs by less is equivalent; 1% is a share of the baseline's mean"
            )
    narrow: dict[int, list[str]] = {}
    for variant in variants:
        nodes = list(walk(variant.block))
        sizes = [value for node in nodes for field, value in node.fields if field == "hidden"]
        for units in {size.units for size in sizes if isinstance(size, Size)} - {None}:
            if units is not None and units < space.model.width:
                narrow.setdefault(units, []).append(variant.name)
    for units, names in narrow.items():
        yield (
            f"hidden: {units} is {units} units, fewer than the model's width of {space.model.width} "
            f"({', '.join(names)}); {units} times the width is written {units}x"
        )
