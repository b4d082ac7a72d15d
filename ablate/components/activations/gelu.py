"""GELU: weigh each input by the probability that a standard normal is below it.

    y = x * (1 + erf(x / sqrt(2))) / 2        exact; its tanh approximation is `gelu_tanh`

    Hendrycks & Gimpel 2016, arXiv:1606.08415, Eq. 1.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("gelu", slots=("activation",), source="Hendrycks & Gimpel 2016, arXiv:1606.08415", version=1)
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"GELU({x})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        import numpy as np
        from scipy.special import ndtr

        below, density = ndtr(x), np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        return x * below, below + x * density, (2 - x**2) * density


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class GELU(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return nn.functional.gelu(x)
