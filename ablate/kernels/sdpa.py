"""PyTorch's own fused attention, on CPU and CUDA. It takes no map on the logits.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ablate.kernels.bias import masked, narrowed
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
) -> Float[Tensor, "B H T K"]:
    """Compute `attend_eager` without maps. SDPA takes a mask or a bias, so a causal bias contains the mask."""
    q, scale = with_positive_scale(q, scale)
    if bias is None:
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, dropout_p=dropout)
    mask = narrowed(masked(bias, overwrite=overwrite_bias, done=holds_mask or not causal), mask_dtype(q))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, dropout_p=dropout)


def mask_dtype(q: Tensor) -> torch.dtype:
    """Return the dtype of the mask: that of q, on CPU float32 for half q (float64 is silently wrong in 2.13)."""
    return torch.promote_types(q.dtype, torch.float32) if q.device.type == "cpu" else q.dtype
