"""Checks of what a factorial varies against its space: that each value is one, and that each level is another model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from ablate.block.expression import Block, Value
from ablate.block.normal_form import normalise
from ablate.block.read import Invalid
from ablate.block.select import is_there, parts_by_name, value_at
from ablate.source.problems import Problem, Problems
from ablate.space.changed import decided, with_changes
from ablate.space.design import Factorial
from ablate.space.fair import text_of
from ablate.space.override import with_value
from ablate.space.space import Space
from ablate.space.tuning import note_absent
from ablate.space.variants import is_inside
from ablate.space.vary import FactorLevel, VariedAddress

TWICE = "it would be set twice"

Read: TypeAlias = "list[tuple[FactorLevel, object]]"
"""What the levels of a factor come to."""


def check_vary(space: Space, problems: Problems) -> None:
    """Report each level that the space refuses or has already, and each address that the design changes otherwise."""
    design = space.design.factorial
    if design is None or not design.vary.factors:
        return
    ends = tuple(space.blocks[name] for name in space.design.blocks)
    for factor in design.vary.factors:
        before = len(problems)
        if factor.in_block:
            _check_beside_edits(factor, design, space, problems)
        else:
            _check_beside_variants(factor, design, space, problems)
        if len(problems) == before:
            read = in_block(factor, ends, space, problems) if factor.in_block else around(factor, space, problems)
            if len(problems) == before:
                check_different(factor, read, problems)
    check_parts(design.vary.factors, ends, space, problems)


def _check_beside_variants(factor: VariedAddress, design: Factorial, space: Space, problems: Problems) -> None:
    """Report an address that a variant at one of the ends sets too."""
    for name in dict.fromkeys((design.from_, design.to)):
        for change in space.variants[name].changes if name in space.variants else ():
            if is_inside(change.address, factor.address) or is_inside(factor.address, change.address):
                message = f"{factor.address} is varied, and {name} sets {change.address}: {TWICE}"
                notes = (f"remove it from variant {name}, or from vary",)
                problems.add(message, factor.key.span, notes=notes, also=((change.key.span, "beside this"),))


def _check_beside_edits(factor: VariedAddress, design: Factorial, space: Space, problems: Problems) -> None:
    """Report a field of the block that has one value at the start and another at the end."""
    before, after = (_values(factor, space.blocks[name], space) for name in (design.from_, design.to))
    if before and after and before != after:
        message = f"{factor.address} is varied, and also an edit from {design.from_} to {design.to}: {TWICE}"
        notes = ("remove it from vary, or let both blocks have the same value there",)
        problems.add(message, factor.key.span, notes=notes)


def _values(factor: VariedAddress, block: Block, space: Space) -> set[Value]:
    """Return the values that the parts of a block have at an address."""
    normal, fields = normalise(block, space.grammar.catalogue), factor.selector.fields
    parts = parts_by_name(normal, space.grammar.catalogue)
    return {v for name, node in parts if fnmatchcase(name, factor.selector.part) for v in value_at(node, fields)}


def around(factor: VariedAddress, space: Space, problems: Problems) -> Read:
    """Return what each level makes of model, recipe and data.

    One that does not fit another value of the space is no mistake: runs that have both are left out, with the reason.
    """
    found: Read = []
    at_key: list[Problem] = []
    for level in factor.levels:
        mistakes = Problems()
        changed = with_changes(space, [factor.change(level)], mistakes)
        for mistake in mistakes:
            if mistake.is_at([level.written.span]):
                problems.append(mistake)
            elif mistake.is_at([factor.key.span, *(word.span for word in factor.words)]):
                at_key.append(mistake)
        if changed is not None:
            found.append((level, decided(changed)))
    if not found:
        for mistake in at_key:
            problems.append(mistake)
    return found


def in_block(factor: VariedAddress, blocks: Sequence[Block], space: Space, problems: Problems) -> Read:
    """Return what each level makes of those of the blocks that have its field; a problem if none has."""
    catalogue = space.grammar.catalogue
    there = [block for block in blocks if is_there(block, factor.selector, catalogue)]
    if not there:
        note_absent(factor.selector, factor, blocks, catalogue, problems, "vary")
        return []
    reader = space.grammar.reader_for(problems)
    found: Read = []
    for level in factor.levels:
        try:
            changed = [with_value(block, factor.override(level), reader) for block in there]
        except Invalid:
            continue
        found.append((level, [normalise(block, catalogue) for block in changed]))
    return found


def check_different(factor: VariedAddress, read: Read, problems: Problems) -> None:
    """Report levels that come to the same; if all do, the factor has no effect."""
    if len(read) > 1 and all(one == read[0][1] for _, one in read):
        notes = ("remove it, or list other values",)
        message = f"vary of {factor.address} has no effect: all its levels come to the same"
        problems.add(message, factor.key.span, notes=notes)
        return
    for level, one in read:
        first = next(other for other, another in read if another == one)
        if first is not level:
            message = f"{text_of(level.value)} in vary of {factor.address} is the same as {text_of(first.value)}"
            also = ((first.written.span, "listed here"),)
            problems.add(message, level.written.span, notes=("list each value once",), also=also)


def check_parts(factors: Sequence[VariedAddress], blocks: Sequence[Block], space: Space, problems: Problems) -> None:
    """Report two factors that set the same field of one part: `residual.gain` and `attention_residual.gain`."""
    inside = [factor for factor in factors if factor.in_block]
    for place, factor in enumerate(inside):
        for other in inside[:place]:
            if set(_places(factor, blocks, space)) & set(_places(other, blocks, space)):
                message = f"{factor.address} and {other.address} set the same value"
                also = ((other.key.span, "beside this"),)
                problems.add(message, factor.key.span, notes=("keep one of them",), also=also)


def _places(factor: VariedAddress, blocks: Sequence[Block], space: Space) -> Iterator[tuple[str, tuple[str, ...]]]:
    for block in blocks:
        for name, node in parts_by_name(block, space.grammar.catalogue):
            if fnmatchcase(name, factor.selector.part) and value_at(node, factor.selector.fields):
                yield name, factor.selector.fields
