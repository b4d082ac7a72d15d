"""Where: one alternative of a slot in some layers, another in all others.

layer l has `use` if it is one of `layers`, else `otherwise`        this general form: this work

layers: first           layers: {every: 4}, which are layers 4, 8, …
layers: last            layers: layer <= depth/2, or any comparison by <, <=, >, >=, == and `and`
"""

from collections.abc import Mapping

from ablate.block.arithmetic import WhichLayers
from ablate.block.expression import Node, Value
from ablate.components.declare import alternative, component, layers


def chooses(node: Node, scope: Mapping[str, float]) -> tuple[str]:
    which = node["layers"]
    assert isinstance(which, WhichLayers)
    return ("use",) if which.holds(scope) else ("otherwise",)


@component("where", source="this work", chooses=chooses)
class Config:
    """`use` stands in the `layers`, `otherwise` in all others; where a slot may be empty, either may be none."""

    layers: WhichLayers = layers()
    use: Value = alternative()
    otherwise: Value = alternative()
