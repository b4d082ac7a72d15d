"""Designs that change one edit at a time: paths, leave one out, add one in."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.block.diff import Edit, path_order
from ablate.plan.designs.between import TreatmentDifference, arm_of, check_names, note_single_edit, refusals
from ablate.plan.designs.layout import Contrast, Layout
from ablate.plan.models import Models
from ablate.source.problems import Problems
from ablate.space.design import AddOneIn, LeaveOneOut, Path
from ablate.space.space import Space

UNSUMMED = "whether the edits add up is not tested: that takes the effect of each of them"


def path_of(models: Models, path: Path, difference: TreatmentDifference, problems: Problems) -> Layout | None:
    """Lay out a path from one end to the other, one edit at a time; a refused model merges two steps into one."""
    space = models.space
    check_names(path.order, difference.edits, "order", space, problems)
    if len(problems):
        return None
    by_name = {edit.name: edit for edit in difference.edits}
    first = [by_name[name] for name in dict.fromkeys(path.order)]
    rest = [edit for edit in path_order(difference.edits) if edit not in first]
    arms, contrasts, notes = [arm_of(space, path.from_)], [], []
    pending: list[Edit] = []
    for step, edit in enumerate([*first, *rest], start=1):
        pending.append(edit)
        applied = (*arms[-1].edits, *(e.name for e in pending))
        last = step == len(difference.edits)
        name = path.to if last else f"{path.from_}+{len(applied)}"
        arm = arm_of(space, name, applied) if last else difference.arm(name, applied)
        reasons = refusals(models, arm)
        if reasons and not last:
            notes.append(f"left out: {' + '.join(applied)} ({'; '.join(reasons)})")
            continue
        change = " ".join(e.name for e in pending)
        detail = "; ".join(e.detail for e in pending)
        contrasts.append(Contrast(change, detail, arms[-1].name, name))
        arms.append(arm)
        pending = []
    return Layout(tuple(arms), tuple(contrasts), tuple(notes))


def leave_one_out(models: Models, ends: LeaveOneOut, difference: TreatmentDifference) -> Layout:
    """Lay out the whole and the whole without each edit, and the whole difference against the sum of their effects."""
    space, names = models.space, tuple(edit.name for edit in path_order(difference.edits))
    full = arm_of(space, ends.to, names)
    arms, contrasts, notes = [arm_of(space, ends.from_), full], [], []
    for edit in path_order(difference.edits):
        kept = tuple(name for name in names if name != edit.name)
        without = difference.arm(f"{ends.to} without {edit.name}", kept)
        if reasons := refusals(models, without):
            notes.append(f"left out: {ends.to} without {edit.name} ({'; '.join(reasons)})")
            continue
        arms.append(without)
        contrasts.append(Contrast(edit.name, edit.detail, without.name, full.name))
    if notes:
        notes.append(UNSUMMED)
    elif len(names) > 1:
        sum_of = "the whole difference, minus the effect of each edit when all others are present"
        contrasts.append(_beyond_the_sum(ends, contrasts, sum_of))
    return Layout(tuple(arms), tuple(contrasts), tuple(notes), _whole(space, ends))


def add_one_in(models: Models, ends: AddOneIn, difference: TreatmentDifference, problems: Problems) -> Layout | None:
    """Lay out each edit alone, and the whole against their sum; None where there is only one edit."""
    space, edits = models.space, path_order(difference.edits)
    if len(edits) < 2:
        note_single_edit(space, ends, edits, problems)
        return None
    arms, contrasts, notes = [arm_of(space, ends.from_)], [], []
    for edit in edits:
        arm = difference.arm(f"{ends.from_} with {edit.name}", (edit.name,))
        if reasons := refusals(models, arm):
            notes.append(f"left out: {ends.from_} with {edit.name} ({'; '.join(reasons)})")
            continue
        arms.append(arm)
        contrasts.append(Contrast(edit.name, edit.detail, ends.from_, arms[-1].name))
    arms.append(arm_of(space, ends.to, tuple(edit.name for edit in edits)))
    if notes:
        notes.append(UNSUMMED)
    else:
        contrasts.append(_beyond_the_sum(ends, contrasts, "the whole difference, minus the effect of each edit alone"))
    return Layout(tuple(arms), tuple(contrasts), tuple(notes), _whole(space, ends))


def _whole(space: Space, ends: LeaveOneOut | AddOneIn) -> tuple[str, ...] | None:
    """Return the arms compared with a baseline that is the start: the whole alone, as edits are judged one by one."""
    return (ends.to,) if space.judge.against == ends.from_ else None


def _beyond_the_sum(ends: LeaveOneOut | AddOneIn, contrasts: Sequence[Contrast], detail: str) -> Contrast:
    """Return the contrast (to - from) - sum (after - before) over the edits: 0 where they add up."""
    weights: dict[str, float] = {ends.from_: -1.0, ends.to: 1.0}
    for contrast in contrasts:
        weights[contrast.after] = weights.get(contrast.after, 0.0) - 1.0
        weights[contrast.before] = weights.get(contrast.before, 0.0) + 1.0
    kept = tuple((name, weight) for name, weight in weights.items() if weight)
    return Contrast("all together, beyond their sum", detail, "", "", "interaction", kept)
