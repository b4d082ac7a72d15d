"""Conditions of constraints on the value at an address, read and checked against the catalogue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from ablate.block.arithmetic import ArithmeticProblem, Expression, number_text
from ablate.block.arithmetic import parse as parse_arithmetic
from ablate.block.catalogue import Catalogue, ComponentSpec, FieldType, Flag, GainField, Part, Parts, Sequenced, Word
from ablate.block.expression import Gain, Node, Sequence, Size, Value, ValueAddress
from ablate.block.printer import print_value
from ablate.block.read import LISTING
from ablate.block.scalars import read_multiple
from ablate.block.select import Selector, parse_address
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, quote, suggest

WordSets: TypeAlias = tuple[frozenset[str], ...]
"""The values at an address of a block, each as the set of words by which a condition may name it (see `words`)."""

NOTHING = frozenset({"none"})
ANYWHERE = ("none", "any")
ORDINAL = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class Condition:
    """The value at `address` is one of `accepted` (texts; `any` is any value, but not none)."""

    address: Selector
    accepted: tuple[str, ...]

    def some(self, values: WordSets) -> bool:
        """Return whether one of the `values` at the address matches; the absence of values matches `none`."""
        return any(map(self._matches, values)) if values else "none" in self.accepted

    def every(self, values: WordSets) -> bool:
        """Return whether all `values` at the address match; the absence of values matches `none`."""
        return all(map(self._matches, values)) if values else "none" in self.accepted

    def _matches(self, words: frozenset[str]) -> bool:
        return ("any" in self.accepted and words != NOTHING) or not words.isdisjoint(self.accepted)


def read_conditions(located: Located | None, catalogue: Catalogue, problems: Problems) -> tuple[Condition, ...]:
    """Read the conditions of one side of a constraint; mistakes go to `problems`."""
    if located is None:
        return ()
    if not isinstance(located, Mapping):
        problems.add("conditions must map addresses to values", located.span)
        return ()
    read = (_read(key, value, catalogue, problems) for key, value in located.entries)
    return tuple(condition for condition in read if condition is not None)


def _read(key: Scalar, value: Located, catalogue: Catalogue, problems: Problems) -> Condition | None:
    try:
        address = parse_address(str(key.value))
    except ValueError as error:
        problems.add(str(error), key.span)
        return None
    choices = _choices(address, key, catalogue, problems)
    items = value.items if isinstance(value, Items) else (value,)
    accepted = []
    for item in items:
        if not isinstance(item, Scalar):
            problems.add("a condition must name a component, a number, none or any, or a list of those", item.span)
            continue
        word = _accepted(item)
        if choices is not None and word not in (*ANYWHERE, *choices) and not _is_number(word, choices):
            message, may_be = f"{address.text} is never {quote(word)}", (*ANYWHERE, *choices)
            problems.add_unknown(message, item.span, word, may_be, f"{address.text} may be", command=LISTING)
        accepted.append(word)
    return Condition(address, tuple(accepted))


NUMBERS = "numbers"
"""Marks, among the choices of an address, that it holds numbers."""


def _is_number(word: str, choices: tuple[str, ...]) -> bool:
    if NUMBERS not in choices:
        return False
    try:
        parse_arithmetic(word)
    except ArithmeticProblem:
        return read_multiple(word) is not None
    return True


def _choices(address: Selector, key: Scalar, catalogue: Catalogue, problems: Problems) -> tuple[str, ...] | None:
    """Return the values possible at an address; None, after noting the mistake, if no block has such an address."""
    named = {name: spec for spec in catalogue for name in _part_names(spec, catalogue)}
    pattern = ORDINAL.sub("", address.part)
    specs = [spec for spec in catalogue if any(fnmatchcase(name, pattern) for name in _part_names(spec, catalogue))]
    if not specs:
        message = f"no part is ever named {quote(address.part)}"
        notes = ("`ablate show BLOCK` names the parts of a block",)
        problems.add(message, key.span, label=suggest(pattern, named) or "", notes=notes)
        return None
    choices = {spec.name for spec in specs}
    for field in address.fields:
        kinds = [spec.fields[field] for spec in specs if field in spec.fields]
        if not kinds:
            known = sorted({name for spec in specs for name in spec.fields})
            message = f"{address.text}: there is no field {quote(field)}"
            problems.add_unknown(message, key.span, field, known, "known fields")
            return None
        choices = {word for kind in kinds for word in _kind_choices(kind, catalogue)}
        slots = {kind.slot for kind in kinds if isinstance(kind, Part)}
        specs = [spec for spec in catalogue if slots & set(spec.slots)]
    return tuple(sorted(choices))


def _part_names(spec: ComponentSpec, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the names, without ordinals, that a component can have as a part of a block."""
    if "part" not in spec.slots:
        return ()
    if not spec.modifier:
        return (spec.role,)
    served = [other.role for other in catalogue if "part" in other.slots and not other.modifier]
    return (spec.role, *(f"{role}{link}{spec.role}" for role in served for link in ("_", "_post_")))


def _kind_choices(kind: FieldType, catalogue: Catalogue) -> tuple[str, ...]:
    match kind:
        case Part(slot=slot) | Parts(slot=slot):
            return catalogue.of_slot(slot)
        case Sequenced():
            return catalogue.of_slot("part")
        case Word(choices=choices):
            return choices
        case Flag():
            return ("false", "true")
        case GainField():
            return (NUMBERS, "fixed", "trainable")
    return (NUMBERS,)


def _accepted(scalar: Scalar) -> str:
    value = scalar.value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if multiple := read_multiple(value):
        return print_value(Size(multiple=multiple))
    try:
        return parse_arithmetic(value).text
    except ArithmeticProblem:
        return value


def words(value: Value) -> frozenset[str]:
    """Return the words by which a condition may name a value."""
    match value:
        case None:
            return NOTHING
        case Node(name=name):
            return frozenset({name})
        case Sequence() | tuple():
            return frozenset(word for child in value for word in words(child)) or NOTHING
        case Gain(value=expression, trainable=trainable):
            return frozenset({expression.text, "trainable" if trainable else "fixed"})
        case Expression(text=text) | ValueAddress(text=text):
            return frozenset({text})
        case Size():
            return frozenset({print_value(value)})
        case bool():
            return frozenset({"true" if value else "false"})
        case int() | float():
            return frozenset({number_text(value)})
    return frozenset({str(value)})
