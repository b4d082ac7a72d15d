"""Padding: a query sees no token that only fills up its sequence.

    query i sees key j where j ≤ i and token_j ≠ padding, and its own key; without j ≤ i if not causal

    Vaswani et al. 2017, arXiv:1706.03762, Sec. 3.2.3: what is not to be seen is -∞ in the softmax

A query that is padding itself sees at least its own key, so that its softmax exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ablate.components.declare import Cost, Maker, Sizes, arithmetic, component, earlier, implements
from ablate.errors import InputError


@component("padding", slots=("mask",), source="Vaswani et al. 2017, arXiv:1706.03762", shorthand="token", version=1)
class Config:
    """`token` is the number of the token that fills up; `of` are the tokens."""

    leaks: ClassVar[bool] = False

    token: float = arithmetic(at_least=0.0, whole=True)
    of: Maker = earlier()

    def cost(self, sizes: Sizes) -> Cost:
        """Raise InputError for a token outside the vocabulary."""
        if self.token >= sizes.vocab_size:
            raise InputError(
                f"padding.token is {self.token:g}, but tokens are below {sizes.vocab_size}\n"
                "  = give the token that fills up sequences"
            )
        read: Cost = self.of("tokens")
        return read

    def propagate(self, sizes: Sizes) -> Any:
        raise InputError(
            "padding is not forecast: how much of a sequence is filled up depends on the text\n"
            "  = set mask: none, as for sequences that are full"
        )

    def equation(self) -> str:
        return f"j ≤ i and token_j ≠ {self.token:g}, or j = i"


from collections.abc import Hashable

from jaxtyping import Bool, Int
from torch import Tensor

from ablate.kernels.mask import MaskOfBatch


@dataclass(frozen=True, eq=False)
class PaddingMask(MaskOfBatch):
    """The keys that are `real`, of the past alone if `causal`; and each query's own."""

    real: Bool[Tensor, "B T"]
    causal: bool = True

    @property
    def batch(self) -> int:
        return len(self.real)

    def of_one(self) -> PaddingMask:
        """The mask of the sequence with the most padding."""
        most = int(self.real.sum(-1).argmin())
        return PaddingMask(self.real[most : most + 1], self.causal)

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        real = self.real[b, s]
        return (real & (s <= t) if self.causal else real) | (s == t)


def padding_mask(tokens: Int[Tensor, "B T"], store: dict[Hashable, Any], token: int, causal: bool) -> PaddingMask:
    return PaddingMask(tokens != token, causal, held=store)


@implements(Config)
class Padding:
    def __init__(self, config: Config, sizes: Sizes):
        self.read = config.of("tokens")
        self.token, self.causal = int(config.token), sizes.causal

    def mask(self) -> PaddingMask:
        """The mask of a pass, the same object in all layers."""
        mask: PaddingMask = self.read.once(padding_mask, self.token, self.causal)
        return mask
