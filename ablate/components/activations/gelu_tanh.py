"""GELU by tanh: the approximation that GPT-2 was trained with.

y = x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x³))) / 2

Hendrycks & Gimpel 2016, arXiv:1606.08415, Sec. 2.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("gelu_tanh", slots=("activation",), source="Hendrycks & Gimpel 2016, arXiv:1606.08415", version=1)
class Config(Elementwise):
    symbol = "GELU_tanh"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        root = np.sqrt(2 / np.pi)
        t = np.tanh(root * (x + 0.044715 * x**3))
        inner, bend = root * (1 + 0.134145 * x**2), root * 0.26829 * x
        dt = (1 - t**2) * inner
        ddt = (1 - t**2) * bend - 2 * t * dt * inner
        return x * (1 + t) / 2, (1 + t + x * dt) / 2, dt + x * ddt / 2


from functools import partial

from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class GELUTanh(ElementwiseModule):
    function = staticmethod(partial(nn.functional.gelu, approximate="tanh"))
