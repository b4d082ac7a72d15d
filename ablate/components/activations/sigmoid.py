"""Sigmoid: squeeze each input between 0 and 1.

y = 1 / (1 + exp(-x))        in a gated MLP, it is the GLU of Dauphin et al. 2017, arXiv:1612.08083

Rumelhart et al. 1986, Learning representations by back-propagating errors, Nature 323, Eq. 2.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("sigmoid", slots=("activation",), source="Rumelhart et al. 1986, Nature 323", version=1)
class Config(Elementwise):
    symbol = "σ"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        s = np.exp(-np.logaddexp(0, -x))
        return s, s * (1 - s), s * (1 - s) * (1 - 2 * s)


import torch

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class Sigmoid(ElementwiseModule):
    function = staticmethod(torch.sigmoid)
