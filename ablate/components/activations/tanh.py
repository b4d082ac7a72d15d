"""Tanh: squeeze each input between -1 and 1.

    y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))        odd; y = 2σ(2x) - 1, with σ the sigmoid

    LeCun et al. 1998, Efficient BackProp, Sec. 4.4.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("tanh", slots=("activation",), source="LeCun et al. 1998, Efficient BackProp", version=1)
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"tanh({x})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        import numpy as np

        t = np.tanh(x)
        return t, 1 - t**2, -2 * t * (1 - t**2)


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Tanh(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return torch.tanh(x)
