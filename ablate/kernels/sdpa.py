"""PyTorch's own fused attention, on CPU and CUDA. It takes no map on the logits."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def attend_sdpa(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
) -> Float[Tensor, "B H T K"]:
    """As `attend_eager` without maps."""
    return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
