"""Eager attention, exactly as in its equation: the reference for every other backend.

s = maps(scale * q kᵀ) + bias,  masked to the past where causal;  y = dropout(softmax(s)) v
log-sum-exp_t = log Σ_m exp(s_tm) over the keys m that query t sees
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ablate.kernels.mask import Mask, SeenPairs, seen_pairs

VERSION: Final = 1
"""The version of the numbers of this backend: see `plan/versions.py`."""

LogitMap: TypeAlias = Callable[[Tensor], Tensor]  # maps each score separately, in float32 at least, before masking


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
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """Compute attention in float32 at least, whatever the inputs; the result has the dtype of `v`.

    A `mask` replaces `causal`. `padding` is True for the keys that are tokens; a query that sees none gives 0.
    """
    pairs = seen_pairs(mask, padding, causal=causal, n_queries=q.shape[-2], n_keys=k.shape[-2], device=q.device)
    hiding = None if pairs is None else pairs.keys
    return mixed(scores(q, k, causal=causal, scale=scale, logits=logits, bias=bias, seen=hiding), v, dropout, pairs)


def attend_eager_lse(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T"]]:
    """The same, and the log-sum-exp of each query's scores, in float32 at least; both pass gradients on."""
    pairs = seen_pairs(mask, padding, causal=causal, n_queries=q.shape[-2], n_keys=k.shape[-2], device=q.device)
    hiding = None if pairs is None else pairs.keys
    masked = scores(q, k, causal=causal, scale=scale, logits=logits, bias=bias, seen=hiding)
    sums = masked.logsumexp(-1)
    return mixed(masked, v, dropout, pairs), sums if pairs is None else pairs.filled(sums, -torch.inf)


def mixed(
    scores: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S K"], dropout: float, pairs: SeenPairs | None
) -> Float[Tensor, "B H T K"]:
    """dropout(softmax(s)) v in the dtype of `v`, 0 for queries that see nothing."""
    weights = torch.softmax(scores, dim=-1)
    if dropout:
        weights = torch.nn.functional.dropout(weights, dropout)
    y = (weights @ v.to(weights.dtype)).to(v.dtype)
    return y if pairs is None else pairs.zeroed(y)


def scores(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    first: int = 0,
    seen: Bool[Tensor, "#B 1 T S"] | None = None,
) -> Float[Tensor, "B H T S"]:
    """The scores before softmax, -inf where hidden. Row 0 of `q` (and of `bias`) is at position `first` of `k`.

    `seen`, True where a key is seen by the query of that row, replaces `causal`.
    The product itself is computed in float32 at least: in bfloat16 a logit of 30 is off by up to 0.06.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    result = scale * (q.to(wide) @ k.to(wide).transpose(-2, -1))
    for logit_map in logits:
        result = logit_map(result)
    if bias is not None:
        result = result + bias.to(wide)
    if seen is not None:
        return result.masked_fill(~seen, -torch.inf)
    return result.masked_fill(hidden(result, first), -torch.inf) if causal else result


def hidden(scores: Float[Tensor, "B H T S"], first: int) -> Tensor:
    """A mask [T, S], True where a key lies after the query."""
    n_queries, n_keys = scores.shape[-2:]
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=scores.device)
    return ones.triu(1 + first)
