"""Constraints that a space lets through: `constraints: {exact_start: warn}`.

A block that breaks one of these is trained, and every report on it says so, with the constraint's name and reason. A
search always refuses what a constraint forbids, since nobody looks at each of its proposals.
"""

from __future__ import annotations

from ablate.grammar.grammar import Grammar
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, quote, suggest
from ablate.space.design import Design

LEVELS = ("refuse", "warn")
"""A constraint that a space does not mention refuses."""


def read_warned(located: Located | None, design: Design | None, grammar: Grammar, problems: Problems) -> frozenset[str]:
    """Read the names of the constraints that only warn; each mistake goes to `problems`."""
    if located is None:
        return frozenset()
    known = tuple(dict.fromkeys(constraint.name for constraint in grammar.constraints if constraint.name))
    such = f"such as constraints: {{{known[0] if known else 'NAME'}: warn}}"
    if not isinstance(located, Mapping):
        message = "constraints must map names of the grammar's constraints to warn or refuse"
        problems.add(message, located.span, notes=(such,))
        return frozenset()
    warned = set()
    for key, value in located.entries:
        if key.value not in known:
            message = f"the grammar {grammar.name} has no constraint named {quote(key.text)}"
            problems.add_unknown(message, key.span, key.text, known, "named constraints")
        if not isinstance(value, Scalar) or value.value not in LEVELS:
            got = (
                quote(value.text)
                if isinstance(value, Scalar)
                else "a list"
                if isinstance(value, Items)
                else "a mapping"
            )
            label = (suggest(value.text, LEVELS) or "") if isinstance(value, Scalar) else ""
            message = f"constraints.{key.text}: expected warn or refuse, got {got}"
            problems.add(message, value.span, label=label, notes=(such,))
        elif value.value == "warn" and design is not None and design.search is not None:
            problems.add(
                f"a search always refuses what a constraint forbids: it cannot let {quote(key.text)} through",
                value.span,
                notes=(
                    "it derives thousands of blocks, and nobody would read the warnings",
                    "leave it out; to train blocks that break it, name them in a space with design: {compare: […]}",
                ),
            )
        elif value.value == "warn":
            warned.add(str(key.value))
    return frozenset(warned)
