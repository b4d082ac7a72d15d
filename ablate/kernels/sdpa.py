"""PyTorch's own fused attention, on CPU and CUDA. It takes no map on the logits."""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ablate.kernels.bias import masked, narrowed
from ablate.kernels.mask import Mask, added_table, hiding, seen_pairs
from ablate.kernels.scale import with_positive_scale

VERSION: Final = 1
"""The version of the numbers of this backend: see `plan/versions.py`."""


def attend_sdpa(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
    overwrite_bias: bool = False,
    holds_mask: bool = False,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """`attend_eager` without maps. SDPA takes a mask or a bias, so a bias contains the mask.

    A mask is added as 0 and -inf: from True and False SDPA would make a tensor of those for every layer.
    """
    q, scale = with_positive_scale(q, scale)
    pairs = seen_pairs(mask, padding, causal=causal, n_queries=q.shape[-2], n_keys=k.shape[-2], device=q.device)
    if bias is None and pairs is None:
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, dropout_p=dropout)
    if bias is not None:
        seen = None if pairs is None else pairs.keys
        done = (holds_mask and padding is None) or (seen is None and not causal)
        added = narrowed(masked(bias, overwrite=overwrite_bias, done=done, seen=seen), mask_dtype(q))
    elif mask is not None and padding is None:
        added = added_table(mask, q.shape[-2], k.shape[-2], q.device, mask_dtype(q))
    else:
        assert pairs is not None
        added = hiding(pairs, mask_dtype(q))
    y = scaled_dot_product_attention(q, k, v, attn_mask=added, scale=scale, dropout_p=dropout)
    return y if pairs is None else pairs.zeroed(y)


def mask_dtype(q: Tensor) -> torch.dtype:
    """The dtype of q; on CPU float32 for half q (float64 is silently wrong in 2.13)."""
    return torch.promote_types(q.dtype, torch.float32) if q.device.type == "cpu" else q.dtype


# Sinks: one more logit of each query's softmax, of a key without a value.
#
#     y = softmax([s, b]) [v, 0]        = σ(log Σ_m exp(s_m) - b) softmax(s) v
#
# The second form suits backends that give log-sum-exps. By the first, SDPA, which does not, gets a first key [0, …, 0,
# b / scale] with the value 0, and queries [q, 1]; where causal, also a first query, whose output is dropped, so that
# the others still see what they saw.

PIECES = 3  # channels for a sink in a narrow dtype: a sum of three numbers of 8 bits has the 24 of float32
ALIGNED = 8  # the width of a head is a multiple of this in fused kernels on CUDA


def less_the_sink(
    y: Float[Tensor, "B H T K"], lse: Float[Tensor, "B H T"], sink: Float[Tensor, "H"]
) -> Float[Tensor, "B H T K"]:
    """σ(lse - b) y, multiplied in float32 at least: the share left to the keys; 0 for a query that sees none."""
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
    """SDPA with a sink as one more key; neither a mask nor a bias is possible."""
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
    """Numbers in `dtype` that sum to the given ones, of which the first passes the gradient on."""
    pieces = [numbers.to(dtype)]
    if torch.promote_types(numbers.dtype, dtype) == dtype:
        return pieces
    rest = numbers.detach()
    for _ in range(PIECES - 1):
        rest = rest - pieces[-1].detach().to(rest.dtype)
        pieces.append(rest.to(dtype))
    return pieces
