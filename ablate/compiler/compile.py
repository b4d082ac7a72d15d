"""Compilation: from expressions to models, by `compile_block` and `compile_model`; and the size of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ablate.block.address import address
from ablate.block.architecture import CLASSIFIERS, Architecture, check_kind, check_patterns, check_sharing
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node
from ablate.block.sizes import PASSES, Cost, Sizes, Surroundings
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.classifier import ResidualMLP, VisionTransformer
from ablate.compiler.decoder import Decoder
from ablate.compiler.encoder import Encoder, EncoderDecoder
from ablate.compiler.initialise import Draw, Init, initialise
from ablate.compiler.values import ValuesRead, logits_ahead
from ablate.components.protocols import Profiled
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
"""The models around the blocks, by kind."""


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
    """The device of construction: meta, or the CPU, whose random numbers suit every device alike."""
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


# Shared parameters: each module of a layer keeps its place, and its parameters become those of another layer's
# module.
#
# A layer that shares is constructed and initialised at the address of its source, so that what a module computes from
# its weights (singular vectors, a copy of the start) fits them.


def tie_layers(layers: Any, sources: Sequence[int]) -> None:
    """Replace the parameters of each layer by those of the layer that it shares with; InputError if they do not fit."""
    for layer, source in enumerate(sources, start=1):
        if layer != source:
            _tie_layer(layers[str(layer)], layers[str(source)], layer, source)


def _tie_layer(module: nn.Module, source: nn.Module, layer: int, of: int) -> None:
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


def size_report(architecture: Architecture, catalogue: Catalogue) -> Cost:
    """Count parameters, FLOPs of a forward pass over one sequence, and those spared in its backward pass, by PyTorch.

    It builds the model on the meta device, where nothing is stored or computed. Tokens further ahead are predicted as
    in training. `plan/size.py` gives the same in closed form, without torch; a test compares the two.
    """
    model = compile_model(architecture, catalogue, device="meta")
    inputs = inputs_of(architecture)
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        outputs = model(*inputs)
        forward = counter.get_total_flops()
        every = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        sum((output.sum() for output in (*logits_ahead(model), *every)), torch.zeros((), device="meta")).backward()
    return Cost(
        parameters=sum(p.numel() for p in model.parameters()),
        flops=forward,
        spared=PASSES * forward - counter.get_total_flops(),
    )


def inputs_of(architecture: Architecture, batch: int = 1) -> tuple[torch.Tensor, ...]:
    """Inputs on the meta device: tokens, of two stacks the source before them; or images."""
    sizes = architecture.sizes
    if architecture.kind in CLASSIFIERS:
        return (torch.zeros(batch, *architecture.input_shape, device="meta"),)
    tokens = torch.zeros(batch, sizes.seq_len, dtype=torch.int64, device="meta")
    if architecture.kind != "encoder_decoder":
        return (tokens,)
    shape = (batch, sizes.source_len or 0, *architecture.input_shape[1:])
    return torch.zeros(shape, dtype=torch.float32 if architecture.input_shape else torch.int64, device="meta"), tokens
