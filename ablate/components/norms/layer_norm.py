"""LayerNorm: centre and scale each token to mean 0 and variance 1 over the width.

y = (x - mean(x)) / sqrt(var(x) + eps) * g + b        mean and variance over the width

Ba et al. 2016, arXiv:1607.06450; Eq. 2 and 3 of arXiv:2405.19279 with c = 1.
"""

from ablate.block.equation import number as written
from ablate.components.declare import Cost, Signal, Sizes, component, flag, implements, number


@component(
    "layer_norm",
    slots=("part", "norm"),
    role="norm",
    modifier=True,
    source="Ba et al. 2016, arXiv:1607.06450",
    version=1,
)
class Config:
    """`eps` is added to the variance, inside the root; `bias` trains the shift b; `scale` trains the gain g."""

    eps: float = number(at_least=0.0)
    scale: bool = flag()
    bias: bool = flag()

    def cost(self, sizes: Sizes, width: int | None = None) -> Cost:
        return Cost(parameters=(width or sizes.d_model) * (self.scale + self.bias))

    def propagate(self, x: Signal, sizes: Sizes, width: int | None = None) -> Signal:
        """Σ_ij / √((Σ_ii + ε) (Σ_jj + ε)) about the channels' means; g starts at 1 and b at 0."""
        return x.normalised(self.eps, centred=True)

    def equation(self, x: str) -> str:
        return f"LayerNorm({x})"

    def details(self) -> tuple[str, ...]:
        scale, bias = "g ⊙ " if self.scale else "", " + b" if self.bias else ""
        return (f"LayerNorm(x) = {scale}(x - mean(x)) / √(var(x) + {written(self.eps)}){bias}",)


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class LayerNorm(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int | None = None):
        super().__init__()
        self.width = width or sizes.d_model
        self.eps = config.eps
        self.scale = nn.Parameter(torch.ones(self.width)) if config.scale else None
        self.bias = nn.Parameter(torch.zeros(self.width)) if config.bias else None

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return nn.functional.layer_norm(x, (self.width,), self.scale, self.bias, self.eps)
