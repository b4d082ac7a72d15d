"""Eager attention, exactly as in its equation: the reference for every other backend.

    s = maps(scale * q kᵀ) + bias,  masked to the past where causal;  y = dropout(softmax(s)) v

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

VERSION: Final = 1
"""The version of the numbers of this backend: see `plan/versions.py`."""

LogitMap: TypeAlias = Callable[[Tensor], Tensor]
"""Maps each score separately, in float32 at least, before masking."""


def attend_eager(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T K"]:
    """Compute attention in float32 at least, whatever the inputs; the result has the dtype of `v`."""
    weights = torch.softmax(scores(q, k, causal=causal, scale=scale, logits=logits, bias=bias), dim=-1)
    if dropout:
        weights = torch.nn.functional.dropout(weights, dropout)
    return (weights @ v.to(weights.dtype)).to(v.dtype)


def scores(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    first: int = 0,
) -> Float[Tensor, "B H T S"]:
    """Return the scores before softmax, -inf where hidden. Row 0 of `q` (and of `bias`) is at position `first` of `k`.

    The product itself is computed in float32 at least: in bfloat16 a logit of 30 is off by up to 0.06.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    result = scale * (q.to(wide) @ k.to(wide).transpose(-2, -1))
    for logit_map in logits:
        result = logit_map(result)
    if bias is not None:
        result = result + bias.to(wide)
    return result.masked_fill(hidden(result, first), -torch.inf) if causal else result


def hidden(scores: Float[Tensor, "B H T S"], first: int) -> Tensor:
    """Return a mask [T, S], true where a key lies after the query."""
    n_queries, n_keys = scores.shape[-2:]
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=scores.device)
    return ones.triu(1 + first)
