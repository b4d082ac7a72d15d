"""Tanh: squeeze each input between -1 and 1.

y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))        odd; y = 2σ(2x) - 1, with σ the sigmoid

LeCun et al. 1998, Efficient BackProp, Sec. 4.4.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("tanh", slots=("activation",), source="LeCun et al. 1998, Efficient BackProp", version=1)
class Config(Elementwise):
    symbol = "tanh"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        t = np.tanh(x)
        return t, 1 - t**2, -2 * t * (1 - t**2)


import torch

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class Tanh(ElementwiseModule):
    function = staticmethod(torch.tanh)
