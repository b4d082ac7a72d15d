"""Gradient norms: the 2-norm of the loss's gradient, separately for each part.

    |g_part|_2 = sqrt(Σ (∂L/∂θ)²)        over the part's own parameters θ, before clipping

A part here is a module with parameters of its own (`layers.3.attention.query`); a parameter shared by two parts counts
for the first. The squares of all parts sum to that of the whole model's norm, which training always reports, at the
empty address.

    Pascanu et al. 2013, arXiv:1211.5063
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe


@probe("gradient_norm", reads="parameters", source="Pascanu et al. 2013, arXiv:1211.5063", version=1)
class GradientNorm:
    gradient_norm = metric(
        "2-norm of the gradient of the batch's mean loss before clipping: of the parameters a part holds itself, "
        "or of the whole model at the empty address",
        "Pascanu et al. 2013, arXiv:1211.5063",
        better="none",
    )


from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ablate.probes.reading import Reading


@implements(GradientNorm)
def part_gradient_norms(model: nn.Module) -> Iterator[Reading]:
    """A parameter without a gradient counts as zero."""
    squares: dict[str, list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        owner, _, own_name = name.rpartition(".")
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        # A parameter of the model itself has its own name as address: the empty one is that of the whole model.
        squares.setdefault(owner or own_name, []).append(gradient.double().square().sum())
    for address, parts in squares.items():
        yield Reading("gradient_norm", address, torch.stack(parts).sum().sqrt())
