"""Cycle: the alternatives of a slot in turn, from layer to layer.

    layer l has item ((l - 1) mod n) + 1 of n

As a part of a sequence, each item is itself a sequence of parts: `cycle: [[layer_norm, attention], mlp]`.

    Gemma Team 2024, arXiv:2408.00118, Sec. 2 (local and global attention); in this general form: this work.
"""

from collections.abc import Mapping

from ablate.block.expression import Node, Series, Value
from ablate.components.declare import alternatives, component


def chooses(node: Node, scope: Mapping[str, float]) -> tuple[str, int]:
    items = node["items"]
    assert isinstance(items, Series)
    return "items", (int(scope["layer"]) - 1) % len(items)


@component("cycle", source="Gemma Team 2024, arXiv:2408.00118", shorthand="items", chooses=chooses)
class Config:
    """`items` take turns, the first in layer 1."""

    items: tuple[Value, ...] = alternatives()
