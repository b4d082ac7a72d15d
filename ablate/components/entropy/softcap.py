"""Softcap: bound the attention logits smoothly, by tanh.

s' = cap * tanh(s / cap)        of scaled scores, before masking, in float32 at least; |s'| < cap

x.AI 2024, Grok-1 (cap 30), the "tanh" of arXiv:2405.19279, App. H.1; Gemma 2 (cap 50), arXiv:2408.00118, Sec. 2.
"""

from ablate.block.equation import number as written
from ablate.components.declare import Cost, Sizes, component, implements, number


@component(
    "softcap", slots=("entropy",), source="x.AI 2024, Grok-1; arXiv:2405.19279", shorthand="cap", stage=1, version=1
)
class Config:
    """`cap` bounds the absolute value of a logit."""

    cap: float = number(above=0.0)

    def cost(self, sizes: Sizes, width: int) -> Cost:
        return Cost()

    def propagate(self, variance: float, sizes: Sizes) -> float:
        """The mean slope, E[1 / cosh²(s / cap)], at scores of a variance; its square multiplies their covariances."""
        import numpy as np

        from ablate.signal.kernel_maps import normal_nodes

        z, weight = normal_nodes()
        return float(weight @ np.cosh(z * variance**0.5 / self.cap) ** -2.0)

    def equation(self, x: str) -> str:
        return f"{written(self.cap)} tanh({x} / {written(self.cap)})"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Softcap(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()
        self.cap = config.cap

    def on_logits(self, scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return self.cap * torch.tanh(wide / self.cap)
