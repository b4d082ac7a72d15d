"""Layers that share parameters: each module keeps its place, and its parameters become those of another layer's module.

A layer that shares is constructed and initialised at the address of its source, so that what a module computes from its
weights (singular vectors, a copy of the start) fits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ablate.components.protocols import Profiled
from ablate.errors import InputError


def tie_layers(layers: Any, sources: Sequence[int]) -> None:
    """Replace the parameters of each layer by those of the layer that it shares with; InputError if they do not fit."""
    for layer, source in enumerate(sources, start=1):
        if layer != source:
            _tie(layers[str(layer)], layers[str(source)], layer, source)


def _tie(module: nn.Module, source: nn.Module, layer: int, of: int) -> None:
    for name, inner in module.named_modules():
        there = source.get_submodule(name)
        here, other = (dict(each.named_parameters(recurse=False)) for each in (inner, there))
        shapes = [{key: tensor.shape for key, tensor in each.items()} for each in (here, other)]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"layer {layer} cannot use the parameters of layer {of}: those of {name} have other shapes\n"
                "  = let the layers that share be the same block"
            )
        if here and isinstance(inner, Profiled):
            raise InputError(
                f"layer {layer} cannot use the parameters of layer {of}: those of {name} start from data, which is "
                "different in each layer\n  = choose another part, or share no layers"
            )
        inner._parameters.update(other)
