"""Layers that share parameters: which layer's parameters each layer uses, and which layers may share.

    {cycle: 2}    layer l uses those of layer ((l - 1) mod 2) + 1:  A B A B     (Universal Transformer: {cycle: 1})
    {repeat: 3}   layer l uses those of layer 3⌊(l - 1)/3⌋ + 1:     A A A B B B

    Dehghani et al. 2018, arXiv:1807.03819; Lan et al. 2019, arXiv:1909.11942 (ALBERT: groups of layers)

Each layer still has modules of its own, under its own addresses; only their parameters are those of the other layer.
So layers that share must be the same block. They may differ in fixed numbers that act beside the weights, such as the
gain of a residual, and not in what a weight is, what it starts at, or how fast it learns.
"""

from __future__ import annotations

from ablate.block.architecture import Architecture
from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Gain, Node, Sequence, Value
from ablate.block.normal_form import resolve
from ablate.errors import InputError

OWN = frozenset({"weight", "init"})
"""The slots whose components must be equal in layers that share, numbers included."""
WAY_OUT = "let the layers that share be the same block, or share other ones: model.share"


def check_sharing(architecture: Architecture, catalogue: Catalogue) -> None:
    """Raise InputError if the layers that share cannot, or if no two do."""
    if architecture.share is None:
        return
    depth = architecture.sizes.n_layers
    if architecture.sources() == tuple(range(1, depth + 1)):
        raise InputError(
            f"model.share is {architecture.share}, by which no two of the model's {depth} layers share parameters\n"
            "  = remove it, or change it or the number of layers"
        )
    shapes: dict[int, Value] = {}
    for layer, source in enumerate(architecture.sources(), start=1):
        shapes[layer] = _shape(resolve(architecture.block, architecture.sizes.at(layer), catalogue), catalogue)
        if shapes[layer] != shapes[source]:
            raise InputError(
                f"model.share is {architecture.share}, but layer {layer} is another block than layer {source}, "
                f"whose parameters it would use\n  = {WAY_OUT}"
            )


def _shape(value: Value, catalogue: Catalogue) -> Value:
    """Return a value without the fixed numbers in which layers that share may differ."""
    match value:
        case Node(name=name, fields=fields) if not OWN & set(catalogue[name].slots):
            return Node(name, tuple((field, _shape(child, catalogue)) for field, child in fields))
        case Sequence():
            return Sequence(tuple(_shape(child, catalogue) for child in value))  # type: ignore[misc]
        case tuple():
            return tuple(_shape(child, catalogue) for child in value)  # type: ignore[return-value]
        case Expression() | Gain(trainable=False):
            return 0
        case int() | float() if not isinstance(value, bool):
            return 0
    return value
