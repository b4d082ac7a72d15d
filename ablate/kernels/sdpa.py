"""PyTorch's own fused attention, on CPU and CUDA. It takes no map on the logits.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ablate.kernels.bias import masked


def attend_sdpa(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T K"]:
    """As `attend_eager` without maps. It takes a mask or a bias, so a causal bias holds the mask."""
    if bias is None:
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, dropout_p=dropout)
    mask = masked(bias.to(q.dtype)) if causal else bias.to(q.dtype)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, dropout_p=dropout)
