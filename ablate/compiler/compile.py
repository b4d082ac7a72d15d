"""From expressions to models: `compile_block` and `compile_model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import nn

from ablate.block.address import address
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.config_values import Surroundings
from ablate.block.expression import Block, Node
from ablate.block.sizes import Sizes
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.decoder import Decoder
from ablate.compiler.initialise import Draw, Init, initialise
from ablate.errors import InputError

VERSION: Final = 1
"""Of the numbers of a model that is built from its description: see `plan/versions.py`."""

KINDS: Mapping[str, Callable[[Architecture, Catalogue, SlotAddress], nn.Module]] = {"decoder": Decoder}
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
    model = SlotAddress(seed, salt)
    with _building(device):
        module = build_block(block, sizes, catalogue, layer, model)
    draw = Draw(seed, salt, _scheme(init, sizes, catalogue, model), address(layer, "").rstrip("."))
    return _filled(_placed(module, device, dtype), draw)


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

    `seed` decides every parameter through its address, those too that `nn.Linear` draws for itself; `salt` changes them
    all, and is what two arms of an A/A comparison differ in. On the meta device nothing is filled.

    Raises InputError as `compile_block` does, and for a kind of model or of positions that does not exist.
    """
    if architecture.kind not in KINDS:
        raise InputError(f"unknown kind of model {architecture.kind!r}\n  = there is {', '.join(KINDS)}")
    address = SlotAddress(seed, salt)
    with _building(device):
        model = KINDS[architecture.kind](architecture, catalogue, address)
    scheme = _scheme(architecture.init, architecture.sizes, catalogue, address)
    return _filled(_placed(model, device, dtype), Draw(seed, salt, scheme))


def _building(device: str | torch.device) -> torch.device:
    """Where modules are constructed: on the CPU, whose random numbers are the same for every device, or on meta."""
    return torch.device("meta" if torch.device(device).type == "meta" else "cpu")


def _placed(module: nn.Module, device: str | torch.device, dtype: torch.dtype) -> nn.Module:
    """The module on its device, and with it the tensors that a component keeps as plain attributes."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, value.to(device))
    return module.to(device, dtype)


def _scheme(init: Node, sizes: Sizes, catalogue: Catalogue, model: SlotAddress) -> Init:
    scheme: Init = Builder(catalogue, Surroundings(sizes), model).part(init, ("init",))()
    return scheme


def _filled(module: nn.Module, draw: Draw) -> nn.Module:
    if not any(parameter.is_meta for parameter in module.parameters()):
        initialise(module, draw)
    return module
