"""Masks: which keys each query sees, as a rule on places; and padding, keys that no query of one sequence sees.

FlexAttention asks the rule about pairs, and needs no [T, S]. The other backends get one table [1, 1, T, S] for all
heads and, where sizes determine it, for all sequences, layers and models: a cached constant, as those of biases are. A
rule that follows from the tokens has a table [B, 1, T, S] in each pass, which the layers share.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVarTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# Constants of attention, computed once per process and shared by all layers and models that need the same ones.

CONSTANTS = 2  # cached constants of each kind: one for training sequences, one for evaluation sequences

Ts = TypeVarTuple("Ts")


def cached_constant(make: Callable[[*Ts], Tensor]) -> Callable[[*Ts], Tensor]:
    """Cache `make`: computed once for the same arguments, then returned as a view, which `masked` never overwrites.

    Its arguments must be hashable and include all that the numbers depend on, such as device and dtype.
    """
    return _cached(make, CONSTANTS)


def cached_constants(tables: int) -> Callable[[Callable[[*Ts], Tensor]], Callable[[*Ts], Tensor]]:
    """`cached_constant`, of which the last `tables` constants are held."""
    return lambda make: _cached(make, tables)


def _cached(make: Callable[[*Ts], Tensor], tables: int) -> Callable[[*Ts], Tensor]:
    @functools.lru_cache(maxsize=tables)
    def once(*args: *Ts) -> Tensor:
        # A tensor made in inference mode could never be saved for a backward pass.
        with torch.inference_mode(False):
            return make(*args)

    @functools.wraps(make)
    def shared(*args: *Ts) -> Tensor:
        # While a graph is traced there are no numbers to cache: the graph computes its own.
        table = make(*args) if torch.compiler.is_compiling() else once(*args)
        return table[...]

    return shared


TABLES = 8  # cached tables: the masks of several layers, each for training and evaluation sequences

MaskKind: TypeAlias = Literal["none", "shared", "batch"]  # a mask over queries and keys only, or over the batch too


@dataclass(frozen=True)
class Mask(ABC):
    """The rule by which a query sees keys: at least one, its own. Equal masks are one rule, and share tables.

    A mask that varies over the batch (`MaskOfBatch`) has a `batch`, its number of sequences, and a `store` for tables
    that are made from it.
    """

    @property
    def batch(self) -> int | None:
        """The number of sequences that the rule tells apart; None for a rule of places alone."""
        return None

    @property
    def store(self) -> dict[Hashable, Any] | None:
        """Tables for all layers of a pass, by mask and use; None for a rule of places alone."""
        return None

    def of_one(self) -> Mask:
        """The rule of one sequence of the batch, on which backends are tried (`gate.py`)."""
        return self

    @abstractmethod
    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        """True where, in sequence `b`, the query at place `t` sees the key at place `s`, for tensors of places."""

    def rows(self, first: int, last: int, n_keys: int, device: torch.device | str = "cpu") -> Bool[Tensor, "#B 1 T S"]:
        """The rule as a table for the queries `first` up to `last`: True where a key is seen."""
        b = torch.arange(self.batch or 1, device=device)[:, None, None, None]
        t = torch.arange(first, last, device=device)[:, None]
        s = torch.arange(n_keys, device=device)
        return self.sees(b, t, s).expand(len(b), 1, last - first, n_keys)


@dataclass(frozen=True)
class PastMask(Mask):
    """The causal mask: s ≤ t."""

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        return s <= t


@dataclass(frozen=True)
class Everything(Mask):
    """No mask: every query sees every key."""

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        return s >= 0


@dataclass(frozen=True, eq=False)
class MaskOfBatch(Mask):
    """A mask that varies over the batch: equal to itself alone. Whoever gives it a store empties it after the pass."""

    held: dict[Hashable, Any] = field(default_factory=dict, kw_only=True, repr=False)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def store(self) -> dict[Hashable, Any]:
        return self.held


@dataclass(frozen=True)
class AllOf(Mask):
    """The keys that every one of several masks shows."""

    masks: tuple[Mask, ...]

    @property
    def batch(self) -> int | None:
        return next((mask.batch for mask in self.masks if mask.batch is not None), None)

    @property
    def store(self) -> dict[Hashable, Any] | None:
        return next((mask.store for mask in self.masks if mask.store is not None), None)

    def of_one(self) -> Mask:
        return self if self.batch is None else AllOf(tuple(mask.of_one() for mask in self.masks))

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        first, *others = (mask.sees(b, t, s) for mask in self.masks)
        for other in others:
            first = first & other
        return first


MaskSource: TypeAlias = Mask | Callable[[], Mask]  # a mask, or a function that gives that of the pass that runs


def current(source: MaskSource | None) -> Mask | None:
    return source if source is None or isinstance(source, Mask) else source()


@dataclass(frozen=True)
class AllOfPass:
    """Several masks together, of which some are other masks in each pass."""

    sources: tuple[MaskSource, ...]

    def __call__(self) -> Mask:
        """Equal, with one store, in all layers that have the same masks."""
        return AllOf(tuple(source if isinstance(source, Mask) else source() for source in self.sources))


def all_of(sources: tuple[MaskSource, ...]) -> MaskSource | None:
    if len(sources) < 2:
        return sources[0] if sources else None
    masks = tuple(source for source in sources if isinstance(source, Mask))
    return AllOf(masks) if len(masks) == len(sources) else AllOfPass(sources)


def held_by(mask: Mask, key: Hashable, make: Callable[[], Any]) -> Any:
    """`make()` of a mask of a batch, made once; anew while a graph is traced, which has no numbers yet."""
    if torch.compiler.is_compiling():
        return make()
    assert mask.store is not None
    if (mask, key) not in mask.store:
        with torch.inference_mode(False):  # else it could never be saved for a backward pass
            mask.store[mask, key] = make()
    return mask.store[mask, key]


def named(mask: Mask | None, *, causal: bool) -> tuple[Mask | None, bool]:
    """The mask, and `causal`, as backends take them: no mask where it is one that all of them know by name."""
    if isinstance(mask, PastMask | Everything):
        return None, isinstance(mask, PastMask)
    return mask, causal and mask is None


def kind_of_mask(mask: Mask | None) -> MaskKind:
    if mask is None:
        return "none"
    return "shared" if mask.batch is None else "batch"


@dataclass(frozen=True, slots=True)
class SeenPairs:
    """`keys`, True where a query sees a key, and `blind`, True for a query whose keys are all padding.

    In `keys` a blind query sees everything, so that its softmax is finite; its result is then replaced, and passes no
    gradient on. Without padding no query is blind: None.
    """

    keys: Bool[Tensor, "#B 1 T S"]
    blind: Bool[Tensor, "B 1 T 1"] | None = None

    def zeroed(self, y: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """Set blind queries to 0."""
        return y if self.blind is None else y.masked_fill(self.blind, 0.0)

    def filled(self, numbers: Float[Tensor, "B H T"], empty: float) -> Float[Tensor, "B H T"]:
        """One number for each query, `empty` for blind queries."""
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
    """The pairs of `n_queries` queries from `first` on; None if `causal` alone says it."""
    if mask is None and padding is None:
        return None
    rule = mask or (PastMask() if causal else Everything())
    keys = table(rule, n_queries, n_keys, device) if first == 0 else rule.rows(first, first + n_queries, n_keys, device)
    if padding is None:
        return SeenPairs(keys)
    keys = keys & padding[:, None, None, :]
    blind = ~keys.any(-1, keepdim=True)
    return SeenPairs(keys | blind, blind)


def hiding(pairs: SeenPairs, dtype: torch.dtype) -> Float[Tensor, "#B 1 T S"]:
    """0 where a key is seen, -∞ where it is not, to be added to scores."""
    return torch.zeros((), dtype=dtype, device=pairs.keys.device).where(pairs.keys, -torch.inf)


def table(mask: Mask, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "#B 1 T S"]:
    """The mask as a table, made once for all that ask for it."""
    if mask.batch is None:
        return _table(mask, n_queries, n_keys, device)
    key = ("table", n_queries, n_keys, device)
    rows: Tensor = held_by(mask, key, lambda: mask.rows(0, n_queries, n_keys, device))
    return rows


def added_table(
    mask: Mask, n_queries: int, n_keys: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "#B 1 T S"]:
    """The same as numbers added to scores: one for all layers, which all save the same for a backward pass."""
    if mask.batch is None:
        return _added_table(mask, n_queries, n_keys, device, dtype)

    def made() -> Tensor:
        return hiding(SeenPairs(mask.rows(0, n_queries, n_keys, device)), dtype)

    added: Tensor = held_by(mask, ("added", n_queries, n_keys, device, dtype), made)
    return added


@cached_constants(TABLES)
def _table(mask: Mask, n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    return mask.rows(0, n_queries, n_keys, device)


@cached_constants(TABLES)
def _added_table(mask: Mask, n_queries: int, n_keys: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    return hiding(SeenPairs(_table(mask, n_queries, n_keys, device)), dtype)
