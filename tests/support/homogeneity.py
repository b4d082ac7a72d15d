"""How far a stack of blocks is from f(kx) = k·f(x)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from builders import CATALOGUE, default_init

from ablate.block.expression import Block
from ablate.block.sizes import Sizes
from ablate.compiler import compile_block


def departure(block: Block, k: float, sizes: Sizes, layers: Sequence[int] = (1, 2)) -> float:
    """The largest |f(kx) - k f(x)| relative to that of |k f(x)|, over these layers in float64."""
    stack = [
        compile_block(block, sizes, CATALOGUE, init=default_init(), layer=layer, dtype=torch.float64)
        for layer in layers
    ]
    random = torch.Generator().manual_seed(0)
    plain = torch.randn(2, sizes.seq_len, sizes.d_model, generator=random, dtype=torch.float64)
    scaled = k * plain
    with torch.no_grad():
        for module in stack:
            scaled, plain = module(scaled), module(plain)
    return ((scaled - k * plain).abs().max() / (k * plain).abs().max()).item()
