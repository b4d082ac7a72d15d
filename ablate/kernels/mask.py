"""Masks: which keys each query sees, as a rule on places; and padding, keys that no query of one sequence sees.

A rule is asked about pairs, so FlexAttention needs no [T, S]. The other backends get the rule as one table [1, 1, T, S]
for all heads and, where sizes determine it, for all sequences, layers and models.

Dimension key: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ablate.kernels.kept import keeping

TABLES = 8
"""Cached tables: the masks of several layers, each for training and evaluation sequences."""

MaskKind: TypeAlias = Literal["none", "shared", "batch"]
"""What a mask varies over: queries and keys only, or the batch too."""


@dataclass(frozen=True)
class Mask(ABC):
    """Which keys a query sees: at least one, its own. Equal masks are one rule, and share what follows from it.

    A mask that varies over the batch has a `batch`, its number of sequences, and is equal to itself alone.
    """

    @property
    def batch(self) -> int | None:
        """The number of sequences that the rule tells apart; None for a rule of places alone."""
        return None

    @abstractmethod
    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        """Return whether, in sequence `b`, the query at place `t` sees the key at place `s`, for tensors of places."""

    def rows(self, first: int, last: int, n_keys: int, device: torch.device | str = "cpu") -> Bool[Tensor, "#B 1 T S"]:
        """Return the rule as a table for the queries `first` up to `last`: True where a key is seen."""
        b = torch.arange(self.batch or 1, device=device)[:, None, None, None]
        t = torch.arange(first, last, device=device)[:, None]
        s = torch.arange(n_keys, device=device)
        return self.sees(b, t, s).expand(len(b), 1, last - first, n_keys)


@dataclass(frozen=True)
class PastMask(Mask):
    """The causal mask: s ≤ t."""

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        """Return s ≤ t."""
        return s <= t


@dataclass(frozen=True)
class Everything(Mask):
    """No mask: every query sees every key."""

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        """Return True."""
        return s >= 0


def named(mask: Mask | None, *, causal: bool) -> tuple[Mask | None, bool]:
    """Return the mask, and `causal`, as backends take them: no mask where it is one that all of them know by name."""
    if isinstance(mask, PastMask | Everything):
        return None, isinstance(mask, PastMask)
    return mask, causal and mask is None


def kind_of_mask(mask: Mask | None) -> MaskKind:
    """Return what the mask varies over."""
    if mask is None:
        return "none"
    return "shared" if mask.batch is None else "batch"


@dataclass(frozen=True, slots=True)
class SeenPairs:
    """What queries see: `keys`, True where a key is seen, and `blind`, True for a query whose keys are all padding.

    In `keys` a blind query sees everything, so that its softmax is finite; its result is then replaced, and passes no
    gradient on. Without padding no query is blind: None.
    """

    keys: Bool[Tensor, "#B 1 T S"]
    blind: Bool[Tensor, "B 1 T 1"] | None = None

    def zeroed(self, y: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """Return y, 0 for blind queries."""
        return y if self.blind is None else y.masked_fill(self.blind, 0.0)

    def filled(self, numbers: Float[Tensor, "B H T"], empty: float) -> Float[Tensor, "B H T"]:
        """Return one number for each query, `empty` for blind queries."""
        return numbers if self.blind is None else numbers.masked_fill(self.blind[..., 0], empty)


def seen_pairs(
    mask: Mask | None,
    padding: Bool[Tensor, "B S"] | None,
    *,
    causal: bool,
    n_queries: int,
    n_keys: int,
    device: torch.device,
    first: int = 0,
) -> SeenPairs | None:
    """Return what `n_queries` queries from `first` on see; None if `causal` alone says it."""
    if mask is None and padding is None:
        return None
    rule = mask or (PastMask() if causal else Everything())
    if first == 0 and rule.batch is None:
        keys = table(rule, n_queries, n_keys, device)
    else:
        keys = rule.rows(first, first + n_queries, n_keys, device)
    if padding is None:
        return SeenPairs(keys)
    keys = keys & padding[:, None, None, :]
    blind = ~keys.any(-1, keepdim=True)
    return SeenPairs(keys | blind, blind)


def hiding(pairs: SeenPairs, dtype: torch.dtype) -> Float[Tensor, "#B 1 T S"]:
    """Return what is added to scores to hide what is not seen: 0 or -∞."""
    return torch.zeros((), dtype=dtype, device=pairs.keys.device).where(pairs.keys, -torch.inf)


@keeping(TABLES)
def table(mask: Mask, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 T S"]:
    """Return the table of a mask of places alone."""
    return mask.rows(0, n_queries, n_keys, device)


@keeping(TABLES)
def added_table(
    mask: Mask, n_queries: int, n_keys: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "1 1 T S"]:
    """Return the same as what is added to scores: one for all layers, which all save the same for a backward pass."""
    return hiding(SeenPairs(table(mask, n_queries, n_keys, device)), dtype)
