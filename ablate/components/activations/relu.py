"""ReLU: keep what is positive.

    y = max(x, 0)        y(kx) = k*y(x) for k > 0

    Nair & Hinton 2010, Rectified Linear Units Improve Restricted Boltzmann Machines, ICML.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("relu", slots=("activation",), source="Nair & Hinton 2010, ICML", version=1)
class Config:
    """Nothing to choose."""

    kinks = (0.0,)

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"ReLU({x})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x; f' at 0 is that from the left, and f'' leaves out its jump there."""
        import numpy as np

        return np.where(x > 0, x, 0.0), np.where(x > 0, 1.0, 0.0), np.zeros_like(x)


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class ReLU(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return nn.functional.relu(x)
