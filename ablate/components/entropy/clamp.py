"""Clamp: bound the attention logits by cutting them off.

s' = min(max(s, -bound), bound)        of scaled scores before masking; beyond the bound a logit gets no gradient

He et al. 2024, arXiv:2405.19279, App. A and C (clamping attention logits, after DBRX).
"""

import math

from ablate.block.equation import number as written
from ablate.components.declare import Cost, Sizes, component, implements, number


@component(
    "clamp", slots=("entropy",), source="He et al. 2024, arXiv:2405.19279", shorthand="bound", stage=1, version=1
)
class Config:
    """`bound` is the largest absolute value of a logit."""

    bound: float = number(above=0.0)

    def cost(self, sizes: Sizes, width: int) -> Cost:
        return Cost()

    def propagate(self, variance: float, sizes: Sizes) -> float:
        """The mean slope, P(|s| < bound), at scores of a variance; its square multiplies their covariances."""
        return math.erf(self.bound / (2 * variance) ** 0.5) if variance else 1.0

    def equation(self, x: str) -> str:
        return f"min(max({x}, {written(-self.bound)}), {written(self.bound)})"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Clamp(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.bound = config.bound

    def on_logits(self, scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return wide.clamp(-self.bound, self.bound)
