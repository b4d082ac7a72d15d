"""The block expression: small immutable data that everything else interprets.

A block is a sequence of parts; a part is a `Node`: the name of a component and a value for each of its fields.
Blocks are compared by value. Nothing here knows which components exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from ablate.block.arithmetic import Expression
from ablate.block.which_layers import WhichLayers


@dataclass(frozen=True, slots=True)
class Gain:
    """A factor on a signal: g = `value`, either fixed or the initial value of a trainable parameter.

    `per` says how many numbers it holds: one (`scalar`), one per head (`head`) or one per channel (`channel`).
    A number is a constant expression; `1/sqrt(2*depth)` is evaluated when the model's sizes are known.
    """

    value: Expression
    trainable: bool = False
    per: str = "scalar"


@dataclass(frozen=True, slots=True)
class Size:
    """A width: `units`, or `multiple` times the width of the model (`4x`, `8/3x`). Exactly one of the two is set.

    A multiple is a fraction only if no float is equal to it, so that equal sizes compare equal.
    """

    multiple: float | Fraction | None = None
    units: int | None = None

    def at(self, width: int) -> Fraction:
        """Return the exact number of units in a model of that width; the model can be built only if it is whole.

        >>> Size(multiple=Fraction(8, 3)).at(96), Size(multiple=Fraction(8, 3)).at(64), Size(units=7).at(64)
        (Fraction(256, 1), Fraction(512, 3), Fraction(7, 1))
        """
        if self.units is not None:
            return Fraction(self.units)
        multiple = self.multiple or 0
        if not isinstance(multiple, Fraction) and float(multiple * width).is_integer():
            return Fraction(multiple * width)
        return self.ratio * width

    @property
    def ratio(self) -> Fraction:
        """The multiple as it is written: 0.07 is 7/100."""
        return self.multiple if isinstance(self.multiple, Fraction) else Fraction(repr(self.multiple or 0))


@dataclass(frozen=True, slots=True)
class ValueAddress:
    """The address of a value that stands earlier in the model: `layers.first.attention.value` (see `sources.py`)."""

    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """One component and a value for each of its fields, in the order in which the component declares them."""

    name: str
    fields: tuple[tuple[str, Value], ...] = ()

    def __getitem__(self, field: str) -> Value:
        for name, value in self.fields:  # a census asks a million times, and a dict takes longer to build than this
            if name == field:
                return value
        raise KeyError(field)

    def replace(self, changes: Mapping[str, Value]) -> Node:
        """Return the node with some fields changed; KeyError for a field it does not have."""
        unknown = set(changes) - {name for name, _ in self.fields}
        if unknown:
            raise KeyError(f"{self.name} has no field {', '.join(sorted(unknown))}")
        return Node(self.name, tuple((name, changes.get(name, value)) for name, value in self.fields))

    def __str__(self) -> str:
        """Return the node as YAML in flow style, with all fields."""
        from ablate.block.printer import print_value

        return print_value(self)

    def __repr__(self) -> str:
        from ablate.block.printer import outline

        return f"<Node {outline(self)}>"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts applied one after another; an empty sequence is the identity."""

    parts: tuple[Node, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        """Return the block as YAML, one line per part, with all fields: `load_block` reads back the same block."""
        from ablate.block.printer import print_parts

        return print_parts(self)

    def __repr__(self) -> str:
        from ablate.block.printer import outline

        return f"<Block {outline(self)}>"


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one slot that take turns over the layers; each is whatever the slot holds, and none is spliced."""

    values: tuple[Value, ...] = ()

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


Scalar: TypeAlias = "bool | int | float | str | Expression | Gain | Size | ValueAddress | WhichLayers"
Value: TypeAlias = "Scalar | Node | Sequence | Series | tuple[Node, ...] | tuple[Sequence, ...] | None"

Path: TypeAlias = tuple[int | str, ...]
"""The way through an expression: an index into a sequence, then the name of a field, and so on."""

Block = Sequence
"""A block is a sequence of parts that maps [batch, time, width] to the same shape."""


def walk(value: Value) -> Iterator[Node]:
    """Yield every node in `value`, in order, parents before children."""
    if isinstance(value, Node):
        yield value
        for _, child in value.fields:
            yield from walk(child)
    elif isinstance(value, Sequence | Series | tuple):
        for child in value:
            yield from walk(child)
