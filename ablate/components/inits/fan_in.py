"""Fan-in: normal entries whose variance falls with the width they sum over, so that the output keeps its scale.

W_ij ~ N(0, gain² / d_in)        gain 1 keeps the variance of a linear map, sqrt(2) that of one after ReLU

LeCun et al. 1998, Efficient BackProp, Sec. 4.6; gain sqrt(2): He et al. 2015, arXiv:1502.01852, Eq. 10.
"""

from typing import ClassVar

from ablate.components.declare import Cost, Node, Signal, Sizes, arithmetic, component, fixed, implements


@component("fan_in", slots=("init",), source="LeCun et al. 1998, Efficient BackProp", shorthand="gain", version=1)
class Config:
    """`gain` is the standard deviation of the output for inputs of variance 1."""

    by_shape: ClassVar[bool] = True

    gain: float = arithmetic(at_least=0.0)

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        return Node("zero") if fixed(node["gain"]) == 0 else node

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """gain² Σ."""
        return x.through_weights(self.gain**2, self.gain**2 * d_out / d_in)


import math

import torch
from torch import Tensor


@implements(Config)
class FanIn:
    def __init__(self, config: Config, sizes: Sizes):
        self.gain = config.gain

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        tensor.normal_(0.0, self.gain / math.sqrt(d_in), generator=generator)
