"""Eye: ones on the diagonal, so that the weight starts as the identity.

W_ij = 1 if i = j, else 0        a narrower output keeps the first channels, a wider one is padded with zeros

He & Hofmann 2024, arXiv:2311.01906, Sec. 4.1: W_init = I.
"""

from typing import ClassVar

from ablate.components.declare import Cost, Signal, Sizes, component, implements
from ablate.errors import InputError


@component("eye", slots=("init",), source="He & Hofmann 2024, arXiv:2311.01906", version=1)
class Config:
    by_shape: ClassVar[bool] = True

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """Σ; InputError unless the matrix is square."""
        if d_in != d_out:
            raise InputError(
                f"eye from {d_in} to {d_out} channels is not forecast\n  = `ablate docs forecast` says what is"
            )
        return x


import torch
from torch import Tensor


@implements(Config)
class Eye:
    def __init__(self, config: Config, sizes: Sizes):
        pass

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        tensor.zero_().fill_diagonal_(1.0)
