"""From the values of a node to the values of a component's Config, whether costs or modules are made of them.

The walk over declared fields is written once, here. Numbers, flags and words are passed on; arithmetic and widths
become numbers at the sizes of the model; gains, slots and sequences become *makers*, which the caller provides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from ablate.block.arithmetic import ArithmeticProblem, Expression, number_text
from ablate.block.catalogue import (
    Arithmetic,
    Bounded,
    Branches,
    ComponentSpec,
    FieldType,
    GainField,
    Number,
    Part,
    Parts,
    Sequenced,
    ValueField,
    Width,
    Word,
)
from ablate.block.expression import Gain, Node, Path, Sequence, Size, ValueAddress
from ablate.block.network import BLOCK, OwnNetwork
from ablate.block.sizes import Sizes
from ablate.errors import InputError

Maker: TypeAlias = Callable[..., Any]
"""Makes the thing in a slot: a Cost when costs are computed, a module when a model is built."""


@dataclass(frozen=True, slots=True)
class PartMaker:
    """The maker of one component: calls `make` with the widths of the slot.

    `config` is the Config of the component, for a component around it that needs to know it: an activation whose
    shaping numbers are solved from the curve of another.
    """

    config: Any
    make: Callable[..., Any]

    def __call__(self, *widths: Any) -> Any:
        """Make the thing in the slot."""
        return self.make(*widths)


@dataclass(frozen=True, slots=True)
class ValueMaker:
    """The maker of what reads values that stand earlier: `count` of them, where a field takes several.

    It is called with the width that the values must have, "tokens" for the numbers of the tokens. `name` is the address
    as it is written.
    """

    count: int
    make: Callable[..., Any]
    name: str = ""

    def __call__(self, *width: int | str) -> Any:
        """Make what reads them."""
        return self.make(*width)


@runtime_checkable
class GainMaker(Protocol):
    """Makes a gain for a number of channels; `value` is its fixed number, None if it is trained."""

    @property
    def value(self) -> float | None:
        """The fixed number, or None."""

    def __call__(self, width: int) -> Any:
        """Make the gain for a signal of `width` channels (or heads, if it has one number per head)."""


@runtime_checkable
class Makers(Protocol):
    """Makers for the three kinds of field that hold more than a number."""

    def part(self, node: Node, path: Path) -> Maker:
        """Return a maker for the component at `path` of the block, to be called with the widths of its slot."""

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        """Return a maker for a gain that is fixed at, or starts at, `value`."""

    def earlier(self, address: ValueAddress, path: Path) -> ValueMaker:
        """Return a maker for the values that the field at `path` reads, to be called with the width they must have."""

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        """Return a maker for the sequence at `path` of the block, to be called without widths."""


def _no_network() -> OwnNetwork:
    raise InputError(
        "an activation outside the layers is solved for the network of a block, but it is in none\n"
        "  = give it a network of its own: network: stack"
    )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The place of a node: the sizes of the model, seen from its layer; as text, `in layer 2 of 6`.

    `network` makes the network of the model's blocks, for what is solved for it (`own_network.py`).
    """

    sizes: Sizes
    network: Callable[[], OwnNetwork] = _no_network

    def number(self, expression: Expression, where: str) -> float:
        """Return the value of arithmetic here; InputError if it has none."""
        try:
            if expression.constant is not None:
                return expression.constant
            scope = self.sizes.scope(self.sizes.layer or 0)
            if self.sizes.layer is None:
                del scope["layer"]
            return expression.at(scope)
        except ArithmeticProblem as problem:
            raise InputError(
                f"{where} is {expression.text}, which has no value {self}: {problem}\n"
                "  = change the expression or the sizes of the model"
            ) from None

    def bounded(self, expression: Expression, kind: Bounded, where: str) -> float:
        """Return the value of arithmetic here; InputError if it has none within the bounds."""
        value = self.number(expression, where)

        def message() -> str:
            sized = "" if expression.constant is not None else f", which is {number_text(value)} {self}"
            return f"{where} is {expression.text}{sized}"

        return within(value, kind, message)

    def width(self, size: Size, where: str) -> int:
        """Return the width in units; InputError if a multiple of the model's width is not whole and at least 1."""
        units, width = size.at(self.sizes.d_model), self.sizes.d_model
        if units < 1 or units.denominator > 1:
            parts = size.ratio.denominator
            wider = f", or a width that is a multiple of {parts}" if 1 < parts <= width else ""
            raise InputError(
                f"{where} is {size.ratio if isinstance(size.multiple, Fraction) else f'{size.multiple:g}'} times the "
                f"model's width of {width}, which makes {float(units):g}: not a whole number of units\n"
                f"  = give the number of units itself, such as {max(1, floor(units + Fraction(1, 2)))}{wider}"
            )
        return int(units)

    def __str__(self) -> str:
        """Return the place in words, for messages."""
        layer = self.sizes.layer
        return "outside the layers" if layer is None else f"in layer {layer} of {self.sizes.n_layers}"


S = TypeVar("S", bound=Surroundings)


def inside(node: Node, spec: ComponentSpec, surroundings: S) -> S:
    """Return the surroundings that a component and what is inside it have: with the sizes that it sets for itself.

    Sizes are set in the order in which they are declared, each seen by those after it. Raises InputError as `bounded`.
    """
    for field, kind in spec.sizes_set:
        value = node[field]
        if isinstance(value, Expression):
            size = int(surroundings.bounded(value, kind, f"{node.name}.{field}"))
            sizes = replace(surroundings.sizes, **{kind.sets: size})  # type: ignore[arg-type]
            surroundings = replace(surroundings, sizes=sizes)
    return surroundings


def refuse_pattern(spec: ComponentSpec) -> None:
    """Raise InputError for a pattern over layers: in a layer, its alternative stands in its place (`layers.py`)."""
    if spec.chooses is not None:
        raise InputError(f"{spec.name} is used outside the layers\n  = give a single component there")


def within(value: float, kind: Bounded, message: Callable[[], str]) -> float:
    """Return the value if it is within the bounds; otherwise raise an InputError that starts with `message`."""
    expected = kind.expected(value)
    if expected is not None:
        raise InputError(f"{message()}\n  = give {expected}")
    return value


def field_values(
    node: Node, spec: ComponentSpec, surroundings: Surroundings, makers: Makers, path: Path = ()
) -> dict[str, Any]:
    """Return a value for each field that `spec` declares, ready for its Config: `spec.config(**field_values(...))`.

    `surroundings` are those inside the node, `path` is its place in the block. Raises InputError if arithmetic or a
    width has no value, or if a number is out of its bounds.
    """

    refuse_pattern(spec)

    def filled(field: str, kind: FieldType) -> Any:
        return _filled(node[field], kind, f"{node.name}.{field}", surroundings, makers, (*path, field))

    return {field: filled(field, kind) for field, kind in spec.fields.items()}


def _filled(value: Any, kind: FieldType, where: str, surroundings: Surroundings, makers: Makers, path: Path) -> Any:
    match kind, value:
        case Number(), int() | float():
            return within(value, kind, lambda: f"{where} is {number_text(value)}")
        case Arithmetic(optional=True), None:
            return None
        case Arithmetic(sets=size), Expression() if size:
            return getattr(surroundings.sizes, size)
        case Arithmetic(), Expression():
            return surroundings.bounded(value, kind, where)
        case Word(stack=fields), str() if fields:
            return surroundings.network() if value == BLOCK else None
        case GainField(), Gain():
            return makers.gain(surroundings.number(value.value, where), trainable=value.trainable, per=value.per)
        case Width(), Size():
            return surroundings.width(value, where)
        case ValueField(optional=True), None:
            return None
        case ValueField(), ValueAddress():
            return makers.earlier(value, path)
        case Part(), None:
            return None
        case Part(), Node():
            return makers.part(value, path)
        case Part(several=True), tuple():
            return tuple((node.name, makers.part(node, (*path, node.name))) for node in value)
        case Parts(), tuple():
            return tuple((node.name, makers.part(node, (*path, node.name))) for node in value)
        case Sequenced(), Sequence():
            return makers.sequence(value, path)
        case Branches(), tuple():
            return tuple(makers.sequence(branch, (*path, index)) for index, branch in enumerate(value))
        case ((Arithmetic() | GainField() | Width() | ValueField() | Part() | Parts() | Sequenced() | Branches()), _):
            raise TypeError(f"{where} holds {value!r}, which is no {type(kind).__name__}")
    return value
