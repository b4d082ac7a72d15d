"""PyTorch's own fused attention, on CPU and CUDA. It takes no map on the logits.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

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
    """Compute `attend_eager` without maps. SDPA takes a mask or a bias, so a bias contains the mask.

    A mask is added to the scores, as 0 and -inf: from True and False SDPA would make a tensor of those for every layer.
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
    """Return the dtype of the mask: that of q, on CPU float32 for half q (float64 is silently wrong in 2.13)."""
    return torch.promote_types(q.dtype, torch.float32) if q.device.type == "cpu" else q.dtype
