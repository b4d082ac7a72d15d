"""Prefix: a query sees the keys before it and its own, and all keys of the first tokens, as in a prefix LM.

    query i sees key j where j ≤ i or j < L        i, j = 0, 1, …

    Raffel et al. 2020, arXiv:1910.10683, Sec. 3.2.1 and Fig. 4.

In training on next tokens the model would see what it predicts, within the first L tokens.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from ablate.components.declare import Cost, Node, Sizes, component, fixed, implements, number


@component("prefix", slots=("mask",), source="Raffel et al. 2020, arXiv:1910.10683", shorthand="length", version=1)
class Config:
    """`length` is L, the tokens that every query sees."""

    leaks: ClassVar[bool] = True

    length: float = number(at_least=1.0, at_most=1e6, whole=True)

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """Full attention for a prefix of the whole context, the causal mask for one of a single token."""
        length = fixed(node["length"]) or 0
        if length >= sizes.seq_len:
            return Node("full")
        return Node("causal") if length == 1 else node

    def propagate(self, sizes: Sizes) -> Any:
        import numpy as np

        return np.tri(sizes.seq_len, dtype=bool) | (np.arange(sizes.seq_len) < self.length)

    def equation(self) -> str:
        return f"j ≤ i or j < {self.length:.0f}"


from jaxtyping import Bool, Int
from torch import Tensor

from ablate.kernels.mask import Mask


@dataclass(frozen=True)
class PrefixMask(Mask):
    """The past, and the first `length` keys."""

    length: int

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        return (s <= t) | (s < self.length)


@implements(Config)
class Prefix:
    def __init__(self, config: Config, sizes: Sizes):
        self.mask = PrefixMask(int(config.length))
