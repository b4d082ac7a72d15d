"""A component that takes its time: LayerNorm that sleeps `seconds` each time it is used, and keeps the processor free.

y = (x − mean) / sqrt(var + eps)

Made for measuring what an executor costs: the ideal time of a trial is then known beforehand.
"""

from ablate.components.declare import Cost, Sizes, component, implements, number


@component("sleeping_norm", slots=("part", "norm"), role="norm", modifier=True, source="this benchmark")
class Config:
    """`seconds` of sleep for each use."""

    seconds: float = number(at_least=0.0)
    eps: float = number(at_least=0.0)

    def cost(self, sizes: Sizes, width: int | None = None) -> Cost:
        """Nothing is trained."""
        return Cost()


import time  # noqa: E402

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402


@implements(Config)
class SleepingNorm(nn.Module):
    """The norm over the last axis, late."""

    def __init__(self, config: Config, sizes: Sizes, width: int | None = None):
        super().__init__()
        self.seconds, self.eps = config.seconds, config.eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        time.sleep(self.seconds)
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + self.eps)
