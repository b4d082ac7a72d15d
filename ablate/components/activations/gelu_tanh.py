"""GELU by tanh: the approximation that GPT-2 was trained with.

    y = x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x³))) / 2

    Hendrycks & Gimpel 2016, arXiv:1606.08415, Sec. 2.

It acts elementwise, on any shape.
"""

from ablate.components.declare import Cost, Sizes, component, implements


@component("gelu_tanh", slots=("activation",), source="Hendrycks & Gimpel 2016, arXiv:1606.08415")
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing to train, no products."""
        return Cost()


from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class GELUTanh(nn.Module):
    """The activation as a module."""

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """[*shape] -> [*shape]."""
        return nn.functional.gelu(x, approximate="tanh")
