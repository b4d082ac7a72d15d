"""The edits between the two ends of a design."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.block.diff import BlockDifference, Edit, diff, path_order
from ablate.block.fingerprint import fingerprint
from ablate.source.located import Span
from ablate.source.problems import Problems, quote
from ablate.space.blocks import place_of_block
from ablate.space.design import Ends
from ablate.space.space import Space


def difference_between(space: Space, ends: Ends, problems: Problems) -> BlockDifference | None:
    """Return the difference of the two blocks, split as in the design; None where a mistake was reported."""
    before, after = space.blocks[ends.from_], space.blocks[ends.to]
    catalogue = space.grammar.catalogue
    if fingerprint(before, catalogue) == fingerprint(after, catalogue):
        problems.add(
            f"{ends.from_} and {ends.to} are the same block here: there is nothing to compare",
            space.origins.section("design"),
            notes=("name another block, or change what `block:` makes of them",),
        )
        return None
    split = ends.split if isinstance(ends.split, bool) else frozenset(ends.split)
    difference = diff(before, after, catalogue, split=split, defaults=space.grammar.defaults)
    if not isinstance(split, bool):
        whole = diff(before, after, catalogue, defaults=space.grammar.defaults)
        check_names(split, whole.edits, "split", space, problems)
    return difference


def check_names(
    names: Sequence[str] | frozenset[str], edits: tuple[Edit, ...], what: str, space: Space, problems: Problems
) -> None:
    """Report each name that is not one of these edits."""
    known = tuple(edit.name for edit in path_order(edits))
    for name in sorted(set(names) - set(known)):
        place = place_of_block(space.located, name) or space.origins.section("design")
        message = f"{what} names {quote(name)}, which is not an edit of this design"
        problems.add_unknown(message, place, name, known, "its edits are")


def place_in_design(space: Space, *keys: str) -> Span:
    """Return where the value at these keys of the design is written; the design itself if it is not."""
    written = space.origins.written("design", *keys) if keys else None
    return space.origins.section("design") if written is None else space.origins.value("design", *keys)


def note_single_edit(space: Space, ends: Ends, edits: Sequence[Edit], problems: Problems) -> None:
    """Report that a design which combines or sums edits has only one."""
    message = f"there is only one edit from {ends.from_} to {ends.to}: {edits[0].name}"
    apart = ", or split it place by place with split: true" if len(edits[0].places) > 1 else ""
    problems.add(message, place_in_design(space), notes=(f"use compare: [{ends.from_}, {ends.to}]{apart}",))
