"""Zero: every entry starts at 0, so the matrix outputs 0 until it has learned.

W_ij = 0

He & Hofmann 2024, arXiv:2311.01906, Sec. 4.1: queries at zero make attention uniform at initialisation.
"""

from typing import ClassVar

from ablate.components.declare import Cost, Signal, Sizes, component, implements


@component("zero", slots=("init",), source="He & Hofmann 2024, arXiv:2311.01906", version=1)
class Config:
    by_shape: ClassVar[bool] = True

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        return x.through_weights(0.0, 0.0)


import torch
from torch import Tensor


@implements(Config)
class Zero:
    def __init__(self, config: Config, sizes: Sizes):
        pass

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        tensor.zero_()
