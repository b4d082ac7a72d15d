"""Frozen: a matrix that is drawn once and never trained.

y = x W_0ᵀ        W_0 is [d_out, d_in], a buffer, with the numbers of a `dense` weight of its init and address

He & Hofmann 2024, arXiv:2311.01906, Eq. 6 at β = 0.
"""

from ablate.components.declare import Cost, Draw, Maker, Signal, Sizes, component, implements, part


@component("frozen", slots=("weight",), source="He & Hofmann 2024, arXiv:2311.01906", shorthand="init", version=1)
class Config:
    """`init` fills the matrix: `frozen: orthogonal`."""

    init: Maker = part("init")

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        """One product per token, without parameters and without a gradient of the matrix."""
        product = 2 * sizes.seq_len * d_in * d_out
        cost: Cost = self.init() + Cost(flops=product, spared=product)
        return cost

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        out: Signal = self.init(x, d_in, d_out)
        return out

    def equation(self, x: str, w: str) -> str:
        return f"{x} {w.replace('W', 'W₀', 1)}"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Frozen(nn.Module):
    weight: Tensor

    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        self.d_in, self.d_out = d_in, d_out
        self.init = config.init()
        self.register_buffer("weight", torch.zeros(d_out, d_in))

    def initialise(self, draw: Draw) -> None:
        draw.weight("weight", self.weight, self.init, d_in=self.d_in, d_out=self.d_out)

    def forward(self, x: Float[Tensor, "*rest I"]) -> Float[Tensor, "*rest O"]:
        return nn.functional.linear(x, self.weight)
