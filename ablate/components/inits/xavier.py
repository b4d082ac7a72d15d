"""Xavier: variance from the mean of fan-in and fan-out, a compromise between preserving signal and gradient.

    Var W_ij = gain² * 2 / (d_in + d_out)        normal: N(0, Var); uniform: U(-a, a), a = gain sqrt(6 / (d_in + d_out))

With `per_head` the fan-out is that of one head, d_out / heads, as if each head had its own projection matrices.

    Glorot & Bengio 2010, Understanding the difficulty of training deep feedforward neural networks, Eq. 12 and 16.
    DS-Init is the uniform one at gain 1/sqrt(layer): Zhang et al. 2019, arXiv:1908.11365, Sec. 4. DeepNorm's is the
    normal one at gain (8 depth)^(-1/4): Wang et al. 2022, arXiv:2203.00555, Fig. 2.
"""

from ablate.components.declare import Cost, Node, Signal, Sizes, arithmetic, component, fixed, flag, implements, word


@component("xavier", slots=("init",), source="Glorot & Bengio 2010", shorthand="gain", version=1)
class Config:
    """`gain` multiplies the standard deviation, `distribution` is that of an entry."""

    gain: float = arithmetic(at_least=0.0)
    distribution: str = word("uniform", "normal")
    per_head: bool = flag()

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """Per head or not is the same for a single head."""
        if fixed(node["gain"]) == 0:
            return Node("zero")
        return node.replace({"per_head": False}) if sizes.n_heads == 1 else node

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def propagate(self, x: Signal, sizes: Sizes, d_in: int, d_out: int) -> Signal:
        """d_in Var W_ij Σ."""
        variance = self.gain**2 * 2 / (d_in + (d_out // sizes.n_heads if self.per_head else d_out))
        return x.through_weights(d_in * variance, d_out * variance)


import math

import torch
from torch import Tensor


@implements(Config)
class Xavier:
    def __init__(self, config: Config, sizes: Sizes):
        self.gain, self.uniform = config.gain, config.distribution == "uniform"
        self.heads = sizes.n_heads if config.per_head else 1
        self.of_keys = (sizes.key_width, sizes.kv_heads) if config.per_head and sizes.kv_heads else None

    def fill(self, tensor: Tensor, d_in: int, d_out: int, generator: torch.Generator) -> None:
        heads = self.of_keys[1] if self.of_keys and d_out == self.of_keys[0] else self.heads
        std = self.gain * math.sqrt(2 / (d_in + d_out / heads))
        if self.uniform:
            tensor.uniform_(-math.sqrt(3) * std, math.sqrt(3) * std, generator=generator)
        else:
            tensor.normal_(0.0, std, generator=generator)
