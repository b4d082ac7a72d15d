"""ReLU: keep positive inputs, and set negative ones to 0.

y = max(x, 0)        y(kx) = k*y(x) for k > 0

Nair & Hinton 2010, Rectified Linear Units Improve Restricted Boltzmann Machines, ICML.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("relu", slots=("activation",), source="Nair & Hinton 2010, ICML", version=1)
class Config(Elementwise):
    symbol = "ReLU"
    kinks = (0.0,)

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        return np.where(x > 0, x, 0.0), np.where(x > 0, 1.0, 0.0), np.zeros_like(x)


from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class ReLU(ElementwiseModule):
    function = staticmethod(nn.functional.relu)
