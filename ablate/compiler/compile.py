"""From expressions to models: `compile_block` and `compile_model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from ablate.block.address import address
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node
from ablate.block.fill import Surroundings
from ablate.block.sizes import Sizes
from ablate.compiler.build import Builder, build_block
from ablate.compiler.decoder import Decoder
from ablate.compiler.initialise import Draw, Init, initialise
from ablate.errors import InputError

KINDS: Mapping[str, Callable[[Architecture, Catalogue], nn.Module]] = {"decoder": Decoder}
"""What can stand around the blocks, one file for each kind."""


def compile_block(
    block: Block,
    sizes: Sizes,
    catalogue: Catalogue,
    *,
    init: Node,
    layer: int = 1,
    seed: int = 0,
    salt: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> nn.Module:
    """`block` as a module from [batch, time, width] to the same, as it stands in layer `layer` (from 1) of a model.

    Parts are at their names (`attention`, `mlp_norm`). `init` fills the weights that name no init of their own. The
    parameters are those that `compile_model` gives the layer at the same `seed` and `salt`.

    Raises InputError where the sizes do not fit the block: heads that do not divide the width, a gain without a value.
    """
    with torch.device(device):
        module = build_block(block, sizes, catalogue, layer)
    draw = Draw(seed, salt, _scheme(init, sizes, catalogue), address(layer, "").rstrip("."))
    return _filled(module.to(dtype), draw)


def compile_model(
    architecture: Architecture,
    catalogue: Catalogue,
    *,
    seed: int = 0,
    salt: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> nn.Module:
    """The whole model, from tokens [batch, time] to logits [batch, time, vocabulary].

    `seed` decides every parameter through its address; `salt` changes them all, and is what two arms of an A/A
    comparison differ in. On the meta device nothing is filled.

    Raises InputError as `compile_block` does, and for a kind of model or of positions that does not exist.
    """
    if architecture.kind not in KINDS:
        raise InputError(f"unknown kind of model {architecture.kind!r}\n  = there is {', '.join(KINDS)}")
    with torch.device(device):
        model = KINDS[architecture.kind](architecture, catalogue)
    return _filled(model.to(dtype), Draw(seed, salt, _scheme(architecture.init, architecture.sizes, catalogue)))


def _scheme(init: Node, sizes: Sizes, catalogue: Catalogue) -> Init:
    scheme: Init = Builder(catalogue, Surroundings(sizes)).part(init)()
    return scheme


def _filled(module: nn.Module, draw: Draw) -> nn.Module:
    if not any(parameter.is_meta for parameter in module.parameters()):
        initialise(module, draw)
    return module
