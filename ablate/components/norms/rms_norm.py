"""RMSNorm: scale each token to root mean square 1 over the width, without centring it.

y = x / sqrt(mean(x²) + eps) * g          mean over the width; eps is inside the root
y = x / (sqrt(mean(x²)) + eps) * g        `outside`: eps is added to the root mean square itself

Zhang & Sennrich 2019, arXiv:1910.07467; eps 1e-8 inside the root as in arXiv:2311.01906, App. D.1
(outside it, at 1e-5, in the code released with that paper). With eps 0 a token of zeros gives NaN.
"""

from ablate.block.equation import number as written
from ablate.components.declare import Cost, Same, Signal, Sizes, component, flag, implements, number


@component(
    "rms_norm",
    slots=("part", "norm"),
    role="norm",
    modifier=True,
    source="Zhang & Sennrich 2019, arXiv:1910.07467",
    same=Same(when={"scale": False, "outside": False}, name="simple_rms_norm", fields={"eps": "eps"}),
    version=1,
)
class Config:
    """`eps` is added to the mean square, or `outside` the root; `scale` trains the gain g."""

    eps: float = number(at_least=0.0)
    outside: bool = flag()
    scale: bool = flag()

    def cost(self, sizes: Sizes, width: int | None = None) -> Cost:
        return Cost(parameters=(width or sizes.d_model) * self.scale)

    def propagate(self, x: Signal, sizes: Sizes, width: int | None = None) -> Signal:
        """Σ_ij / √((Σ_ii + ε) (Σ_jj + ε)); g starts at 1."""
        return x.normalised(self.eps, centred=False, outside=self.outside)

    def equation(self, x: str) -> str:
        return f"RMSNorm({x})"

    def details(self) -> tuple[str, ...]:
        eps = written(self.eps)
        root = f"(√mean(x²) + {eps})" if self.outside else f"√(mean(x²) + {eps})"
        return (f"RMSNorm(x) = {'g ⊙ ' if self.scale else ''}x / {root}",)


import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class RMSNorm(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int | None = None):
        super().__init__()
        self.width = width or sizes.d_model
        self.eps = config.eps
        self.outside = config.outside
        self.scale = nn.Parameter(torch.ones(self.width)) if config.scale else None

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        if self.outside:
            return self.over_sum(x)
        return nn.functional.rms_norm(x, (self.width,), self.scale, self.eps)

    def over_sum(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        """eps outside the root; the mean square is computed in float32 at least."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        root = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) / math.sqrt(self.width)
        y: Tensor = (wide / (root + self.eps)).to(x.dtype)
        return y if self.scale is None else y * self.scale
