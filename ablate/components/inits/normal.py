"""Normal: independent entries of one standard deviation, whatever the shape.

W_ij ~ N(0, std²)        std is a number, or arithmetic in the sizes: 1/sqrt(width)

Radford et al. 2019 (GPT-2), std 0.02; the initialisation of arXiv:2405.19279, App. C.
"""

from typing import ClassVar

from ablate.components.declare import Cost, Node, Signal, Sizes, arithmetic, component, fixed, implements


@component("normal", slots=("init",), source="Radford et al. 2019, GPT-2", shorthand="std", version=1)
class Config:
    """`std` is the standard deviation of each entry."""

    by_shape: ClassVar[bool] = True

    std: float = arithmetic(at_least=0.0)

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        return Node("zero") if fixed(node["std"]) == 0 else node

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """d_in std² Σ."""
        return x.through_weights(d_in * self.std**2, d_out * self.std**2)


import torch
from torch import Tensor


@implements(Config)
class Normal:
    def __init__(self, config: Config, sizes: Sizes):
        self.std = config.std

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        tensor.normal_(0.0, self.std, generator=generator)
