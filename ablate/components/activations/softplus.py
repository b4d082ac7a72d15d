"""Softplus: a smooth ReLU, without its kink.

y = log(1 + exp(x))        its slope is the sigmoid of x

Dugas et al. 2000, Incorporating Second-Order Functional Knowledge for Better Option Pricing, NIPS.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("softplus", slots=("activation",), source="Dugas et al. 2000, NIPS", version=1)
class Config(Elementwise):
    symbol = "softplus"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        s = np.exp(-np.logaddexp(0, -x))
        return np.logaddexp(0, x), s, s * (1 - s)


from functools import partial

from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class Softplus(ElementwiseModule):
    # Above its threshold torch returns x itself: exact in float64 from 40 on, but not at torch's default of 20.
    function = staticmethod(partial(nn.functional.softplus, threshold=40.0))
