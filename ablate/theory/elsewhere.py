"""Elsewhere: what a layer knows of the rest of its model, namely values that it reads and a profiling pass.

A stream between two layers that a later one reads is remembered: it stands behind the stream itself, as tokens of one
longer sequence (`signal/side_by_side.py`), so that what both have in common is known, and their gradients too. A value
inside of a layer, such as the values of its attention, is read as one whose relation to the stream is not known (its
transfer is NaN). It does not matter behind a fresh matrix of weights, which is where such values are read; where it
does, numbers are NaN, and the block is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ablate.block.arithmetic import ArithmeticProblem
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, ValueAddress, walk
from ablate.block.layers import at_layer
from ablate.block.sizes import Sizes
from ablate.block.value_addresses import ENCODER, IN, OUT, TOKENS, ValuePlace, values_named
from ablate.errors import InputError
from ablate.signal.finite_width import FORGOTTEN, Scatter
from ablate.signal.propagation import Array, Signal
from ablate.signal.side_by_side import stacked


@dataclass(frozen=True)
class ValuesRead:
    """The places that each layer of a model reads, by layer."""

    of_layer: Mapping[int, frozenset[ValuePlace]]

    @staticmethod
    def of_layers(blocks: Sequence[Block], sizes: Sizes, catalogue: Catalogue) -> ValuesRead:
        """Return those of the block of each layer; InputError for the address of a layer that has no number."""
        return ValuesRead({n: _read_in(block, sizes, n, catalogue) for n, block in enumerate(blocks, start=1)})

    @staticmethod
    def of_one(block: Block, sizes: Sizes, catalogue: Catalogue) -> ValuesRead:
        """Return those of a block in the layer of `sizes` alone, as if there were no others."""
        layer = sizes.layer or 1
        return ValuesRead({layer: _read_in(block, sizes, layer, catalogue)} if reads_values(block) else {})

    def remembered(self, layer: int) -> tuple[int, ...]:
        """Return after which layers (0: the embedding) streams stand beside the one that enters `layer`."""
        return tuple(sorted({k for at, k in self._streams if at >= layer and k < layer - 1}))

    def inside(self, layer: int) -> frozenset[str]:
        """Return the names of values inside of `layer` that some layer reads."""
        places = {place for read in self.of_layer.values() for place in read if place.layer == layer}
        return frozenset(place.name for place in places if place.name not in (IN, OUT))

    @cached_property
    def _streams(self) -> frozenset[tuple[int, int]]:
        """Each layer that reads a stream, and the layer behind which that stands."""
        read = [(layer, behind(place)) for layer, places in self.of_layer.items() for place in places]
        return frozenset((layer, k) for layer, k in read if k is not None)


def reads_values(block: Block) -> bool:
    """Return whether anything in a block reads a value that stands earlier."""
    return any(isinstance(value, ValueAddress) for node in walk(block) for _, value in node.fields)


def behind(place: ValuePlace) -> int | None:
    """Return the layer behind which a stream stands, 0 for the embedding; None for a place that is no stream.

    >>> behind(ValuePlace(1, "in")), behind(ValuePlace(1, "out")), behind(ValuePlace(1, "mlp"))
    (0, 1, None)
    """
    if place.layer is None or place.name not in (IN, OUT):
        return None
    return place.layer - (place.name == IN)


def _read_in(block: Block, sizes: Sizes, layer: int, catalogue: Catalogue) -> frozenset[ValuePlace]:
    scope = sizes.scope(layer)
    nodes = walk(at_layer(block, catalogue, scope))
    addresses = [value for node in nodes for _, value in node.fields if isinstance(value, ValueAddress)]
    return frozenset(place for address in addresses for place in places_of(address, scope))


def places_of(address: ValueAddress, scope: Mapping[str, float]) -> tuple[ValuePlace, ...]:
    """Return what an address names in the layer of `scope`; InputError for a layer that has no number."""
    try:
        return values_named(address, scope)
    except ArithmeticProblem as problem:
        raise InputError(f"{address.text} names no value: {problem}\n  = change the address") from None


class InsideValue:
    """A value inside of a layer: it stands, is read, and takes the gradients of its readers back with its own."""

    def __init__(self, address: str):
        self.address = address
        self.signal: Signal | None = None
        self._gradient: Array | None = None

    def stands(self, signal: Signal) -> Signal:
        """Keep the signal, and return it with a way back that takes what its readers left."""
        self.signal = signal

        def backward(gradient: Array) -> Array:
            left, self._gradient = self._gradient, None
            return signal.backward(gradient if left is None else gradient + left)

        return replace(signal, backward=backward)

    def read(self) -> Signal:
        """Return the signal for a reader, whose gradient waits here until that of the value itself goes back.

        Both are taken as independent, which they are behind fresh weights.
        """
        if self.signal is None:
            raise InputError(f"{self.address} is read before it stands\n  = read what stands earlier in the model")

        def backward(gradient: Array) -> Array:
            self._gradient = gradient if self._gradient is None else self._gradient + gradient
            return np.zeros(())

        unknown = np.full(len(self.signal.mean), np.nan)
        scatter = Scatter(follows=0.0, variance=self.signal.scatter.total(self.signal.kernel))
        return replace(self.signal, transfer=unknown, backward=backward, largest=None, scatter=scatter, attention=())

    def settle(self) -> None:
        """Raise InputError for a gradient that came after that of the value itself had gone back."""
        if self._gradient is not None:
            self._gradient = None
            raise InputError(
                f"{self.address} is read beside the path that it stands in, which a forecast does not follow\n"
                "  = read it behind the part that computes it"
            )


@dataclass
class Profile:
    """What components whose parameters start from data measure, in order; in the `first` pass they start without."""

    first: tuple[tuple[float, float], ...] | None = None
    seen: list[tuple[float, float]] = field(default_factory=list)

    @property
    def earlier(self) -> tuple[tuple[float, float], ...]:
        """What those before the next one measured in the first pass; nothing in that pass itself."""
        return () if self.first is None else self.first[: len(self.seen)]

    def again(self) -> Profile:
        """Return that of the next pass, in which they start from what was measured."""
        return Profile(tuple(self.seen))


@dataclass
class Elsewhere:
    """What a layer knows of its model: `read` values, a profile, and how likely two tokens are the same.

    This `repetition` is one number, or a matrix [T, T] off its diagonal; None where it is not known. `sampled` collects
    the names of components whose numbers are means of samples. `encoder` is what a decoder beside an encoder reads.
    """

    read: ValuesRead
    repetition: float | Array | None
    profile: Profile = field(default_factory=Profile)
    values: dict[ValuePlace, InsideValue] = field(default_factory=dict)
    sampled: set[str] = field(default_factory=set)
    encoder: InsideValue | None = None

    def again(self) -> Elsewhere:
        """Return that of a second pass, whose parameters start from what was measured in this one."""
        return Elsewhere(self.read, self.repetition, self.profile.again(), encoder=self.encoder)

    def inside(self, place: ValuePlace) -> InsideValue:
        """Return what holds the value at a place."""
        if place == ValuePlace(None, ENCODER) and self.encoder:
            return self.encoder
        return self.values.setdefault(place, InsideValue(place.address))

    def stands(self, place: ValuePlace) -> bool:
        """Return whether a value has been held at a place."""
        return place in self.values or (place == ValuePlace(None, ENCODER) and self.encoder is not None)

    def tokens(self, length: int, kinds: int) -> Signal:
        """Return tokens of so many kinds, one-hot: 1 for two that are the same; no gradient comes back from them."""
        if self.repetition is None:
            raise InputError(
                f"{TOKENS} are read, but how often two are the same is not known\n"
                "  = set the model's repetition, or forecast a space, whose text is measured"
            )
        kernel = np.where(np.eye(length, dtype=bool), 1.0, self.repetition)
        none = np.zeros(())
        return Signal(kernel, np.zeros(length), None, lambda gradient: none, width=kinds, scatter=FORGOTTEN)


@dataclass(frozen=True)
class ReadSignals:
    """The values that a field reads; `root` is the kernel of the root that they share with the stream, where known."""

    signals: tuple[Signal, ...]
    root: Array | None

    def added(self, x: Signal, own: float, gains: tuple[float, ...]) -> Signal:
        """Return own x + Σ gains · values."""
        read = [each.times(gain) for each, gain in zip(self.signals, gains, strict=True) if gain]
        terms = [*([x.times(own)] if own else []), *read]
        if not terms:
            return x.times(0.0)
        if len(terms) == 1:
            return terms[0]
        if self.root is None:
            return x.forked(lambda x: [*([x.times(own)] if own else []), *read])
        return stacked(terms, self.root).mixed(np.tile(np.eye(len(x.mean)), len(terms)))
