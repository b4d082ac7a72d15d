"""A block as a map of signals: each component says what it does to a token kernel, and its makers give signals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ablate.block.catalogue import Catalogue, ComponentSpec, Part
from ablate.block.config_values import GainMaker, Maker, PartMaker, Surroundings, ValueMaker, field_values, inside
from ablate.block.expression import Block, Node, Path, Sequence, ValueAddress
from ablate.block.layers import at_layer
from ablate.block.sizes import Sizes
from ablate.block.user_code import reporting_errors
from ablate.errors import InputError
from ablate.signal.propagation import Signal

WAY_OUT = "`ablate docs forecast` says what is forecast; a component of your own is, with propagate in its Config"


def through_block(block: Block, x: Signal, sizes: Sizes, init: Node, catalogue: Catalogue) -> Signal:
    """Return the signal behind a block in the layer of `sizes`; `init` fills the weights that name none.

    Raises InputError for a component that does not say what it does to a token kernel.
    """
    assert sizes.layer is not None, "a block stands in a layer"
    block = at_layer(block, catalogue, sizes.scope(sizes.layer))
    return _Signals(catalogue, Surroundings(sizes), init).sequence(block, ())(x)  # type: ignore[no-any-return]


def through_part(node: Node, x: Signal, sizes: Sizes, init: Node, catalogue: Catalogue, *widths: int) -> Signal:
    """Return the signal behind a component that stands outside the blocks, such as the final norm."""
    return _Signals(catalogue, Surroundings(sizes), init).part(node, ())(x, *widths)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _StartingGain:
    """A gain that gives the number it starts from; `value` is None where it is trained."""

    value: float | None
    start: float

    def __call__(self, width: int) -> float:
        return self.start


@dataclass(frozen=True, slots=True)
class _Signals:
    """Makers of signals: called with one, they give what is behind the component."""

    catalogue: Catalogue
    surroundings: Surroundings
    init: Node

    def part(self, node: Node, path: Path) -> Maker:
        spec = self.catalogue[node.name]
        here = inside(node, spec, self.surroundings)
        makers = replace(self, surroundings=here)
        values = field_values(node, spec, here, makers, path)
        values |= {name: makers.part(self.init, ()) for name in _without_init(spec, values)}
        with reporting_errors(spec, "its values"):
            config: Any = spec.config(**values)
        return PartMaker(config, _propagating(spec, config, here.sizes))

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        return _StartingGain(None if trainable else value, value)

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        def refuse(*_: Any) -> Any:
            raise InputError(f"a forecast does not follow values from elsewhere, {address.text}\n  = {WAY_OUT}")

        return ValueMaker(1, refuse, address.text)

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        def applied(x: Signal) -> Signal:
            for index, node in enumerate(sequence):
                x = self.part(node, (*path, index))(x)
            return x

        return applied


def _without_init(spec: ComponentSpec, values: dict[str, Any]) -> list[str]:
    """Return the field `init` if it may hold one and holds none, which stands for the model's own."""
    kind = spec.fields.get("init")
    return ["init"] if isinstance(kind, Part) and kind.slot == "init" and values["init"] is None else []


def _propagating(spec: ComponentSpec, config: Any, sizes: Sizes) -> Callable[..., Any]:
    """Return what a component does to a signal; of what acts beside signals (a matrix, a bias), what it is."""

    def propagate(*given: Any) -> Any:
        if not hasattr(config, "propagate"):
            raise InputError(f"{spec.name} does not say what it does to a token kernel\n  = {WAY_OUT}")
        with reporting_errors(spec, "propagate"):
            if given and isinstance(given[0], Signal):
                return config.propagate(given[0], sizes, *given[1:])
            return config.propagate(*given)

    return propagate
