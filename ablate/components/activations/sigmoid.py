"""Sigmoid: squeeze each input between 0 and 1.

    y = 1 / (1 + exp(-x))        in a gated MLP, it is the GLU of Dauphin et al. 2017, arXiv:1612.08083

    Rumelhart et al. 1986, Learning representations by back-propagating errors, Nature 323, Eq. 2.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("sigmoid", slots=("activation",), source="Rumelhart et al. 1986, Nature 323", version=1)
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"σ({x})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        import numpy as np

        s = np.exp(-np.logaddexp(0, -x))
        return s, s * (1 - s), s * (1 - s) * (1 - 2 * s)


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Sigmoid(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return torch.sigmoid(x)
