"""A block as a map of signals: each component says what it does to a token kernel, and its makers give signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from ablate.block.address import address_at, names_of
from ablate.block.catalogue import Catalogue, ComponentSpec
from ablate.block.config_values import GainMaker, Maker, PartMaker, Surroundings, ValueMaker, field_values, inside
from ablate.block.expression import Block, Node, Path, Sequence, ValueAddress, walk
from ablate.block.layers import at_layer
from ablate.block.own_network import own_network
from ablate.block.sizes import Sizes
from ablate.block.user_code import reporting_errors
from ablate.block.value_addresses import TOKENS, ValuePlace
from ablate.errors import InputError
from ablate.signal.propagation import Array, Signal
from ablate.signal.side_by_side import part_of, stacked
from ablate.theory.elsewhere import Elsewhere, InsideValue, ReadSignals, ValuesRead, behind, places_of


def through_block(
    block: Block, x: Signal, sizes: Sizes, init: Node, catalogue: Catalogue, elsewhere: Elsewhere | None = None
) -> Signal:
    """Return the signal behind a block in the layer of `sizes`; `init` fills the weights that name none.

    `elsewhere` is what the layer knows of its model; a block alone reads what stands in itself, and no other layer.
    Where later layers read streams, those that are remembered stand behind `x` as more tokens, also in what is
    returned: [T, T] of its kernel are the stream's own, the first ones. `x` is a root.

    Raises InputError for a component that does not say what it does to a token kernel.
    """
    assert sizes.layer is not None, "a block stands in a layer"
    layer, length = sizes.layer, sizes.seq_len
    network = partial(own_network, block, sizes, catalogue)
    block = at_layer(block, catalogue, sizes.scope(layer))
    beside = () if elsewhere is None else elsewhere.read.remembered(layer)
    elsewhere = elsewhere or Elsewhere(ValuesRead.of_one(block, sizes, catalogue), sizes.repetition)
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
    """Return the signal behind a block as a function of that in front of it and its layer: `through_block`, made once.

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
    """Return whether some component of a block has parameters that start from data."""
    return any(hasattr(catalogue[node.name].config, "measure_signal") for node in walk(block))


def own_part(kernel: Array, length: int) -> Array:
    """Return the kernel of a stream itself, without what is remembered beside it."""
    return kernel[:length, :length]


@dataclass(frozen=True, slots=True)
class _Here:
    """The layer at hand: the `streams` it may read by what they stand behind, of one `root`, and the names of parts."""

    elsewhere: Elsewhere
    streams: Mapping[int, Signal]
    root: Array
    names: Mapping[Path, str]
    sizes: Sizes
    unknown: list[str] = field(default_factory=list)

    @property
    def layer(self) -> int:
        """The number of the layer."""
        return self.sizes.layer or 0

    def value_at(self, path: Path) -> InsideValue | None:
        """Return what holds the value that the part or weight at a path gives, if some layer reads it."""
        if not (read := self.elsewhere.read.inside(self.layer)):
            return None
        name = address_at(path, self.names)
        return None if name is None or name not in read else self.elsewhere.inside(ValuePlace(self.layer, name))

    def signals(self, address: ValueAddress, path: Path, sizes: Sizes) -> ReadSignals:
        """Return the signals of what the field at a path reads."""
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
    """Return the signal behind a component that stands outside the blocks, such as the final norm."""
    return _Signals(catalogue, Surroundings(sizes), init).part(node, ())(x, *widths)  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Layer:
    """The layer at hand of a block that is made once for all layers: the `sizes` of the model, seen from it."""

    sizes: Sizes

    def seen_from(self, own: Sizes) -> Callable[[], Sizes]:
        """Return what gives a component its own sizes, seen from the layer at hand; made once a layer."""
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
    """Makers of signals: called with one, they give what is behind the component.

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

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
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
    """Return what a component does, where its value may be read and its parameters may start from data."""

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
    """Return what a component does to a signal, at `sizes()`; of what acts beside signals (a bias), what it is.

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
    """Return `y`, what a component gives of `x`; what reads it further on takes its kernel and means for those of x."""
    if not isinstance(y, Signal):
        raise TypeError(f"it gives {_kind(y)}, which is not a Signal")
    tokens = len(x.kernel)
    if np.shape(y.kernel) != (tokens, tokens) or np.shape(y.mean) != (tokens,):
        raise ValueError(
            f"it gives a Signal with a kernel {_shape(y.kernel)} and means {_shape(y.mean)} for one of {tokens} tokens"
        )
    return y


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _shape(values: Any) -> str:
    return f"[{', '.join(map(str, np.shape(values)))}]"
