"""The size of a model, counted by building it on the meta device, where nothing is stored or computed."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from ablate.block.architecture import CLASSIFIERS, Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.sizes import PASSES, Cost
from ablate.compiler.compile import compile_model
from ablate.compiler.values import logits_ahead


def size_report(architecture: Architecture, catalogue: Catalogue) -> Cost:
    """Count parameters, FLOPs of a forward pass over one sequence, and those spared in its backward pass, by PyTorch.

    Tokens further ahead are predicted as in training. `plan/size.py` gives the same in closed form, without torch; a
    test compares the two.
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
