"""Spectral: a trained matrix divided by its spectral norm, times one learned scalar (σReparam of any linear layer).

    y = (γ / σ(W)) x Wᵀ + b        σ(W) the largest singular value of W; γ starts at 1, b at 0

σ is tracked by one power iteration per training pass (none in evaluation), from the singular vectors of the initial W.

    Zhai et al. 2023, arXiv:2303.06296, Sec. 3.2, which does this to every linear layer; power iteration: Miyato et al.
    2018, arXiv:1802.05957.
"""

from ablate.components.declare import Cost, Draw, Maker, Signal, Sizes, arithmetic, component, flag, implements, part
from ablate.errors import InputError


@component("spectral", slots=("weight",), source="Zhai et al. 2023, arXiv:2303.06296", version=1)
class Config:
    """`bias` trains the shift b; `init` fills W (none: the model's own init); `rate` multiplies the rate of W alone."""

    bias: bool = flag()
    init: Maker | None = part("init", optional=True)
    rate: float = arithmetic(at_least=0.0)

    def cost(self, sizes: Sizes, d_in: int, d_out: int) -> Cost:
        """Of power iterations Wᵀ u needs no gradient, W v only that of W: 6·O·I of 12·O·I training FLOPs are spared."""
        inside: Cost = self.init() if self.init else Cost()
        area = d_in * d_out
        products = 2 * sizes.seq_len * area + 4 * area
        return inside + Cost(parameters=area + 1 + d_out * self.bias, flops=products, spared=6 * area)

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """Σ behind its init, divided by σ(W)², as γ starts at 1."""
        assert self.init is not None, "the model's own stands in for it"
        out: Signal = self.init(x, d_in, d_out)
        return out.by_spectral_norm()

    def equation(self, x: str, w: str) -> str:
        return f"(γ / σ({w})) {x} {w}{' + b' if self.bias else ''}"


import torch
from jaxtyping import Float
from torch import Tensor, nn

from ablate.kernels.spectral import SpectralNorm


@implements(Config)
class Spectral(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, d_in: int, d_out: int):
        super().__init__()
        self.d_in, self.d_out = d_in, d_out
        self.init = config.init() if config.init else None
        self.rates = {"weight": config.rate}
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        self.gamma = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(d_out)) if config.bias else None
        self.sigma = SpectralNorm(d_in, d_out)

    def initialise(self, draw: Draw) -> None:
        """Raise InputError for a matrix of zeros, which has no direction."""
        draw.weight("weight", self.weight, self.init, d_in=self.d_in, d_out=self.d_out)
        if self.sigma.start(self.weight) == 0:
            raise InputError(
                "spectral: the matrix starts at 0, and cannot be divided by its norm\n"
                "  = give it an init that is not zero, or choose dense"
            )

    def forward(self, x: Float[Tensor, "*rest I"]) -> Float[Tensor, "*rest O"]:
        scale = (self.gamma / self.sigma(self.weight)).to(self.weight.dtype)
        return nn.functional.linear(x, scale * self.weight, self.bias)
