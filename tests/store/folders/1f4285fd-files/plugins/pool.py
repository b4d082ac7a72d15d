"""Pool: each token reads the mean of the tokens before it and itself, through one matrix."""

from ablate.components.declare import Cost, Sizes, component, implements


@component("pool", slots=("part",), role="attention", source="this README")
class Config:
    """No fields."""

    def cost(self, sizes: Sizes) -> Cost:
        return Cost(parameters=sizes.d_model * (sizes.d_model + 1), flops=2 * sizes.seq_len * sizes.d_model**2)


import torch
from torch import nn


@implements(Config)
class Pool(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.read = nn.Linear(sizes.d_model, sizes.d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)[:, None]
        return self.read(x.cumsum(1) / seen)
