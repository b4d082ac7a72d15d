"""Softplus: a ReLU without its kink.

    y = log(1 + exp(x))        its slope is the sigmoid of x

    Dugas et al. 2000, Incorporating Second-Order Functional Knowledge for Better Option Pricing, NIPS.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("softplus", slots=("activation",), source="Dugas et al. 2000, NIPS", version=1)
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"softplus({x})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        import numpy as np

        s = np.exp(-np.logaddexp(0, -x))
        return np.logaddexp(0, x), s, s * (1 - s)


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Softplus(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        # Above the threshold torch gives x itself: from 40 on that is right in float64, at its own 20 it is not.
        return nn.functional.softplus(x, threshold=40.0)
