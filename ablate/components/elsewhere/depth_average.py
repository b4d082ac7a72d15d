"""Depth average: a trained weighted sum of streams of several depths.

    y = Σ_s w_s h_s        over the values h_1 … h_N at `of`; w starts at 0, but for the last, which starts at 1

With `of: layers.*.in` at the start of a block, the last is the stream itself, the others are what entered the blocks
before: DenseFormer's averages after each block, each read by the next block. It starts as the identity.

    Pagliardini et al. 2024, DenseFormer, arXiv:2402.02622 (period and dilation 1).
"""

from ablate.block.sizes import ValueMaker
from ablate.components.declare import Cost, Signal, Sizes, component, earlier, implements


@component(
    "depth_average",
    slots=("part",),
    modifier=True,
    source="Pagliardini et al. 2024, arXiv:2402.02622",
    shorthand="of",
    version=1,
)
class Config:
    """`of` is the address of the values."""

    of: ValueMaker = earlier(several=True)

    def cost(self, sizes: Sizes) -> Cost:
        read: Cost = self.of(sizes.d_model)
        return read + Cost(parameters=self.of.count)

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """Σ of the last value: w starts at 0 for the others."""
        y: Signal = self.of(sizes.d_model).added(x, 0.0, (*[0.0] * (self.of.count - 1), 1.0))
        return y

    def equation(self, x: str) -> str:
        return f"Σ_s w_s h_s over h = {self.of()}"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class DepthAverage(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.read = config.of(sizes.d_model)
        start = torch.zeros(config.of.count)
        start[-1] = 1
        self.factor = nn.Parameter(start)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        values: Float[Tensor, "N B T D"] = torch.stack(self.read())
        return (self.factor.to(x.dtype)[:, None, None, None] * values).sum(0)
