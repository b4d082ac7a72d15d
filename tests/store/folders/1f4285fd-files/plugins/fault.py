"""Fault: a part that ends its trial in one of four ways."""

from ablate.components.declare import Cost, Sizes, component, implements, word


@component("fault", slots=("part",), role="mlp", source="a fixture")
class Config:
    """`how` says in which way."""

    how: str = word("raise", "exit", "sleep", "lack")

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()


import os
import time

import torch
from torch import nn


@implements(Config)
class Fault(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.how = config.how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            if self.how == "raise":
                raise ValueError("this part is not finished")
            if self.how == "lack":
                raise MemoryError("no memory for this part")
            if self.how == "exit":
                os._exit(1)
            time.sleep(5)
        return x
