"""A block as a map of signals: its makers give signals, by the effect of each component on a token kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ablate.block.address import ENCODER, IN, OUT, TOKENS, ValuePlace, address_at, names_of, values_named
from ablate.block.arithmetic import ArithmeticProblem
from ablate.block.catalogue import Catalogue, ComponentSpec, reporting_errors
from ablate.block.expression import Block, Node, Path, ValueAddress, walk
from ablate.block.expression import Sequence as BlockSequence
from ablate.block.layers import at_layer
from ablate.block.network import own_network
from ablate.block.sizes import GainMaker, Maker, PartMaker, Sizes, Surroundings, ValueMaker, field_values, inside
from ablate.errors import InputError
from ablate.signal.finite_width import FORGOTTEN, Scatter
from ablate.signal.propagation import Array, Signal, part_of, stacked

# Elsewhere: what a layer knows of the rest of its model, namely values that it reads and a profiling pass.
#
# A stream between two layers that a later one reads stands behind the stream itself, as tokens of one longer sequence
# (`signal/propagation.py`), so that what both have in common is known, and their gradients too. A value inside of a
# layer, such as its attention's values, is read without a known relation to the stream (its transfer is NaN). Behind a
# fresh matrix of weights, where such values are read, it does not matter; where it does, numbers are NaN, and the block
# is refused.


@dataclass(frozen=True)
class PlacesRead:
    """The places that each layer of a model reads, by layer."""

    of_layer: Mapping[int, frozenset[ValuePlace]]

    @staticmethod
    def of_layers(blocks: Sequence[Block], sizes: Sizes, catalogue: Catalogue) -> PlacesRead:
        """Those of the block of each layer; InputError for the address of a layer that has no number."""
        return PlacesRead({n: _read_in(block, sizes, n, catalogue) for n, block in enumerate(blocks, start=1)})

    @staticmethod
    def of_one(block: Block, sizes: Sizes, catalogue: Catalogue) -> PlacesRead:
        """Those of a block in the layer of `sizes` alone, as if there were no others."""
        layer = sizes.layer or 1
        return PlacesRead({layer: _read_in(block, sizes, layer, catalogue)} if reads_values(block) else {})

    def remembered(self, layer: int) -> tuple[int, ...]:
        """The layers (0: the embedding) behind which streams stand beside the one that enters `layer`."""
        return tuple(sorted({k for at, k in self._streams if at >= layer and k < layer - 1}))

    def inside(self, layer: int) -> frozenset[str]:
        """The names of values inside of `layer` that some layer reads."""
        places = {place for read in self.of_layer.values() for place in read if place.layer == layer}
        return frozenset(place.name for place in places if place.name not in (IN, OUT))

    @cached_property
    def _streams(self) -> frozenset[tuple[int, int]]:
        """Each layer that reads a stream, and the layer behind which that stands."""
        read = [(layer, behind(place)) for layer, places in self.of_layer.items() for place in places]
        return frozenset((layer, k) for layer, k in read if k is not None)


def reads_values(block: Block) -> bool:
    """True if anything in a block reads a value that stands earlier."""
    return any(isinstance(value, ValueAddress) for node in walk(block) for _, value in node.fields)


def behind(place: ValuePlace) -> int | None:
    """The layer behind which a stream stands, 0 for the embedding; None for a place that is no stream.

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
    """The places of an address in the layer of `scope`; InputError for a layer that has no number."""
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
        """Keep the signal, and return it with a way back that takes the gradients of its readers."""
        self.signal = signal

        def backward(gradient: Array) -> Array:
            left, self._gradient = self._gradient, None
            return signal.backward(gradient if left is None else gradient + left)

        return replace(signal, backward=backward)

    def read(self) -> Signal:
        """The signal for a reader, whose gradient waits here until that of the value itself goes back.

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
    """The measurements of components whose parameters start from data, in order; in the `first` pass there is none."""

    first: tuple[tuple[float, float], ...] | None = None
    seen: list[tuple[float, float]] = field(default_factory=list)

    @property
    def earlier(self) -> tuple[tuple[float, float], ...]:
        """The measurements of those before the next one in the first pass; none in that pass itself."""
        return () if self.first is None else self.first[: len(self.seen)]

    def again(self) -> Profile:
        """The profile of the next pass, in which they start from the measurements."""
        return Profile(tuple(self.seen))


@dataclass
class Elsewhere:
    """A layer's knowledge of its model: `read` values, a profile, and the chance that two tokens are the same.

    This `repetition` is one number, or a matrix [T, T] off its diagonal; None where it is not known. `sampled` collects
    the names of components whose numbers are means of samples. `encoder` is what a decoder beside an encoder reads.
    """

    read: PlacesRead
    repetition: float | Array | None
    profile: Profile = field(default_factory=Profile)
    values: dict[ValuePlace, InsideValue] = field(default_factory=dict)
    sampled: set[str] = field(default_factory=set)
    encoder: InsideValue | None = None

    def again(self) -> Elsewhere:
        """That of a second pass, whose parameters start from the measurements of this one."""
        return Elsewhere(self.read, self.repetition, self.profile.again(), encoder=self.encoder)

    def inside(self, place: ValuePlace) -> InsideValue:
        if place == ValuePlace(None, ENCODER) and self.encoder:
            return self.encoder
        return self.values.setdefault(place, InsideValue(place.address))

    def stands(self, place: ValuePlace) -> bool:
        return place in self.values or (place == ValuePlace(None, ENCODER) and self.encoder is not None)

    def tokens(self, length: int, kinds: int) -> Signal:
        """Tokens of so many kinds, one-hot: 1 for two that are the same; no gradient comes back from them."""
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
        """Own x + Σ gains · values."""
        read = [each.times(gain) for each, gain in zip(self.signals, gains, strict=True) if gain]
        terms = [*([x.times(own)] if own else []), *read]
        if not terms:
            return x.times(0.0)
        if len(terms) == 1:
            return terms[0]
        if self.root is None:
            return x.forked(lambda x: [*([x.times(own)] if own else []), *read])
        return stacked(terms, self.root).mixed(np.tile(np.eye(len(x.mean)), len(terms)))


def through_block(
    block: Block, x: Signal, sizes: Sizes, init: Node, catalogue: Catalogue, elsewhere: Elsewhere | None = None
) -> Signal:
    """The signal behind a block in the layer of `sizes`; `init` fills the weights that name none. `x` is a root.

    `elsewhere` is the layer's knowledge of its model; a block alone reads its own values, and no other layer. Streams
    that later layers read stand behind `x` as more tokens, also in the result: the first [T, T] of its kernel are the
    stream's own. Raises InputError for a component without a `propagate`.
    """
    assert sizes.layer is not None, "a block stands in a layer"
    layer, length = sizes.layer, sizes.seq_len
    network = partial(own_network, block, sizes, catalogue)
    block = at_layer(block, catalogue, sizes.scope(layer))
    beside = () if elsewhere is None else elsewhere.read.remembered(layer)
    elsewhere = elsewhere or Elsewhere(PlacesRead.of_one(block, sizes, catalogue), sizes.repetition)
    kept = (layer - 1, *beside)
    streams = {k: part_of(x, place, length) if len(kept) > 1 else x for place, k in enumerate(kept)}
    here = _Here(elsewhere, streams, x.kernel, dict(names_of(block, catalogue)), sizes)
    y: Signal = _Signals(catalogue, Surroundings(sizes, network), init, here).sequence(block, ())(streams[layer - 1])
    written = [elsewhere.inside(ValuePlace(layer, name)) for name in elsewhere.read.inside(layer)]
    _check_known(y, here)
    y = replace(y, backward=_settling(y, written))
    later = elsewhere.read.remembered(layer + 1)
    return stacked((y, *(streams[k] for k in later)), x.kernel) if later else y


def in_all_layers(
    block: Block, sizes: Sizes, init: Node, catalogue: Catalogue, elsewhere: Elsewhere
) -> Callable[[Signal, int], Signal]:
    """`through_block`, made once, as a function of the signal in front and the layer.

    It is for a block whose fields have the same values in all layers, and that reads none from elsewhere. Components
    are told the layer that they are in as they are by `through_block`.
    """
    first = sizes.at(1)
    at, network = _Layer(first), partial(own_network, block, sizes, catalogue)
    here = _Here(elsewhere, {}, np.empty((0, 0)), dict(names_of(block, catalogue)), first)
    made = _Signals(catalogue, Surroundings(first, network), init, here, at).sequence(block, ())

    def through(x: Signal, layer: int) -> Signal:
        at.sizes = sizes.at(layer)
        y: Signal = made(x)
        return y

    return through


def profiles(block: Block, catalogue: Catalogue) -> bool:
    """True if some component of a block has parameters that start from data."""
    return any(hasattr(catalogue[node.name].config, "measure_signal") for node in walk(block))


def own_part(kernel: Array, length: int) -> Array:
    """The kernel of a stream itself, without those remembered beside it."""
    return kernel[:length, :length]


@dataclass(frozen=True, slots=True)
class _Here:
    """The layer at hand: the `streams` it may read, by the layer they are behind, of one `root`, and names of parts."""

    elsewhere: Elsewhere
    streams: Mapping[int, Signal]
    root: Array
    names: Mapping[Path, str]
    sizes: Sizes
    unknown: list[str] = field(default_factory=list)

    @property
    def layer(self) -> int:
        return self.sizes.layer or 0

    def value_at(self, path: Path) -> InsideValue | None:
        """The value of the part or weight at a path, if some layer reads it."""
        if not (read := self.elsewhere.read.inside(self.layer)):
            return None
        name = address_at(path, self.names)
        return None if name is None or name not in read else self.elsewhere.inside(ValuePlace(self.layer, name))

    def signals(self, address: ValueAddress, path: Path, sizes: Sizes) -> ReadSignals:
        """The signals that the field at a path reads."""
        places = places_of(address, sizes.scope(self.layer))
        if places == (ValuePlace(None, TOKENS),):
            return ReadSignals((self.elsewhere.tokens(sizes.seq_len, sizes.vocab_size),), None)
        at_top = not any(isinstance(step, str) for step in path[:-1])
        ends = [behind(place) for place in places]
        if all(end is not None and end in self.streams for end in ends):
            signals = tuple(self.streams[end] for end in ends if end is not None)
            if at_top:
                return ReadSignals(signals, self.root)
            self._refuse(address, "a stream inside of a branch", "read it in front of the branch, where the block is")
        for place in places:
            if not self.elsewhere.stands(place):
                alone = "before the layers" if place.layer is None else f"in layer {place.layer}"
                self._refuse(address, f"what stands {alone}", "read a stream or a part of an earlier layer")
        self.unknown.append(address.text)
        return ReadSignals(tuple(self.elsewhere.inside(place).read() for place in places), None)

    @staticmethod
    def _refuse(address: ValueAddress, what: str, way_out: str) -> None:
        raise InputError(f"a forecast does not follow {what}, {address.text}\n  = {way_out}")


def _check_known(y: Signal, here: _Here) -> None:
    """Raise InputError where a value from elsewhere meets the stream without a fresh weight between them."""
    known = not np.isnan(y.kernel).any() and (y.transfer is None or not np.isnan(y.transfer).any())
    if here.unknown and not known:
        raise InputError(
            f"a forecast follows {here.unknown[0]} only to where fresh random weights are, but here it is added as it "
            "is to what it may have in common with it\n  = read a stream (layers.first.in), or give the weight behind "
            "it a random init"
        )


def _settling(y: Signal, written: list[InsideValue]) -> Callable[[Array], Array]:
    def backward(gradient: Array) -> Array:
        arrived = y.backward(gradient)
        for value in written:
            value.settle()
        return arrived

    return backward


def through_part(node: Node, x: Signal, sizes: Sizes, init: Node, catalogue: Catalogue, *widths: int) -> Signal:
    """The signal behind a component that stands outside the blocks, such as the final norm."""
    behind: Signal = _Signals(catalogue, Surroundings(sizes), init).part(node, ())(x, *widths)
    return behind


@dataclass(slots=True)
class _Layer:
    """The layer at hand of a block that is made once for all layers: the `sizes` of the model, seen from it."""

    sizes: Sizes

    def seen_from(self, own: Sizes) -> Callable[[], Sizes]:
        """A function for a component's own sizes, seen from the layer at hand; made once a layer."""
        if own == self.sizes:
            return lambda: self.sizes
        seen = own

        def here() -> Sizes:
            nonlocal seen
            if seen.layer != self.sizes.layer:
                seen = own.at(self.sizes.layer)
            return seen

        return here


@dataclass(frozen=True, slots=True)
class _StartingGain:
    """A gain that gives the number it starts from; `value` is None where it is trained."""

    value: float | None
    start: float

    def __call__(self, width: int) -> float:
        return self.start


@dataclass(frozen=True, slots=True)
class _Signals:
    """Makers of signals: called with one, they give the signal behind the component.

    `at` is the layer at hand of a block that is made once for all layers; else it is that of the `surroundings`.
    """

    catalogue: Catalogue
    surroundings: Surroundings
    init: Node
    here: _Here | None = None
    at: _Layer | None = None

    def part(self, node: Node, path: Path) -> Maker:
        spec = self.catalogue[node.name]
        here = inside(node, spec, self.surroundings)
        makers = replace(self, surroundings=here)
        values = field_values(node, spec, here, makers, path)
        values |= {name: makers.part(self.init, ()) for name in spec.own_inits if values[name] is None}
        with reporting_errors(spec, "its values"):
            config: Any = spec.config(**values)
        propagate = _propagating(spec, config, self.at.seen_from(here.sizes) if self.at else lambda: here.sizes)
        return PartMaker(
            config, propagate if self.here is None else _standing(propagate, spec, config, self.here, path)
        )

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        return _StartingGain(None if trainable else value, value)

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        here, sizes = self.here, self.surroundings.sizes
        if here is None:
            raise InputError(
                f"a part outside the layers reads no value of theirs, {address.text}\n  = read it in a block"
            )
        count = len(places_of(address, sizes.scope(here.layer)))
        return ValueMaker(count, lambda *_: here.signals(address, path, sizes), address.text)

    def sequence(self, sequence: BlockSequence, path: Path) -> Maker:
        @cache
        def made(index: int) -> Maker:
            return self.part(sequence.parts[index], (*path, index))

        def applied(x: Signal) -> Signal:
            for index in range(len(sequence.parts)):
                x = made(index)(x)
            return x

        return applied


def _standing(
    propagate: Callable[..., Any], spec: ComponentSpec, config: Any, here: _Here, path: Path
) -> Callable[..., Any]:
    """The component's function, where its value may be read and its parameters may start from data."""

    def standing(*given: Any) -> Any:
        more: tuple[Any, ...] = ()
        if getattr(config, "sampled", False):
            here.elsewhere.sampled.add(spec.name)
        if given and hasattr(config, "measure_signal"):
            profile = here.elsewhere.profile
            more = (profile.earlier,)
            with reporting_errors(spec, "measure_signal"):
                profile.seen.append(config.measure_signal(given[0], here.sizes))
        y = propagate(*given, *more)
        value = here.value_at(path) if isinstance(y, Signal) else None
        return y if value is None else value.stands(y)

    return standing


def _propagating(spec: ComponentSpec, config: Any, sizes: Callable[[], Sizes]) -> Callable[..., Any]:
    """The component's function of a signal, at `sizes()`; of what acts beside signals (a bias), its own value.

    Raises InputError where a user's component fails in it, or gives of a signal anything but one of as many tokens.
    """

    def propagate(*given: Any) -> Any:
        if not hasattr(config, "propagate"):
            raise InputError(
                f"{spec.name} does not say what it does to a token kernel\n"
                f"  = forecast the block without it, or give its Config a method propagate: `ablate docs component`"
            )
        with reporting_errors(spec, "propagate"):
            if given and isinstance(given[0], Signal):
                return _of_as_many_tokens(given[0], config.propagate(given[0], sizes(), *given[1:]))
            return config.propagate(*given)

    return propagate


def _of_as_many_tokens(x: Signal, y: object) -> Signal:
    """`y`, which a component gives of `x`; a later reader takes its kernel and means for those of x."""
    if not isinstance(y, Signal):
        kind = "None" if y is None else f"a value of type {type(y).__name__}"
        raise TypeError(f"it gives {kind}, which is not a Signal")
    tokens = len(x.kernel)
    if np.shape(y.kernel) != (tokens, tokens) or np.shape(y.mean) != (tokens,):
        raise ValueError(
            f"it gives a Signal with a kernel {_shape(y.kernel)} and means {_shape(y.mean)} for one of {tokens} tokens"
        )
    return y


def _shape(values: Any) -> str:
    return f"[{', '.join(map(str, np.shape(values)))}]"
