"""Constraints: what a block may not be, and why.

`when`, `require` and `forbid` map addresses to what must stand there: a component's name, a number, `none`, `any`, or a
list of such alternatives. Where every `when` matches some part, the block is refused if a `require` does not match all
parts at its address, or if every `forbid` matches some part.
"""

from __future__ import annotations

from dataclasses import dataclass

from ablate.block.catalogue import Catalogue
from ablate.grammar.condition import Condition, NamedParts, read_conditions
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, quote, suggest

KEYS = ("when", "require", "forbid", "because")


@dataclass(frozen=True, slots=True)
class Constraint:
    """`when` all hold, `require` must; what `forbid` describes must not be."""

    when: tuple[Condition, ...]
    require: tuple[Condition, ...]
    forbid: tuple[Condition, ...]
    because: str

    @property
    def fields(self) -> frozenset[str]:
        """Every field that it looks at, wherever it stands."""
        return frozenset(f for side in (self.when, self.require, self.forbid) for c in side for f in c.address.fields)

    def refuses(self, parts: NamedParts) -> bool:
        """Whether this constraint refuses the block whose parts, by name, these are."""
        if not all(condition.some(parts) for condition in self.when):
            return False
        if self.forbid and all(condition.some(parts) for condition in self.forbid):
            return True
        return not all(condition.every(parts) for condition in self.require)


def read_constraints(located: Located, catalogue: Catalogue, problems: Problems) -> tuple[Constraint, ...]:
    """All constraints of a grammar; mistakes go to `problems`."""
    if not isinstance(located, Items):
        problems.add("constraints must be a list", located.span)
        return ()
    return tuple(found for item in located.items if (found := _read(item, catalogue, problems)) is not None)


def _read(located: Located, catalogue: Catalogue, problems: Problems) -> Constraint | None:
    if not isinstance(located, Mapping):
        problems.add("a constraint is a mapping: {when: …, require: …, because: …}", located.span)
        return None
    for key, _ in located.entries:
        if key.value not in KEYS:
            label, notes = suggest(key.text, KEYS) or "", (f"it has: {', '.join(KEYS)}",)
            problems.add(f"a constraint has no {quote(key.text)}", key.span, label=label, notes=notes)
    because = located.get("because")
    if not isinstance(because, Scalar) or not isinstance(because.value, str) or not because.value.strip():
        problems.add("a constraint must say why", located.span, notes=('add because: "…"',))
        return None
    if "require" not in located and "forbid" not in located:
        problems.add("a constraint needs `require` or `forbid`", located.span)
        return None
    when, require, forbid = (read_conditions(located.get(side), catalogue, problems) for side in KEYS[:3])
    return Constraint(when, require, forbid, because.value)
