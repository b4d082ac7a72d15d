"""Where: one alternative of a slot in some layers, another in all others.

    layer l has `use` if it is one of `layers`, else `otherwise`

    layers: first           layers: {every: 4}, which are layers 4, 8, …
    layers: last            layers: layer <= depth/2, or any comparison by <, <=, >, >=, == and `and`

Which blocks of a deep network need which part is asked layer by layer: parts that only the first or last layers have,
a mixer that every fourth keeps, deep layers that are made cheaper. This general form: this work.
"""

from collections.abc import Mapping

from ablate.block.arithmetic import WhichLayers
from ablate.block.expression import Node, Value
from ablate.components.declare import alternative, component, layers


def chooses(node: Node, scope: Mapping[str, float]) -> tuple[str]:
    """The way to the alternative of a layer."""
    which = node["layers"]
    assert isinstance(which, WhichLayers)
    return ("use",) if which.holds(scope) else ("otherwise",)


@component("where", source="this work", chooses=chooses)
class Config:
    """`use` stands in the `layers`, `otherwise` in all others; where a slot may be empty, either may be none."""

    layers: WhichLayers = layers()
    use: Value = alternative()
    otherwise: Value = alternative()
