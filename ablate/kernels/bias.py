"""What is added to the scores: the sum of what several sources give, and the causal mask within it.

Dimension key: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

BiasSource: TypeAlias = Callable[[Tensor, Tensor, float], Tensor]
"""From queries, keys and the scale of the scores to a bias [1 or B, 1 or H, T, S]."""


def summed(sources: Iterable[BiasSource], q: Tensor, k: Tensor, scale: float) -> Tensor | None:
    """The sum of the biases; None without a source."""
    total: Tensor | None = None
    for source in sources:
        bias = source(q, k, scale)
        total = bias if total is None else total + bias
    return total


def masked(bias: Float[Tensor, "#B #H T S"]) -> Float[Tensor, "#B #H T S"]:
    """The bias with -inf where a key lies after the query."""
    n_queries, n_keys = bias.shape[-2:]
    future = torch.ones(n_queries, n_keys, dtype=torch.bool, device=bias.device).triu(1)
    return bias.masked_fill(future, -torch.inf)
