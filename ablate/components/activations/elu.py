"""ELU: keep positive inputs, and let negative ones approach -alpha.

y = x if x > 0 else alpha * (exp(x) - 1)        its slope jumps at 0 unless alpha is 1

Clevert et al. 2015, arXiv:1511.07289.
"""

from typing import Any

from ablate.components.declare import Sizes, component, implements, number
from ablate.components.elementwise import Elementwise


@component("elu", slots=("activation",), source="Clevert et al. 2015, arXiv:1511.07289", shorthand="alpha", version=1)
class Config(Elementwise):
    """`alpha` is the size of the limit of y for very negative inputs, and the slope on the left of 0."""

    alpha: float = number(above=0.0)

    @property
    def kinks(self) -> tuple[float, ...]:
        """f' jumps at 0, from alpha to 1."""
        return () if self.alpha == 1 else (0.0,)

    @property
    def bends(self) -> tuple[float, ...]:
        return (0.0,) if self.alpha == 1 else ()

    def equation(self, x: str) -> str:
        return f"ELU({x}; {self.alpha:g})"

    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        import numpy as np

        negative = np.minimum(x, 0.0)  # exp overflows for large x, where its value is not used
        decay = self.alpha * np.exp(negative)
        f = np.where(x > 0, x, self.alpha * np.expm1(negative))
        return f, np.where(x > 0, 1.0, decay), np.where(x > 0, 0.0, decay)


from functools import partial

from torch import nn

from ablate.components.elementwise_module import ElementwiseModule


@implements(Config)
class ELU(ElementwiseModule):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__(config, sizes)
        self.function = partial(nn.functional.elu, alpha=config.alpha)
