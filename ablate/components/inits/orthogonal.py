"""Orthogonal: a uniformly random orthogonal matrix, scaled so that the mean square of entries is preserved.

W = gain * max(sqrt(d_out / d_in), 1) * U        U Haar: UᵀU = I where d_out >= d_in, else UUᵀ = I

Saxe et al. 2014, arXiv:1312.6120; the factor: "scale-corrected uniform orthogonal", Martens et al. 2021,
arXiv:2110.01765; uniformity by the signs of R's diagonal: Mezzadri 2007, arXiv:math-ph/0609050, Sec. 5.
"""

from typing import ClassVar

from ablate.components.declare import Cost, Node, Signal, Sizes, arithmetic, component, fixed, implements


@component("orthogonal", slots=("init",), source="Saxe et al. 2014, arXiv:1312.6120", shorthand="gain", version=1)
class Config:
    """`gain` is the root mean square of the output for inputs of mean square 1."""

    by_shape: ClassVar[bool] = True

    gain: float = arithmetic()

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        return Node("zero") if fixed(node["gain"]) == 0 else node

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """gain² Σ, as a matrix of independent entries of the same mean square."""
        largest = abs(self.gain) * max((d_out / d_in) ** 0.5, 1.0)
        return x.through_weights(self.gain**2, self.gain**2 * d_out / d_in, largest, orthogonal=True)


import math

import torch
from torch import Tensor


@implements(Config)
class Orthogonal:
    def __init__(self, config: Config, sizes: Sizes):
        self.gain = config.gain

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        long, short = max(d_in, d_out), min(d_in, d_out)
        gaussian = torch.empty(long, short, dtype=tensor.dtype).normal_(generator=generator)
        q, r = torch.linalg.qr(gaussian)
        q = q * torch.where(r.diagonal() < 0, -1.0, 1.0)  # else it would not be uniform
        scale = self.gain * max(math.sqrt(d_out / d_in), 1.0)
        tensor.copy_(scale * (q if d_out >= d_in else q.T))
