"""RMSNorm: scale each token to root mean square 1 over the width, without centring it.

    y = x / sqrt(mean(x²) + eps) * g        mean over the width; eps is inside the root

    Zhang & Sennrich 2019, arXiv:1910.07467; eps 1e-8 inside the root as in arXiv:2311.01906, App. D.1.

A token of zeros with eps 0 has no direction to keep: its output is NaN.

Dimension key: D width of the token (or of a head, for a norm on queries and keys).
"""

from ablate.components.declare import Cost, Sizes, component, flag, implements, number


@component(
    "rms_norm",
    slots=("part", "norm"),
    role="norm",
    modifier=True,
    source="Zhang & Sennrich 2019, arXiv:1910.07467",
)
class Config:
    """`eps` is added to the mean square, inside the root; `scale` trains the gain g."""

    eps: float = number(at_least=0.0)
    scale: bool = flag()

    def cost(self, sizes: Sizes, width: int | None = None) -> Cost:
        """One trained gain a channel, where it exists."""
        return Cost(parameters=(width or sizes.d_model) * self.scale)


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class RMSNorm(nn.Module):
    """The norm over the last axis."""

    def __init__(self, config: Config, sizes: Sizes, width: int | None = None):
        super().__init__()
        self.width = width or sizes.d_model
        self.eps = config.eps
        self.scale = nn.Parameter(torch.ones(self.width)) if config.scale else None

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        """[..., D] -> [..., D]."""
        return nn.functional.rms_norm(x, (self.width,), self.scale, self.eps)
