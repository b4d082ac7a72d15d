"""Constraints: which blocks are refused, and why.

`when`, `require` and `forbid` map addresses to the values there: a component's name, a number, `none`, `any`, or a list
of such alternatives. If every `when` matches some part, the block is refused if a `require` does not match all parts at
its address, or if every `forbid` matches some part. A list under `require` is a choice: one of its items must hold.

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

from ablate.block.catalogue import Catalogue
from ablate.block.expression import Node
from ablate.block.select import Selector, value_at
from ablate.grammar.condition import Condition, WordSets, read_conditions, words
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, quote

KEYS = ("name", "when", "require", "forbid", "because")
NAME = re.compile(r"[a-z][a-z0-9_]*")
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
        """The groups of its conditions: `when`, `forbid`, and each alternative of `require`."""
        return (self.when, self.forbid, *self.require)

    @property
    def fields(self) -> frozenset[str]:
        """Every field that it looks at, in any component."""
        return frozenset(f for side in self.sides for c in side for f in c.address.fields)

    @property
    def full_name(self) -> str:
        """What a message calls it when it refuses a block."""
        return f"the constraint {self.name} of the grammar" if self.name else "a constraint of the grammar"

    @property
    def reason(self) -> str:
        """Its name, if any, and why it refuses."""
        return f"{self.name}: {self.because}" if self.name else self.because

    @property
    def let_through(self) -> str:
        """How to train a block that it refuses."""
        if self.name:
            return f"to train it anyway, with a warning, set constraints: {{{self.name}: warn}} in the space"
        return "to train it anyway, give the constraint a name: a space can then set constraints: {NAME: warn}"


class Refusals:
    """Checks blocks, one after another, against a list of constraints."""

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
    """Read all constraints of a grammar; mistakes go to `problems`."""
    if not isinstance(located, Items):
        problems.add("constraints must be a list", located.span)
        return ()
    return tuple(read for item in located.items if (read := _read(item, catalogue, problems)) is not None)


def _read(located: Located, catalogue: Catalogue, problems: Problems) -> Constraint | None:
    if not isinstance(located, Mapping):
        problems.add("a constraint must be a mapping: {when: …, require: …, because: …}", located.span)
        return None
    for key, _ in located.entries:
        if key.value not in KEYS:
            problems.add_unknown(f"a constraint has no {quote(key.text)}", key.span, key.text, KEYS, "it has")
    because = located.get("because")
    if not isinstance(because, Scalar) or not isinstance(because.value, str) or not because.value.strip():
        problems.add("a constraint must give a reason", located.span, notes=('add because: "…"',))
        return None
    if "require" not in located and "forbid" not in located:
        problems.add("a constraint needs `require` or `forbid`", located.span)
        return None
    when, forbid = (read_conditions(located.get(side), catalogue, problems) for side in ("when", "forbid"))
    require = _required(located.get("require"), catalogue, problems)
    return Constraint(when, require, forbid, because.value, _name(located.get("name"), problems))


def _required(located: Located | None, catalogue: Catalogue, problems: Problems) -> tuple[tuple[Condition, ...], ...]:
    """Read the alternatives of `require`: a single one, or those of a list."""
    if located is None:
        return ()
    if isinstance(located, Items) and not located.items:
        problems.add("require lists no alternative: nothing would be admitted", located.span)
    return tuple(
        read_conditions(alternative, catalogue, problems)
        for alternative in (located.items if isinstance(located, Items) else (located,))
    )


def _name(located: Located | None, problems: Problems) -> str:
    if located is None:
        return ""
    if isinstance(located, Scalar) and isinstance(located.value, str) and NAME.fullmatch(located.value):
        return located.value
    notes = ("lowercase letters, digits and _, starting with a letter, such as exact_start",)
    problems.add("the name of a constraint must be a word", located.span, notes=notes)
    return ""
