"""The module that activations without parameters share: `elementwise.py` is their declaration, without torch."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from ablate.block.sizes import Sizes


class ElementwiseModule(nn.Module):
    """Each activation gives its `function` f."""

    function: Callable[[Tensor], Tensor]

    def __init__(self, config: object, sizes: Sizes):
        super().__init__()

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.function(x)
