"""GELU: weigh each input by the probability that a standard normal is below it.

y = x * (1 + erf(x / sqrt(2))) / 2        exact; its tanh approximation is `gelu_tanh`

Hendrycks & Gimpel 2016, arXiv:1606.08415, Eq. 1.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("gelu", slots=("activation",), source="Hendrycks & Gimpel 2016, arXiv:1606.08415", version=1)
class Config(Elementwise):
    """Nothing to choose."""

    symbol = "GELU"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        import numpy as np
        from scipy.special import ndtr

        below, density = ndtr(x), np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        return x * below, below + x * density, (2 - x**2) * density


from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class GELU(ElementwiseModule):
    """GELU as a module."""

    function = staticmethod(nn.functional.gelu)
