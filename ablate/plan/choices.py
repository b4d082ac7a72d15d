"""What a space chooses that is seldom meant: it is told where the plan is, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ablate.block.expression import Size, walk
from ablate.plan.plan import Variant
from ablate.space.space import Space

WIDE = 0.1
"""A margin of nats beyond this share of ln V, what a uniform guess among V tokens loses, is told."""

OF_NATS = ("eval_loss", "train_loss")


def choice_notes(variants: Sequence[Variant], space: Space, vocab_size: int) -> Iterator[str]:
    """Margins beyond what models differ by, and hidden layers narrower than the model."""
    guess = math.log(vocab_size)
    for name, judged in space.judge.metrics.items():
        margin = judged.margin
        if name in OF_NATS and judged.scale == "linear" and isinstance(margin, float) and margin > WIDE * guess:
            yield (
                f"margin: {margin:g} of {name} is in nats, {100 * margin / guess:.0f} % of what guessing loses "
                f"(ln {vocab_size:,}), and whatever differs by less is equivalent; 1% is a share of the baseline's mean"
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
