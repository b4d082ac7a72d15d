"""The size of a model, counted by building it on the meta device, where nothing is stored or computed."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.cost import PASSES, Cost
from ablate.compiler.ahead import logits_ahead
from ablate.compiler.compile import compile_model


def size_report(architecture: Architecture, catalogue: Catalogue) -> Cost:
    """Count parameters, FLOPs of a forward pass over one sequence, and those spared in its backward pass, by PyTorch.

    Tokens further ahead are predicted as in training. `plan/size.py` gives the same in closed form, without torch; a
    test compares the two.
    """
    model = compile_model(architecture, catalogue, device="meta")
    tokens = torch.zeros(1, architecture.sizes.seq_len, dtype=torch.int64, device="meta")
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        logits = model(tokens)
        forward = counter.get_total_flops()
        sum((further.sum() for further in logits_ahead(model)), logits.sum()).backward()
    return Cost(
        parameters=sum(p.numel() for p in model.parameters()),
        flops=forward,
        spared=PASSES * forward - counter.get_total_flops(),
    )
