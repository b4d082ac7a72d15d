"""Designs as choices among the subsets of edits: which blocks are trained, and which pairs are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ablate.block.diff import Difference, Edit, diff, path_order
from ablate.block.expression import Block
from ablate.block.fingerprint import fingerprint
from ablate.plan.plan import Factors
from ablate.source.problems import Problems, quote, suggest
from ablate.space.blocks import place_of_block
from ablate.space.design import LeaveOneOut, Path
from ablate.space.space import Space


@dataclass(frozen=True, slots=True)
class Arm:
    """A block that a design asks for: its name, and the edits applied to the design's start."""

    name: str
    block: Block
    edits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contrast:
    """A pair of arms, by name, that differ by `change`."""

    change: str
    detail: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Layout:
    """What a design comes to: arms, contrasts, and what a constraint left out, with its reason.

    `against` are the arms that are compared with the baseline (empty: all). The runs of `factors` are by arm.
    """

    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...]
    notes: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    factors: Factors | None = None


def lay_out(space: Space, problems: Problems) -> Layout | None:
    """The arms and contrasts of a space's design, unfolded; None where a mistake was noted."""
    design = space.design
    if design.search is not None:
        return Layout((Arm(design.search.from_, space.blocks[design.search.from_]),), ())
    if design.path is not None:
        difference = _difference(space, design.path, problems)
        return None if difference is None else _path(space, design.path, difference, problems)
    if design.leave_one_out is not None:
        difference = _difference(space, design.leave_one_out, problems)
        return None if difference is None else _leave_one_out(space, design.leave_one_out, difference)
    return Layout(tuple(Arm(name, space.blocks[name]) for name in dict.fromkeys(design.compare or ())), ())


def _difference(space: Space, ends: Path | LeaveOneOut, problems: Problems) -> Difference | None:
    before, after = space.blocks[ends.from_], space.blocks[ends.to]
    catalogue = space.grammar.catalogue
    if fingerprint(before, catalogue) == fingerprint(after, catalogue):
        problems.add(
            f"{ends.from_} and {ends.to} are the same block here: there is nothing to compare",
            space.keys["design"].span,
            notes=("name another block, or change what `block:` makes of them",),
        )
        return None
    split = ends.split if isinstance(ends.split, bool) else frozenset(ends.split)
    difference = diff(before, after, catalogue, split=split, defaults=space.grammar.defaults)
    if not isinstance(split, bool):
        whole = diff(before, after, catalogue, defaults=space.grammar.defaults)
        _check_names(split, whole.edits, "split", space, problems)
    return difference


def _check_names(
    names: Sequence[str] | frozenset[str], edits: tuple[Edit, ...], what: str, space: Space, problems: Problems
) -> None:
    known = tuple(edit.name for edit in path_order(edits))
    for name in sorted(set(names) - set(known)):
        problems.add(
            f"{what} names {quote(name)}, which is no edit of this design",
            place_of_block(space.located, name) or space.keys["design"].span,
            label=suggest(name, known) or "",
            notes=(f"its edits are: {', '.join(known)}",),
        )


def _path(space: Space, path: Path, difference: Difference, problems: Problems) -> Layout | None:
    _check_names(path.order, difference.edits, "order", space, problems)
    if len(problems):
        return None
    by_name = {edit.name: edit for edit in difference.edits}
    first = [by_name[name] for name in dict.fromkeys(path.order)]
    rest = [edit for edit in path_order(difference.edits) if edit not in first]
    arms, contrasts, notes = [Arm(path.from_, space.blocks[path.from_])], [], []
    pending: list[Edit] = []
    for step, edit in enumerate([*first, *rest], start=1):
        pending.append(edit)
        applied = (*arms[-1].edits, *(e.name for e in pending))
        last = step == len(difference.edits)
        block = space.blocks[path.to] if last else difference.apply(applied)
        reasons = space.grammar.refusals(block)
        if reasons and not last:
            notes.append(f"left out: {' + '.join(applied)} ({'; '.join(reasons)})")
            continue
        name = path.to if last else f"{path.from_}+{len(applied)}"
        change = " ".join(e.name for e in pending)
        detail = "; ".join(e.detail for e in pending)
        contrasts.append(Contrast(change, detail, arms[-1].name, name))
        arms.append(Arm(name, block, applied))
        pending = []
    return Layout(tuple(arms), tuple(contrasts), tuple(notes))


def _leave_one_out(space: Space, ends: LeaveOneOut, difference: Difference) -> Layout:
    names = tuple(edit.name for edit in path_order(difference.edits))
    full = Arm(ends.to, space.blocks[ends.to], names)
    arms, contrasts, notes = [Arm(ends.from_, space.blocks[ends.from_]), full], [], []
    for edit in path_order(difference.edits):
        kept = tuple(name for name in names if name != edit.name)
        block = difference.apply(kept)
        reasons = space.grammar.refusals(block)
        if reasons:
            notes.append(f"left out: {ends.to} without {edit.name} ({'; '.join(reasons)})")
            continue
        without = Arm(f"{ends.to} without {edit.name}", block, kept)
        arms.append(without)
        contrasts.append(Contrast(edit.name, edit.detail, without.name, full.name))
    return Layout(tuple(arms), tuple(contrasts), tuple(notes))
