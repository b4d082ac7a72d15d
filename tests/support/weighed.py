"""The gradient of a batch that is cut into parts, over several ranks one after another, and how parts are weighed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from reading import transformer

from ablate.compiler import compile_model
from ablate.train.data_parallel import Ranks
from ablate.train.microbatches import BatchShares, Passes

PARTS = [(parts, ranks) for parts in (1, 2, 5) for ranks in (1, 2)]

Gradients = list[torch.Tensor]


def gradient_of(architecture, made, batch, parts: int, ranks: int, *, by_sequences: bool = False) -> Gradients:
    """In float64, for an objective `made`; `by_sequences` weighs parts by those, which is wrong."""
    model = compile_model(architecture, transformer().catalogue, dtype=torch.float64)
    passes = Passes(model, "float64", BatchShares(parts), made)
    for rank in range(ranks):
        cut = BatchShares(parts, Ranks(rank, ranks)).of(batch, torch.device("cpu"), made)
        if by_sequences:
            cut = [replace(part, shares=dict.fromkeys(part.shares, part.weight)) for part in cut]
        passes.backward(cut)
    return [parameter.grad for parameter in model.parameters()]


def assert_weighs_by_targets(gradient: Callable[..., Gradients]) -> None:
    """The gradient of 1, 2 and 5 parts on 1 and 2 ranks is the same, and differs from weights by sequences."""
    first, *others = (gradient(parts, ranks) for parts, ranks in PARTS)
    for found in others:
        assert all((a - b).abs().max() < 1e-12 for a, b in zip(first, found, strict=True))
    uneven = gradient(5, 2, by_sequences=True)
    assert max((a - b).abs().max() for a, b in zip(first, uneven, strict=True)) > 1e-4
