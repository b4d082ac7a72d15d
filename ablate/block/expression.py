"""The block expression: small immutable data that everything else interprets, and its text.

A block is a sequence of parts; a part is a `Node`. Blocks are compared by value; no component is known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

from ablate.block.arithmetic import EVERY, Expression, WhichLayers, number_text


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
    """The address of a value that stands earlier in the model: `layers.first.attention.value` (see `address.py`)."""

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
        return print_value(self)

    def __repr__(self) -> str:
        return f"<Node {outline(self)}>"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts applied one after another; an empty sequence is the identity."""

    parts: tuple[Node, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def map(self, change: Callable[[Node], Node]) -> Sequence:
        return Sequence(tuple(change(part) for part in self.parts))

    def __str__(self) -> str:
        """Return the block as YAML, one line per part, with all fields: `load_block` reads back the same block."""
        return print_parts(self)

    def __repr__(self) -> str:
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
Value: TypeAlias = "Scalar | Node | Sequence | Series | tuple[Node | Sequence, ...] | None"

Path: TypeAlias = tuple[int | str, ...]
"""The way through an expression: an index into a sequence, then the name of a field, and so on."""

Block = Sequence  # a block is a sequence of parts that maps [batch, time, width] to the same shape


def walk(value: Value) -> Iterator[Node]:
    """Yield every node in `value`, in order, parents before children."""
    if isinstance(value, Node):
        yield value
        for _, child in value.fields:
            yield from walk(child)
    elif isinstance(value, Sequence | Series | tuple):
        for child in value:
            yield from walk(child)


def map_nodes(value: Value, change: Callable[[Node], Node]) -> Value:
    """Return `value` with each node changed that is inside no other."""
    match value:
        case Node():
            return change(value)
        case Sequence():
            return value.map(change)
        case Series():
            return Series(tuple(map_nodes(child, change) for child in value))
        case tuple():
            return tuple(change(child) if isinstance(child, Node) else child.map(change) for child in value)
    return value


# A block as YAML: reading it back gives the same block.
#
# Without defaults every field is written. With the catalogue and the defaults of a grammar, fields at their defaults
# are left out and the shorthand of a component is used: `residual: [layer_norm, attention]`.


class HasShorthand(Protocol):
    @property
    def shorthand(self) -> str | None:
        """The field that a bare value sets; None if there is none."""


class Shorthands(Protocol):
    """The components by name, as far as texts depend on them: a `Catalogue`, which is made of what stands here."""

    def __getitem__(self, name: str, /) -> HasShorthand: ...


Defaults = Mapping[str, Mapping[str, Value]]  # for each component, the default values of fields that may be left out

PLAIN = re.compile(r"[A-Za-z0-9_.+*/()^-]+(?:%|x)?")
RESERVED = {"none", "null", "true", "false", "~"}


def print_block(block: Block, catalogue: Shorthands | None = None, defaults: Defaults | None = None) -> str:
    """Print a block as one line of YAML in flow style."""
    return "[" + ", ".join(_entry(part, catalogue, defaults or {}) for part in block) + "]"


def print_parts(block: Block) -> str:
    """Print one line of YAML per part, with all fields, so that it reads back the same under any grammar."""
    return "\n".join(f"- {_entry(part, None, {})}" for part in block) or "[]"


def outline(value: Value) -> str:
    """Print the names of the parts as they are nested, without their fields.

    >>> outline(Sequence((Node("residual", (("gain", Gain(Expression("1"))), ("branch", Sequence((Node("mlp"),))))),)))
    '[residual: [mlp]]'
    """
    match value:
        case Node(name=name, fields=fields):
            inside = [text for _, field in fields if not isinstance(field, Node) and (text := outline(field))]
            return f"{name}: {', '.join(inside)}" if inside else name
        case Sequence(parts=parts):
            return f"[{', '.join(map(outline, parts))}]"
        case Series() | tuple() if any(isinstance(child, Sequence) for child in value):
            return f"[{', '.join(map(outline, value))}]"
    return ""


def print_value(value: Value, catalogue: Shorthands | None = None, defaults: Defaults | None = None) -> str:
    defaults = defaults or {}
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
        case str():
            return _scalar(value)
        case Expression(text=text):
            return _scalar(text)
        case Gain():
            return _gain(value)
        case Size(units=int() as count):
            return str(count)
        case Size(multiple=Fraction() as fraction):
            return f"{fraction}x"
        case Size(multiple=float() | int() as multiple):
            return f"{number_text(multiple)}x"
        case ValueAddress(text=text):
            return _scalar(text)
        case Node():
            text = _entry(value, catalogue, defaults)
            return text if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) else "{" + text + "}"
        case WhichLayers(every=int() as number):
            return f"{{{EVERY}: {number}}}"
        case WhichLayers(text=text):
            return _scalar(text)
        case Sequence():
            return print_block(value, catalogue, defaults)
        case Series():
            return "[" + ", ".join(print_value(child, catalogue, defaults) for child in value) + "]"
        case tuple() if all(isinstance(child, Node) for child in value):
            if not value:
                return "none"
            texts = [print_value(child, catalogue, defaults) for child in value]
            return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        case tuple():
            return "[" + ", ".join(print_value(child, catalogue, defaults) for child in value) + "]"
    raise TypeError(f"{type(value).__name__} is not a value of a block")


def _entry(node: Node, catalogue: Shorthands | None, defaults: Defaults) -> str:
    known = defaults.get(node.name, {})
    absent = object()
    shown = [(name, value) for name, value in node.fields if known.get(name, absent) != value]
    if not shown:
        return node.name
    shorthand = catalogue[node.name].shorthand if catalogue is not None else None
    if [name for name, _ in shown] == [shorthand]:
        text = print_value(shown[0][1], catalogue, defaults)
        if not text.startswith("{") or not _looks_like_fields(shown[0][1], node, catalogue):
            return f"{node.name}: {text}"
    fields = ", ".join(f"{name}: {print_value(value, catalogue, defaults)}" for name, value in shown)
    return f"{node.name}: {{{fields}}}"


def _looks_like_fields(value: Value, node: Node, catalogue: Shorthands | None) -> bool:
    """Return whether a mapping as a shorthand's value could be mistaken for the fields of the component."""
    names = {name for name, _ in node.fields}
    return isinstance(value, Gain) or (isinstance(value, Node) and value.name in names)


def _gain(gain: Gain) -> str:
    if not gain.trainable and gain.per == "scalar":
        return _scalar(gain.value.text)
    extra = f", per: {gain.per}" if gain.per != "scalar" else ""
    return f"{{init: {_scalar(gain.value.text)}, trainable: {'true' if gain.trainable else 'false'}{extra}}}"


def _scalar(text: str) -> str:
    safe = PLAIN.fullmatch(text) and text.lower() not in RESERVED and not text.startswith(("*", "-", "+", "."))
    negative = re.fullmatch(r"-[0-9.]+(e[+-]?[0-9]+)?", text)
    return text if safe or negative else f'"{text}"'
