"""Softmax: values are mixed by plain softmax attention.

y = A v        A the softmax of the scores, row by row

Vaswani et al. 2017, arXiv:1706.03762, Eq. 1.
"""

from typing import ClassVar

from ablate.components.declare import Cost, Mixing, Sizes, component, implements


@component("softmax", slots=("matrix",), source="Vaswani et al. 2017, arXiv:1706.03762", version=1)
class Config:
    takes_source: ClassVar[bool] = True

    def cost(self, sizes: Sizes, width: int) -> Cost:
        return Cost()

    def propagate(self, sizes: Sizes) -> Mixing:
        return Mixing()

    def equation(self, a: str) -> str:
        return a


from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Softmax(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int):
        super().__init__()

    def forward(
        self,
        attend: Callable[[Tensor, Tensor, Tensor], Tensor],
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H T K"],
        v: Float[Tensor, "B H T K"],
    ) -> Float[Tensor, "B H T K"]:
        return attend(q, k, v)
