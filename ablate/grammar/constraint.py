"""Constraints: what a block may not be, and why.

`when` and `require` map addresses to what must stand there: a component's name, a number, `none`, `any`, or a list of
such alternatives. A constraint refuses a block in which every `when` matches some part and a `require` does not match
all parts at its address; `forbid` refuses where all its addresses match.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ablate.block.arithmetic import ArithmeticProblem, Expression, number_text
from ablate.block.arithmetic import parse as parse_arithmetic
from ablate.block.expression import Gain, Node, Sequence, Size, Value
from ablate.block.printer import print_value
from ablate.block.select import Address, parse_address, select
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, suggest

Parts: TypeAlias = tuple[tuple[str, Node], ...]
KEYS = ("when", "require", "forbid", "because")


@dataclass(frozen=True, slots=True)
class Condition:
    """What stands at `address` is one of `accepted` (texts; `any` is anything but nothing)."""

    address: Address
    accepted: tuple[str, ...]

    def some(self, parts: Parts) -> bool:
        """Whether a part at the address matches; an address without part matches `none`."""
        found = select(parts, self.address)
        return any(self._matches(value) for value in found) if found else "none" in self.accepted

    def every(self, parts: Parts) -> bool:
        """Whether all parts at the address match."""
        found = select(parts, self.address)
        return all(self._matches(value) for value in found) if found else "none" in self.accepted

    def _matches(self, value: Value) -> bool:
        words = _words(value)
        return ("any" in self.accepted and words != {"none"}) or bool(words & set(self.accepted))


@dataclass(frozen=True, slots=True)
class Constraint:
    """`when` all hold, `require` must; what `forbid` describes must not be."""

    when: tuple[Condition, ...]
    require: tuple[Condition, ...]
    forbid: tuple[Condition, ...]
    because: str

    def refuses(self, parts: Parts) -> bool:
        """Whether this constraint refuses the block whose parts, by name, these are."""
        if not all(condition.some(parts) for condition in self.when):
            return False
        if self.forbid and all(condition.some(parts) for condition in self.forbid):
            return True
        return not all(condition.every(parts) for condition in self.require)


def read_constraints(located: Located, problems: Problems) -> tuple[Constraint, ...]:
    """All constraints of a grammar; mistakes go to `problems`."""
    if not isinstance(located, Items):
        problems.add("constraints must be a list", located.span)
        return ()
    return tuple(found for item in located.items if (found := _read(item, problems)) is not None)


def _read(located: Located, problems: Problems) -> Constraint | None:
    if not isinstance(located, Mapping):
        problems.add("a constraint is a mapping: {when: …, require: …, because: …}", located.span)
        return None
    entries = {}
    for key, value in located.entries:
        if key.value not in KEYS:
            problems.add(
                f"a constraint has no {key.text!r}",
                key.span,
                label=suggest(key.text, KEYS) or "",
                notes=(f"it has: {', '.join(KEYS)}",),
            )
        entries[str(key.value)] = value
    because = entries.get("because")
    if not isinstance(because, Scalar) or not str(because.value or "").strip():
        problems.add("a constraint must say why", located.span, notes=('add because: "…"',))
        return None
    if not {"require", "forbid"} & set(entries):
        problems.add("a constraint needs `require` or `forbid`", located.span)
        return None
    sides = [_conditions(entries.get(side), problems) for side in ("when", "require", "forbid")]
    return Constraint(*sides, because=str(because.value))


def _conditions(located: Located | None, problems: Problems) -> tuple[Condition, ...]:
    if located is None:
        return ()
    if not isinstance(located, Mapping):
        problems.add("conditions are a mapping from addresses to what stands there", located.span)
        return ()
    found = []
    for key, value in located.entries:
        items = value.items if isinstance(value, Items) else (value,)
        try:
            address = parse_address(str(key.value))
        except ValueError as error:
            problems.add(str(error), key.span)
            continue
        words = [_accepted(item) for item in items if isinstance(item, Scalar)]
        if len(words) != len(items):
            problems.add("a condition names a component, a number, none or any, or a list of those", value.span)
        found.append(Condition(address, tuple(words)))
    return tuple(found)


def _accepted(scalar: Scalar) -> str:
    value = scalar.value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    try:
        return parse_arithmetic(value).text
    except ArithmeticProblem:
        return value


def _words(value: Value) -> set[str]:
    """The texts by which a condition may name a value."""
    match value:
        case None:
            return {"none"}
        case Node(name=name):
            return {name}
        case Sequence() | tuple():
            return {word for child in value for word in _words(child)} or {"none"}
        case Gain(value=expression, trainable=trainable):
            return {expression.text, "trainable" if trainable else "fixed"}
        case Expression(text=text):
            return {text}
        case Size():
            return {print_value(value)}
        case bool():
            return {"true" if value else "false"}
        case int() | float():
            return {number_text(value)}
    return {str(value)}
