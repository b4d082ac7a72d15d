"""From expressions to models: `compile_block` and `compile_model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import nn

from ablate.block.address import address
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.classifier import check_kind
from ablate.block.config_values import Surroundings
from ablate.block.expression import Block, Node
from ablate.block.pattern_check import check_patterns
from ablate.block.sharing import check_sharing
from ablate.block.sizes import Sizes
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.decoder import Decoder
from ablate.compiler.encoder import Encoder
from ablate.compiler.encoder_decoder import EncoderDecoder
from ablate.compiler.initialise import Draw, Init, initialise
from ablate.compiler.mlp import ResidualMLP
from ablate.compiler.sharing import tie_layers
from ablate.compiler.values import ValuesRead
from ablate.compiler.vit import VisionTransformer
from ablate.errors import InputError

VERSION: Final = 1
"""The version of the numbers of a model built from its description: see `plan/versions.py`."""

KINDS: Mapping[str, Callable[[Architecture, Catalogue, SlotAddress], nn.Module]] = {
    "decoder": Decoder,
    "encoder": Encoder,
    "encoder_decoder": EncoderDecoder,
    "vit": VisionTransformer,
    "mlp": ResidualMLP,
}
"""What can surround the blocks, one file for each kind."""


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
    alone: bool = True,
) -> nn.Module:
    """Build `block` as a module, [batch, time, width] to the same shape, as it is in layer `layer` (from 1) of a model.

    Parts are registered under their names (`attention`, `mlp_norm`). `init` fills the weights that name no init of
    their own. The parameters are those that `compile_model` gives the layer at the same `seed` and `salt`.

    Raises InputError if the sizes do not fit the block: heads that do not divide the width, a gain without a value; and
    if it reads a value from outside itself. Where it is not to run `alone`, such values are left to its model.
    """
    model = SlotAddress(seed, salt)
    with _building(device):
        read = ValuesRead()
        module = build_block(block, sizes, catalogue, layer, model.at("layers", layer), read)
        if alone:
            read.attach(module, {layer: module})
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
    """Build the whole model, from tokens [batch, time] to logits [batch, time, vocabulary], or as its kind has it.

    `seed` determines every parameter through its address, including those that `nn.Linear` draws itself; `salt` changes
    them all, and is the difference between the two arms of an A/A comparison. On the meta device nothing is filled.

    Raises InputError as `compile_block` does, for an unknown kind of model or of positions, for what does not fit the
    kind, for a pattern over layers of which an alternative stands in no layer, and for layers that cannot share
    parameters.
    """
    if architecture.kind not in KINDS:
        raise InputError(f"unknown kind of model {architecture.kind!r}\n  = the kinds are: {', '.join(KINDS)}")
    check_kind(architecture, catalogue)
    check_patterns(architecture.block, architecture.sizes, catalogue)
    check_sharing(architecture, catalogue)
    slots = SlotAddress(seed, salt)
    with _building(device):
        model = KINDS[architecture.kind](architecture, catalogue, slots)
    scheme = _scheme(architecture.init, architecture.sizes, catalogue, slots)
    stacks = {"layers": architecture.sources()}
    if architecture.kind == "encoder_decoder":
        stacks["encoder"] = architecture.of_encoder().sources()
    layers = ((stack, n, of) for stack, sources in stacks.items() for n, of in enumerate(sources, start=1))
    sources = {f"{stack}.{n}": f"{stack}.{of}" for stack, n, of in layers if of != n}
    filled = _filled(_placed(model, device, dtype), Draw(seed, salt, scheme), sources)
    for stack, of_layers in stacks.items():
        tie_layers(filled.get_submodule(stack), of_layers)
    return filled


def _building(device: str | torch.device) -> torch.device:
    """Return where to construct modules: on meta, or on the CPU, whose random numbers suit every device alike."""
    return torch.device("meta" if torch.device(device).type == "meta" else "cpu")


def _placed(module: nn.Module, device: str | torch.device, dtype: torch.dtype) -> nn.Module:
    """Move a module to its device, including tensors that a component keeps as plain attributes."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, value.to(device))
    return module.to(device, dtype)


def _scheme(init: Node, sizes: Sizes, catalogue: Catalogue, model: SlotAddress) -> Init:
    scheme: Init = Builder(catalogue, Surroundings(sizes), model).part(init, ("init",))()
    return scheme


def _filled(module: nn.Module, draw: Draw, sources: Mapping[str, str] | None = None) -> nn.Module:
    if not any(parameter.is_meta for parameter in module.parameters()):
        initialise(module, draw, sources)
    return module
