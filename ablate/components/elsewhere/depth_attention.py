"""Depth attention: each token attends to its own streams of several depths, with a trained query for each layer.

    y = Σ_s p_s h_s,  p = softmax_s(w · RMSNorm(h_s))        over the values h_1 … h_N at `of`, for each token

w starts at 0, so that all depths weigh alike. In the paper h are the embedding and the outputs of the layers before
(`of: layers.*.out` of blocks without skips, and the embedding).

    Kimi Team 2026, Attention Residuals, arXiv:2603.15031.
"""

from ablate.block.sizes import ValueMaker
from ablate.components.declare import Cost, Signal, Sizes, component, earlier, implements, number


@component(
    "depth_attention",
    slots=("part",),
    modifier=True,
    source="Kimi Team 2026, arXiv:2603.15031",
    shorthand="of",
    version=1,
)
class Config:
    """`of` is the address of the values; `eps` is added inside the root of RMSNorm."""

    of: ValueMaker = earlier(several=True)
    eps: float = number(at_least=0.0)

    def cost(self, sizes: Sizes) -> Cost:
        """Work for each token and depth is no product of matrices."""
        read: Cost = self.of(sizes.d_model)
        return read + Cost(parameters=sizes.d_model)

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """Σ of the mean of all values: w starts at 0."""
        shares = (1 / self.of.count,) * self.of.count
        y: Signal = self.of(sizes.d_model).added(x, 0.0, shares)
        return y

    def equation(self, x: str) -> str:
        return f"Σ_s p_s h_s over h = {self.of()}, p = softmax_s(w · RMSNorm(h_s))"


import torch
from jaxtyping import Float
from torch import Tensor, nn


@implements(Config)
class DepthAttention(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.read = config.of(sizes.d_model)
        self.eps = config.eps
        self.query = nn.Parameter(torch.zeros(sizes.d_model))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        values: Float[Tensor, "N B T D"] = torch.stack(self.read())
        wide = values.to(torch.promote_types(values.dtype, torch.float32))
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        shares = torch.softmax((normed * self.query.to(wide.dtype)).sum(-1), dim=0)
        return (shares[..., None] * wide).sum(0).to(x.dtype)
