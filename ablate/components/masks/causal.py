"""Causal: a query sees its own key and those before it, also in a model whose attention sees everything.

query i sees key j where j ≤ i        the model's own mask, in a causal model

Vaswani et al. 2017, arXiv:1706.03762, Sec. 3.2.3.
"""

from typing import Any, ClassVar

from ablate.components.declare import Cost, Sizes, component, implements


@component("causal", slots=("mask",), source="Vaswani et al. 2017, arXiv:1706.03762", version=1)
class Config:
    leaks: ClassVar[bool] = False

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, sizes: Sizes) -> Any:
        import numpy as np

        places = np.arange(sizes.seq_len)
        return places[None, :] <= places[:, None]

    def equation(self) -> str:
        return "j ≤ i"


from ablate.kernels.mask import PastMask


@implements(Config)
class Causal:
    def __init__(self, config: Config, sizes: Sizes):
        self.mask = PastMask()
