"""Constraints: which blocks are refused, and why; and their conditions on the values at addresses.

`when`, `require` and `forbid` map addresses to the values there: a component's name, a number, `none`, `any`, or a
list of such alternatives. If every `when` matches some part, the block is refused if a `require` does not match all
parts at its address, or if every `forbid` matches some part. A list under `require` is a choice: one of its items
must hold.

A space can turn a constraint into a warning by its `name`; several constraints may share a name.

Many blocks are checked, and many constraints have conditions in common. So the value at an address is looked up once
per block, and whether it meets each condition on that address is computed once per distinct value, as a bit set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from ablate.block.address import Selector, parse_address, value_at
from ablate.block.arithmetic import ArithmeticProblem, Expression, number_text
from ablate.block.arithmetic import parse as parse_arithmetic
from ablate.block.catalogue import Catalogue, ComponentSpec, FieldType, Flag, GainField, Part, Parts, Sequenced, Word
from ablate.block.expression import Gain, Node, Size, Value, ValueAddress, print_value
from ablate.block.expression import Sequence as NodeSequence
from ablate.block.reader import LISTING, read_multiple
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, note_unknown, quote, suggest

# Conditions on the value at an address, read and checked against the catalogue.

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
    if located is None:
        return ()
    if not isinstance(located, Mapping):
        problems.add("conditions must map addresses to values", located.span)
        return ()
    read = (_read_condition(key, value, catalogue, problems) for key, value in located.entries)
    return tuple(condition for condition in read if condition is not None)


def _read_condition(key: Scalar, value: Located, catalogue: Catalogue, problems: Problems) -> Condition | None:
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


NUMBERS = "numbers"  # Marks, among the choices of an address, that it holds numbers


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
        case NodeSequence() | tuple():
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


# Constraints of such conditions, and the blocks that they refuse.

KEYS = ("name", "when", "require", "forbid", "because")
CONSTRAINT_NAME = re.compile(r"[a-z][a-z0-9_]*")
KNOWN_AT_ONCE = 2**16

NamedParts: TypeAlias = tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """If all of `when` hold, one alternative of `require` must hold in full, and `forbid` must not.

    `name` is empty if it has none.
    """

    when: tuple[Condition, ...]
    require: tuple[tuple[Condition, ...], ...]
    forbid: tuple[Condition, ...]
    because: str
    name: str = ""

    @property
    def sides(self) -> tuple[tuple[Condition, ...], ...]:
        return (self.when, self.forbid, *self.require)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(f for side in self.sides for c in side for f in c.address.fields)

    @property
    def full_name(self) -> str:
        return f"the constraint {self.name} of the grammar" if self.name else "a constraint of the grammar"

    @property
    def reason(self) -> str:
        return f"{self.name}: {self.because}" if self.name else self.because

    @property
    def let_through(self) -> str:
        """The way to train a block that it refuses."""
        if self.name:
            return f"to train it anyway, with a warning, set constraints: {{{self.name}: warn}} in the space"
        return "to train it anyway, give the constraint a name: a space can then set constraints: {NAME: warn}"


class Refusals:
    def __init__(self, constraints: Sequence[Constraint]):
        conditions = dict.fromkeys(
            condition for constraint in constraints for side in constraint.sides for condition in side
        )
        bits = {condition: 1 << place for place, condition in enumerate(conditions)}
        at: dict[Selector, list[Condition]] = {}
        for condition in conditions:
            at.setdefault(condition.address, []).append(condition)
        self._addresses = tuple((address, {c: bits[c] for c in here}) for address, here in at.items())
        self._constraints = tuple(
            (
                _together(constraint.when, bits),
                _together(constraint.forbid, bits),
                tuple(_together(alternative, bits) for alternative in constraint.require),
                constraint,
            )
            for constraint in constraints
        )
        self._places: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}
        self._judged: dict[tuple[int, WordSets], tuple[int, int]] = {}

    def of(self, parts: NamedParts) -> tuple[Constraint, ...]:
        """Return the constraints that refuse the block with these named parts."""
        some = every = 0
        for place, at in enumerate(self._at(tuple(name for name, _ in parts))):
            fields = self._addresses[place][0].fields
            values = tuple(words(value) for i in at for value in value_at(parts[i][1], fields))
            here = self._judge(place, values)
            some, every = some | here[0], every | here[1]
        broken: list[Constraint] = []
        for when, forbid, require, constraint in self._constraints:
            if some & when != when:
                continue
            refused = forbid and some & forbid == forbid
            if require and not refused:
                for alternative in require:
                    if every & alternative == alternative:
                        break
                else:
                    refused = True
            if refused:
                broken.append(constraint)
        return tuple(broken)

    def _at(self, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Return, for each address, the indices of the parts it names in a block whose parts have these names."""
        if names not in self._places:
            _keep_small(self._places)
            self._places[names] = tuple(
                tuple(number for number, name in enumerate(names) if fnmatchcase(name, address.part))
                for address, _ in self._addresses
            )
        return self._places[names]

    def _judge(self, place: int, values: WordSets) -> tuple[int, int]:
        """Return the bits of the conditions on an address that some value there meets, and that every value meets."""
        key = (place, values)
        if key not in self._judged:
            _keep_small(self._judged)
            conditions = self._addresses[place][1].items()
            some = sum(bit for condition, bit in conditions if condition.some(values))
            every = sum(bit for condition, bit in conditions if condition.every(values))
            self._judged[key] = (some, every)
        return self._judged[key]


def _together(conditions: Sequence[Condition], bits: dict[Condition, int]) -> int:
    return sum(bits[condition] for condition in set(conditions))


def _keep_small(known: dict[Any, Any]) -> None:
    """Clear a cache that has become large: there may be more distinct numbers than memory holds."""
    if len(known) >= KNOWN_AT_ONCE:
        known.clear()


def read_constraints(located: Located, catalogue: Catalogue, problems: Problems) -> tuple[Constraint, ...]:
    if not isinstance(located, Items):
        problems.add("constraints must be a list", located.span)
        return ()
    return tuple(read for item in located.items if (read := _read_constraint(item, catalogue, problems)) is not None)


def _read_constraint(located: Located, catalogue: Catalogue, problems: Problems) -> Constraint | None:
    if not isinstance(located, Mapping):
        problems.add("a constraint must be a mapping: {when: …, require: …, because: …}", located.span)
        return None
    note_unknown(located, KEYS, problems, "a constraint has no")
    because = located.get("because")
    if not isinstance(because, Scalar) or not isinstance(because.value, str) or not because.value.strip():
        problems.add("a constraint must give a reason", located.span, notes=('add because: "…"',))
        return None
    if "require" not in located and "forbid" not in located:
        problems.add("a constraint needs `require` or `forbid`", located.span)
        return None
    when, forbid = (read_conditions(located.get(side), catalogue, problems) for side in ("when", "forbid"))
    require = _required(located.get("require"), catalogue, problems)
    return Constraint(when, require, forbid, because.value, _read_name(located.get("name"), problems))


def _required(located: Located | None, catalogue: Catalogue, problems: Problems) -> tuple[tuple[Condition, ...], ...]:
    if located is None:
        return ()
    if isinstance(located, Items) and not located.items:
        problems.add("require lists no alternative: nothing would be admitted", located.span)
    return tuple(
        read_conditions(alternative, catalogue, problems)
        for alternative in (located.items if isinstance(located, Items) else (located,))
    )


def _read_name(located: Located | None, problems: Problems) -> str:
    if located is None:
        return ""
    if isinstance(located, Scalar) and isinstance(located.value, str) and CONSTRAINT_NAME.fullmatch(located.value):
        return located.value
    notes = ("lowercase letters, digits and _, starting with a letter, such as exact_start",)
    problems.add("the name of a constraint must be a word", located.span, notes=notes)
    return ""
