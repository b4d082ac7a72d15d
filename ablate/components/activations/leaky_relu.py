"""Leaky ReLU: keep positive inputs, and scale negative ones by a small slope.

y = x if x > 0 else slope * x        slope 0 is ReLU; y(kx) = k*y(x) for k > 0

Maas et al. 2013, Rectifier Nonlinearities Improve Neural Network Acoustic Models, ICML.
"""

from typing import Any

from ablate.components.declare import Node, Sizes, component, fixed, implements, number
from ablate.components.elementwise import Elementwise


@component("leaky_relu", slots=("activation",), source="Maas et al. 2013, ICML", shorthand="slope", version=1)
class Config(Elementwise):
    """`slope` multiplies negative inputs."""

    slope: float = number()
    kinks = (0.0,)

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        return Node("relu") if fixed(node["slope"]) == 0 else node

    def equation(self, x: str) -> str:
        return f"LeakyReLU({x}; {self.slope:g})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        return np.where(x > 0, x, self.slope * x), np.where(x > 0, 1.0, self.slope), np.zeros_like(x)


from functools import partial

from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class LeakyReLU(ElementwiseModule):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config, sizes)
        self.function = partial(nn.functional.leaky_relu, negative_slope=config.slope)
