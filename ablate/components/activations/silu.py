"""SiLU: weigh each input by its own sigmoid.

    y = x / (1 + exp(-x))        gated, it is the SwiGLU of arXiv:2002.05202

    Elfwing et al. 2017, arXiv:1702.03118; as Swish: Ramachandran et al. 2017, arXiv:1710.05941.

It acts elementwise, on any shape.
"""

from typing import Any

from ablate.components.declare import Cost, Sizes, component, implements


@component("silu", slots=("activation",), source="Elfwing et al. 2017, arXiv:1702.03118", version=1)
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()

    def equation(self, x: str) -> str:
        """The activation of x."""
        return f"SiLU({x})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x."""
        import numpy as np

        s = np.exp(-np.logaddexp(0, -x))
        ds = s * (1 - s)
        return x * s, s + x * ds, ds * (2 + x * (1 - 2 * s))


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class SiLU(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return nn.functional.silu(x)
