"""Sinks: one more logit of each query's softmax, of a key without a value.

    y = softmax([s, b]) [v, 0]        = σ(log Σ_m exp(s_m) - b) softmax(s) v

By the second form a backend that gives log-sum-exps needs nothing else. By the first, one that does not (SDPA) gets a
first key [0, …, 0, b / scale] with the value 0, and queries [q, 1]. Where causal, a first query comes with it, whose
output is dropped, so that the others still see what they saw.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from ablate.kernels.scale import with_positive_scale
from ablate.kernels.sdpa import attend_sdpa

PIECES = 3
"""Channels for a sink in a narrow dtype: a sum of three numbers of 8 bits has the 24 of float32."""
ALIGNED = 8
"""The width of a head is a multiple of this in fused kernels on CUDA."""


def less_the_sink(
    y: Float[Tensor, "B H T K"], lse: Float[Tensor, "B H T"], sink: Float[Tensor, "H"]
) -> Float[Tensor, "B H T K"]:
    """Return σ(lse - b) y, multiplied in float32 at least: what is left to the keys; 0 for a query that sees none."""
    wide = torch.promote_types(y.dtype, torch.float32)
    left = torch.sigmoid(lse.to(wide) - sink.to(wide)[:, None])
    return (left[..., None] * y.to(wide)).to(y.dtype)


def attend_sdpa_sink(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    sink: Float[Tensor, "H"],
    dropout: float = 0.0,
) -> Float[Tensor, "B H T K"]:
    """Compute attention with a sink as SDPA's own, with one more key; neither a mask nor a bias is possible."""
    q, scale = with_positive_scale(q, scale)
    wide = torch.promote_types(torch.promote_types(sink.dtype, q.dtype), torch.float32)
    logits = in_pieces(sink.to(wide) / scale, q.dtype)
    d_head, more = q.shape[-1], len(logits)
    if q.device.type == "cuda":
        more += -(d_head + more) % ALIGNED
    ones = q.new_ones(1, 1, 1, len(logits)).expand(*q.shape[:-1], -1)
    wide_q = pad(torch.cat([q, ones], dim=-1), (0, more - len(logits), 1 if causal else 0, 0))
    of_sink = pad(torch.stack(logits, dim=-1), (d_head, more - len(logits)))
    of_sink = of_sink[None, :, None].expand(len(k), -1, -1, -1)
    wide_k = torch.cat([of_sink, pad(k, (0, more))], dim=-2)
    y = attend_sdpa(wide_q, wide_k, pad(v, (0, more, 1, 0)), causal=causal, scale=scale, dropout=dropout)
    return y[..., 1 if causal else 0 :, :d_head]


def in_pieces(numbers: Float[Tensor, "H"], dtype: torch.dtype) -> list[Float[Tensor, "H"]]:
    """Return numbers in `dtype` that sum to the given ones, of which the first passes the gradient on."""
    pieces = [numbers.to(dtype)]
    if torch.promote_types(numbers.dtype, dtype) == dtype:
        return pieces
    rest = numbers.detach()
    for _ in range(PIECES - 1):
        rest = rest - pieces[-1].detach().to(rest.dtype)
        pieces.append(rest.to(dtype))
    return pieces
