"""SiLU: weigh each input by its own sigmoid.

y = x / (1 + exp(-x))        gated, it is the SwiGLU of arXiv:2002.05202

Elfwing et al. 2017, arXiv:1702.03118; as Swish: Ramachandran et al. 2017, arXiv:1710.05941.
"""

from typing import Any

from ablate.components.declare import component, implements
from ablate.components.elementwise import Elementwise


@component("silu", slots=("activation",), source="Elfwing et al. 2017, arXiv:1702.03118", version=1)
class Config(Elementwise):
    symbol = "SiLU"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        s = np.exp(-np.logaddexp(0, -x))
        ds = s * (1 - s)
        return x * s, s + x * ds, ds * (2 + x * (1 - 2 * s))


from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class SiLU(ElementwiseModule):
    function = staticmethod(nn.functional.silu)
