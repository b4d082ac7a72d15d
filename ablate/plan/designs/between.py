"""The edits between the two ends of a design: in the block, and at addresses of the space around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ablate.block.diff import BlockDifference, Edit, Rank, diff, path_order
from ablate.block.fingerprint import fingerprint
from ablate.errors import InputError
from ablate.plan.designs.layout import DesignArm
from ablate.plan.models import Models
from ablate.source.located import Span, to_python
from ablate.source.problems import Problems, quote
from ablate.space.blocks import place_of_block
from ablate.space.design import Ends, Factorial
from ablate.space.fair import Plain, plain, text_of
from ablate.space.space import Space
from ablate.space.variants import Changes, is_inside


@dataclass(frozen=True, slots=True)
class TreatmentDifference:
    """The edits that lead from one treatment to another; `arm` builds the treatments in between.

    `block` has those inside the block, and `around` has by edit the addresses that it changes elsewhere, with the value
    that the treatment at the end has there (None: that of the space).
    """

    start: Changes
    block: BlockDifference
    edits: tuple[Edit, ...]
    around: Mapping[str, Mapping[str, tuple[Plain] | None]]

    def arm(self, name: str, edits: Iterable[str]) -> DesignArm:
        """Return the start with the named edits applied; KeyError for an unknown edit."""
        chosen = tuple(edits)
        changes: dict[str, Plain] = dict(self.start)
        for edit in chosen:
            for address, value in self.around.get(edit, {}).items():
                changes.pop(address, None)
                changes |= {} if value is None else {address: value[0]}
        block = self.block.apply(edit for edit in chosen if edit not in self.around)
        return DesignArm(name, block, chosen, tuple(sorted(changes.items())))


def difference_between(space: Space, ends: Ends, problems: Problems) -> TreatmentDifference | None:
    """Return the difference of the two ends, split as in the design; None where a mistake was reported."""
    before, after = space.blocks[ends.from_], space.blocks[ends.to]
    start, end = space.changes_of(ends.from_), space.changes_of(ends.to)
    around = _around(space, start, end)
    catalogue = space.grammar.catalogue
    varied = isinstance(ends, Factorial) and bool(ends.vary.factors)
    if fingerprint(before, catalogue) == fingerprint(after, catalogue) and not around and not varied:
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
    return TreatmentDifference(start, difference, (*difference.edits, *edits_around(space, start, end)), around)


def edits_around(space: Space, start: Changes, end: Changes) -> tuple[Edit, ...]:
    """Return the edits outside the block that lead from some changes to others."""
    around = _around(space, start, end)
    return tuple(_edit(name, dict(start), dict(end), addresses, space) for name, addresses in around.items())


def arm_of(space: Space, name: str, edits: tuple[str, ...] = ()) -> DesignArm:
    """Return the treatment of that name."""
    return DesignArm(name, space.blocks[name], edits, space.changes_of(name))


def refusals(models: Models, arm: DesignArm) -> tuple[str, ...]:
    """Return why a treatment cannot be trained: constraints that refuse its block, values that do not fit together."""
    reasons = [broken.reason for broken in models.space.refused(arm.block)]
    try:
        models.at(arm.changes)
    except InputError as error:
        reasons += [mistake.message for mistake in error.mistakes]
    return tuple(reasons)


def _around(space: Space, before: Changes, after: Changes) -> dict[str, dict[str, tuple[Plain] | None]]:
    """Return the edits outside the block: addresses one of which leads into the value of another change together."""
    start, end = dict(before), dict(after)
    different = sorted(a for a in {*start, *end} if a not in start or a not in end or start[a] != end[a])
    groups: list[list[str]] = []
    for address in different:  # an outer address comes before those inside it
        if groups and is_inside(address, groups[-1][0]):
            groups[-1].append(address)
        else:
            groups.append([address])
    to = {address: (end[address],) if address in end else None for address in different}
    return {
        " ".join(f"{address}={_value(space, end, address)}" for address in group if _names(address, group, end)): {
            address: to[address] for address in group
        }
        for group in groups
    }


def _names(address: str, group: Sequence[str], end: Mapping[str, Plain]) -> bool:
    """Return whether an address is part of an edit's name: every one that the end sets, or else the outermost."""
    return address in end or (address == group[0] and not set(group) & set(end))


def _edit(
    name: str,
    start: Mapping[str, Plain],
    end: Mapping[str, Plain],
    addresses: Mapping[str, tuple[Plain] | None],
    space: Space,
) -> Edit:
    before, after = (", ".join(_value(space, side, address) for address in addresses) for side in (start, end))
    return Edit(name, tuple(addresses), before, after, Rank.AROUND, ())


def _value(space: Space, changes: Mapping[str, Plain], address: str) -> str:
    """Return the value at an address under some changes, as text."""
    if address in changes:
        return text_of(changes[address])
    written = space.origins.written(*address.split("."))
    return "not set" if written is None else text_of(plain(to_python(written)))


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
