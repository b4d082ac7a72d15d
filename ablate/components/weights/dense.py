"""Dense: a trained matrix, with or without a bias.

y = x Wᵀ + b        W is [d_out, d_in], as PyTorch stores it; b starts at 0

Vaswani et al. 2017, arXiv:1706.03762, Sec. 3.2.2 and 3.3.
"""

from ablate.components.declare import Cost, Draw, Maker, Signal, Sizes, arithmetic, component, flag, implements, part


@component("dense", slots=("weight",), source="Vaswani et al. 2017, arXiv:1706.03762", version=1)
class Config:
    """`bias` trains the shift b; `init` fills the matrix (none: the model's own init); `rate` multiplies its rate.

    The bias keeps the recipe's rate: in µP a hidden matrix learns at 1/width of it, a bias does not (Yang et al. 2022,
    arXiv:2203.03466, Table 8).
    """

    bias: bool = flag()
    init: Maker | None = part("init", optional=True)
    rate: float = arithmetic(at_least=0.0)

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        inside: Cost = self.init() if self.init else Cost()
        return inside + Cost(parameters=d_in * d_out + d_out * self.bias, flops=2 * sizes.seq_len * d_in * d_out)

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        assert self.init is not None, "the model's own stands in for it"
        out: Signal = self.init(x, d_in, d_out)
        return out

    def equation(self, x: str, w: str) -> str:
        return f"{x} {w} + b" if self.bias else f"{x} {w}"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class Dense(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        self.d_in, self.d_out = d_in, d_out
        self.init = config.init() if config.init else None
        self.rates = {"weight": config.rate}
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.zeros(d_out)) if config.bias else None

    def initialise(self, draw: Draw) -> None:
        draw.weight("weight", self.weight, self.init, d_in=self.d_in, d_out=self.d_out)

    def forward(self, x: Float[Tensor, "*rest I"]) -> Float[Tensor, "*rest O"]:
        return nn.functional.linear(x, self.weight, self.bias)
