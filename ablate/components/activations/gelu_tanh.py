"""GELU by tanh: the approximation that GPT-2 was trained with.

    y = x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x³))) / 2

    Hendrycks & Gimpel 2016, arXiv:1606.08415, Sec. 2.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("gelu_tanh", slots=("activation",), source="Hendrycks & Gimpel 2016, arXiv:1606.08415", version=1)
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"GELU_tanh({x})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        import numpy as np

        root = np.sqrt(2 / np.pi)
        t = np.tanh(root * (x + 0.044715 * x**3))
        inner, bend = root * (1 + 0.134145 * x**2), root * 0.26829 * x
        dt = (1 - t**2) * inner
        ddt = (1 - t**2) * bend - 2 * t * dt * inner
        return x * (1 + t) / 2, (1 + t + x * dt) / 2, dt + x * ddt / 2


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class GELUTanh(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return nn.functional.gelu(x, approximate="tanh")
