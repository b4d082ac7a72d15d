"""GELU: weigh each input by the probability that a standard normal is below it.

y = x * (1 + erf(x / sqrt(2))) / 2        exact; its tanh approximation is `gelu_tanh`

Hendrycks & Gimpel 2016, arXiv:1606.08415, Eq. 1.
"""

from math import erfc, sqrt
from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise

FEW = 5000  # numbers that are quicker computed one by one than SciPy is loaded


@component("gelu", slots=("activation",), source="Hendrycks & Gimpel 2016, arXiv:1606.08415", version=1)
class Config(Elementwise):
    symbol = "GELU"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        below, density = _below(x), np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        return x * below, below + x * density, (2 - x**2) * density


def _below(x: Any) -> Any:
    """The probability that a standard normal is below x, to 1e-15; for few x without SciPy, which a plan would load."""
    import numpy as np

    if np.size(x) > FEW:
        from scipy.special import ndtr

        return ndtr(x)
    return np.asarray(np.frompyfunc(erfc, 1, 1)(np.asarray(x) / -sqrt(2)), dtype=np.float64) / 2


from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class GELU(ElementwiseModule):
    function = staticmethod(nn.functional.gelu)
