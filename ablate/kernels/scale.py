"""The scale of the scores in the form that fused backends need: above 0.

They mask the future with -∞ before they scale: a scale of 0 would turn it into 0 · -∞ = NaN, a negative one into +∞.

Dimension key: B batch, H heads, T queries, K width of a head.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def with_positive_scale(q: Float[Tensor, "B H T K"], scale: float) -> tuple[Float[Tensor, "B H T K"], float]:
    """Return queries and a scale above 0 with the same scores: q absorbs the sign, or the 0, both exactly.

    NaN stays as it is.
    """
    if scale < 0:
        return -q, -scale
    return (0 * q, 1.0) if scale == 0 else (q, scale)
