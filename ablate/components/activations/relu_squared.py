"""Squared ReLU: the square of positive inputs, and 0 for negative ones.

y = max(x, 0)²        y' = 2 max(x, 0); y(kx) = k² y(x) for k > 0

So et al. 2021, Primer, arXiv:2109.08668.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("relu_squared", slots=("activation",), source="So et al. 2021, arXiv:2109.08668", version=1)
class Config(Elementwise):
    bends = (0.0,)

    def equation(self, x: str) -> str:
        return f"ReLU({x})²"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        positive = np.where(x > 0, x, 0.0)
        return positive**2, 2 * positive, np.where(x > 0, 2.0, 0.0)


from torch import Tensor, nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class ReLUSquared(ElementwiseModule):
    @staticmethod
    def function(x: Tensor) -> Tensor:
        return nn.functional.relu(x).square()
