"""Simple RMSNorm: RMSNorm without a trained gain, so it holds no parameters at all.

y = x / sqrt(mean(x²) + eps)        mean over the width; with eps 0 a token of zeros gives NaN

Qin et al. 2023, arXiv:2307.14995, Sec. 3.2 (x / (|x|₂ / sqrt(D))).
"""

from ablate.block.equation import number as written
from ablate.components.declare import Cost, Signal, Sizes, component, implements, number


@component(
    "simple_rms_norm",
    slots=("part", "norm"),
    role="norm",
    modifier=True,
    source="Qin et al. 2023, arXiv:2307.14995",
    version=1,
)
class Config:
    """`eps` is added to the mean square, inside the root."""

    eps: float = number(at_least=0.0)

    def cost(self, sizes: Sizes, width: int | None = None) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, width: int | None = None) -> Signal:
        """Σ_ij / √((Σ_ii + ε) (Σ_jj + ε))."""
        return x.normalised(self.eps, centred=False)

    def equation(self, x: str) -> str:
        return f"SimpleRMSNorm({x})"

    def details(self) -> tuple[str, ...]:
        return (f"SimpleRMSNorm(x) = x / √(mean(x²) + {written(self.eps)})",)


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class SimpleRMSNorm(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int | None = None):
        super().__init__()
        self.width = width or sizes.d_model
        self.eps = config.eps

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        return nn.functional.rms_norm(x, (self.width,), None, self.eps)
