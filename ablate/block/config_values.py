"""From the values of a node to the values of a component's Config, whatever is made of them: costs or modules.

The walk over declared fields is written once, here. Numbers, flags and words are taken as they are; arithmetic and
widths become numbers at the sizes of the model; gains, slots and sequences become *makers*, given by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ablate.block.address import Path
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
    Width,
)
from ablate.block.expression import Gain, Node, Sequence, Size
from ablate.block.sizes import Sizes
from ablate.errors import InputError

Maker: TypeAlias = Callable[..., Any]
"""Makes the thing in a slot: a Cost when costs are asked, a module when a model is built."""


@dataclass(frozen=True, slots=True)
class PartMaker:
    """The maker of one component: what `make` gives, called with the widths of the slot.

    `config` is what the component was declared with, for one that must know what it is given: an activation that is
    shaped by numbers solved from another's curve.
    """

    config: Any
    make: Callable[..., Any]

    def __call__(self, *widths: Any) -> Any:
        """The thing in the slot."""
        return self.make(*widths)


@runtime_checkable
class GainMaker(Protocol):
    """Makes a gain for a number of channels; `value` is its fixed number, None if it is trained."""

    @property
    def value(self) -> float | None:
        """The fixed number, or None."""

    def __call__(self, width: int) -> Any:
        """The gain, for a signal of `width` channels (or heads, where it is one number a head)."""


@runtime_checkable
class Makers(Protocol):
    """What is made of the three kinds of field that hold more than a number."""

    def part(self, node: Node, path: Path) -> Maker:
        """A maker for the component at `path` of the block, called with the widths that its slot has."""

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        """A maker for a gain that is, or starts at, `value`."""

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        """A maker for the sequence at `path` of the block, called without widths."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a node stands: the sizes of the model, seen from its layer; as text, `in layer 2 of 6`."""

    sizes: Sizes

    def number(self, expression: Expression, where: str) -> float:
        """The value of arithmetic here; InputError if it has none."""
        scope = self.sizes.scope(self.sizes.layer or 0)
        if self.sizes.layer is None:
            del scope["layer"]
        try:
            return expression.at(scope)
        except ArithmeticProblem as problem:
            raise InputError(
                f"{where} is {expression.text}, which has no value {self}: {problem}\n"
                "  = change the expression or the sizes of the model"
            ) from None

    def bounded(self, expression: Expression, kind: Bounded, where: str) -> float:
        """The value of arithmetic here; InputError if it has none within the bounds."""
        value = self.number(expression, where)
        sized = "" if expression.constant is not None else f", which is {number_text(value)} {self}"
        return within(value, kind, f"{where} is {expression.text}{sized}")

    def width(self, size: Size, where: str) -> int:
        """The width in units; InputError if a multiple of the model's width is not a whole number of at least 1."""
        units, width = size.at(self.sizes.d_model), self.sizes.d_model
        if units < 1 or units.denominator > 1:
            parts = size.ratio.denominator
            wider = f", or a width that is a multiple of {parts}" if 1 < parts <= width else ""
            raise InputError(
                f"{where} is {size.ratio if isinstance(size.multiple, Fraction) else f'{size.multiple:g}'} times the "
                f"model's width of {width}, which makes {float(units):g}: not a whole number of units\n"
                f"  = give the number of units itself, of which {max(1, floor(units + Fraction(1, 2)))} is the "
                f"nearest{wider}"
            )
        return int(units)

    def __str__(self) -> str:
        """In words, for messages."""
        layer = self.sizes.layer
        return "outside the layers" if layer is None else f"in layer {layer} of {self.sizes.n_layers}"


def within(value: float, kind: Bounded, said: str) -> float:
    """The value; InputError that opens with what is `said` of it unless it is within the bounds."""
    expected = kind.expected(value)
    if expected is not None:
        raise InputError(f"{said}\n  = give {expected}")
    return value


def field_values(
    node: Node, spec: ComponentSpec, surroundings: Surroundings, makers: Makers, path: Path = ()
) -> dict[str, Any]:
    """A value for each field that `spec` declares, ready for its Config: `spec.config(**field_values(...))`.

    `path` is where the node stands in the block. Raises InputError where arithmetic or a width has no value, and where
    a number is out of its bounds.
    """

    def filled(field: str, kind: FieldType) -> Any:
        return _filled(node[field], kind, f"{node.name}.{field}", surroundings, makers, (*path, field))

    return {field: filled(field, kind) for field, kind in spec.fields.items()}


def _filled(value: Any, kind: FieldType, where: str, surroundings: Surroundings, makers: Makers, path: Path) -> Any:
    match kind, value:
        case Number(), int() | float():
            return within(value, kind, f"{where} is {number_text(value)}")
        case Arithmetic(), Expression():
            return surroundings.bounded(value, kind, where)
        case GainField(), Gain():
            return makers.gain(surroundings.number(value.value, where), trainable=value.trainable, per=value.per)
        case Width(), Size():
            return surroundings.width(value, where)
        case Part(), None:
            return None
        case Part(), Node():
            return makers.part(value, path)
        case Parts(), tuple():
            return tuple((node.name, makers.part(node, (*path, node.name))) for node in value)
        case Sequenced(), Sequence():
            return makers.sequence(value, path)
        case Branches(), tuple():
            return tuple(makers.sequence(branch, (*path, index)) for index, branch in enumerate(value))
        case ((Arithmetic() | GainField() | Width() | Part() | Parts() | Sequenced() | Branches()), _):
            raise TypeError(f"{where} holds {value!r}, which is no {type(kind).__name__}")
    return value
