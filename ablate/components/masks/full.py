"""Full: a query sees every key, those after it too, also in a causal model.

query i sees every key j        not for training on next tokens: the model would see what it predicts

Vaswani et al. 2017, arXiv:1706.03762, Sec. 3.2.3: attention in the encoder.
"""

from typing import Any, ClassVar

from ablate.components.declare import Cost, Sizes, component, implements


@component("full", slots=("mask",), source="Vaswani et al. 2017, arXiv:1706.03762", version=1)
class Config:
    leaks: ClassVar[bool] = True

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, sizes: Sizes) -> Any:
        import numpy as np

        return np.ones((sizes.seq_len, sizes.seq_len), dtype=bool)

    def equation(self) -> str:
        return "j is any key"


from ablate.kernels.mask import Everything


@implements(Config)
class Full:
    def __init__(self, config: Config, sizes: Sizes):
        self.mask = Everything()
