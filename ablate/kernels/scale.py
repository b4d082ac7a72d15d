"""The scale of the scores as fused backends want it: above 0.

They hide the future with -∞ before they scale: a scale of 0 makes 0 · -∞ = NaN of it, a negative one +∞.

Dimension key: B batch, H heads, T queries, K width of a head.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def with_positive_scale(q: Float[Tensor, "B H T K"], scale: float) -> tuple[Float[Tensor, "B H T K"], float]:
    """Queries and a scale above 0 whose scores are those of `q` and `scale`: q takes a sign, or a 0, which are exact.

    NaN stays as it is.
    """
    if scale < 0:
        return -q, -scale
    return (0 * q, 1.0) if scale == 0 else (q, scale)
