"""A linear map with a bias, for what surrounds the blocks of a model."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.compiler.initialise import Draw, Init


class Affine(nn.Module):
    """y = x Wᵀ + b, from `features` to `width`; W is filled by `init`, or the model's if it is None; b starts at 0."""

    def __init__(self, features: int, width: int, init: Init | None = None):
        super().__init__()
        self.init = init
        self.weight = nn.Parameter(torch.empty(width, features))
        self.bias = nn.Parameter(torch.zeros(width))

    def initialise(self, draw: Draw) -> None:
        """Draw the matrix."""
        width, features = self.weight.shape
        draw.weight("weight", self.weight, self.init, d_in=features, d_out=width)

    def forward(self, x: Float[Tensor, "... F"]) -> Float[Tensor, "... D"]:
        """[…, F] -> […, D]."""
        return nn.functional.linear(x.to(self.weight.dtype), self.weight, self.bias)
