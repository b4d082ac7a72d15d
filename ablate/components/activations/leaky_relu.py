"""Leaky ReLU: keep what is positive, and let a little of the rest through.

    y = x if x > 0 else slope * x        slope 0 is ReLU; y(kx) = k*y(x) for k > 0

    Maas et al. 2013, Rectifier Nonlinearities Improve Neural Network Acoustic Models, ICML.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements, number


@component("leaky_relu", slots=("activation",), source="Maas et al. 2013, ICML", shorthand="slope", version=1)
class Config:
    """`slope` multiplies negative inputs."""

    slope: float = number()
    kinks = (0.0,)

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"LeakyReLU({x}; {self.slope:g})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x; f' at 0 is that from the left, and f'' leaves out its jump there."""
        import numpy as np

        return np.where(x > 0, x, self.slope * x), np.where(x > 0, 1.0, self.slope), np.zeros_like(x)


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class LeakyReLU(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.slope = config.slope

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return nn.functional.leaky_relu(x, self.slope)
