"""SELU: an ELU whose two numbers keep standard normal inputs at mean 0 and variance 1.

y = λ x if x > 0 else λ α (exp(x) - 1)        α = 1.6732632423543772, λ = 1.0507009873554805

Klambauer et al. 2017, arXiv:1706.02515, Eq. 2.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise

ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805
"""The solution of E[y(z)] = 0 and E[y(z)²] = 1 for standard normal z."""


@component("selu", slots=("activation",), source="Klambauer et al. 2017, arXiv:1706.02515", version=1)
class Config(Elementwise):
    symbol = "SELU"
    kinks = (0.0,)

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        negative = np.minimum(x, 0.0)  # exp overflows for large x, where its value is not used
        decay = SCALE * ALPHA * np.exp(negative)
        f = SCALE * np.where(x > 0, x, ALPHA * np.expm1(negative))
        return f, np.where(x > 0, SCALE, decay), np.where(x > 0, 0.0, decay)


from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class SELU(ElementwiseModule):
    function = staticmethod(nn.functional.selu)
