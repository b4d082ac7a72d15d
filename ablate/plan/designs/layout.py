"""Layout: the arms of a design and the contrasts between them, and the designs that do not combine edits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ablate.block.diff import BlockDifference, Edit, Rank, diff, path_order
from ablate.block.expression import Block
from ablate.block.normal_form import fingerprint
from ablate.errors import InputError
from ablate.output.words import listed
from ablate.plan.models import Models
from ablate.plan.plan import Factors, LadderStep, PlannedLadder, Setting, trend_name
from ablate.source.located import Span, to_python
from ablate.source.problems import Problems, quote
from ablate.space.design import AddOneIn, Ends, Factorial, LeaveOneOut, Path, SizeLadderDesign
from ablate.space.fair import Plain, Tune, plain, text_of
from ablate.space.schedule import sequences_of
from ablate.space.space import Space, place_of_block
from ablate.space.variants import Changes, is_inside
from ablate.space.vary import LadderSize


@dataclass(frozen=True, slots=True)
class DesignArm:
    """A treatment of a design: its name, block and changes around it, and the edits applied to the design's start.

    `size` are those of its changes that make its size, which the baseline that it is compared with has too.
    """

    name: str
    block: Block
    edits: tuple[str, ...] = ()
    changes: Changes = ()
    size: Changes = ()

    @property
    def setting(self) -> Setting:
        return Setting(changes=self.changes)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two arms, by name, that differ by `change`, or with `weights` a weighted sum of arms (`kind`: `plan.Comparison`).

    With weights, and for the effects of a factorial, `before` and `after` are empty.
    """

    change: str
    detail: str
    before: str
    after: str
    kind: str = "edit"
    weights: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class DesignLayout:
    """The arms and contrasts of a design, and notes on what a constraint left out, with its reason.

    `against` are the arms that are compared with the baseline (None: all), `baseline` is its name (empty: that of the
    judge). The runs of `factors` and the steps of a `ladder` are by arm.
    """

    arms: tuple[DesignArm, ...]
    contrasts: tuple[Contrast, ...]
    notes: tuple[str, ...] = ()
    against: tuple[str, ...] | None = None
    factors: Factors | None = None
    baseline: str = ""
    ladder: PlannedLadder | None = None


# The edits between the two ends of a design: in the block, and at addresses of the space around it.


@dataclass(frozen=True, slots=True)
class TreatmentDifference:
    """The edits that lead from one treatment to another; `arm` builds the treatments in between.

    `around` has, by edit, the addresses changed outside the block with the value at the end (None: that of the space).
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
        check_edit_names(split, whole.edits, "split", space, problems)
    return TreatmentDifference(start, difference, (*difference.edits, *edits_around(space, start, end)), around)


def edits_around(space: Space, start: Changes, end: Changes) -> tuple[Edit, ...]:
    edits = []
    for name, addresses in _around(space, start, end).items():
        before, after = (", ".join(_value_text(space, dict(side), a) for a in addresses) for side in (start, end))
        edits.append(Edit(name, tuple(addresses), before, after, Rank.AROUND, ()))
    return tuple(edits)


def arm_of(space: Space, name: str, edits: tuple[str, ...] = ()) -> DesignArm:
    return DesignArm(name, space.blocks[name], edits, space.changes_of(name))


def refusals(models: Models, arm: DesignArm) -> tuple[str, ...]:
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
        " ".join(
            f"{address}={_value_text(space, end, address)}" for address in group if _is_named(address, group, end)
        ): {address: to[address] for address in group}
        for group in groups
    }


def _is_named(address: str, group: Sequence[str], end: Mapping[str, Plain]) -> bool:
    """Return whether an address is part of an edit's name: every one that the end sets, or else the outermost."""
    return address in end or (address == group[0] and not set(group) & set(end))


def _value_text(space: Space, changes: Mapping[str, Plain], address: str) -> str:
    if address in changes:
        return text_of(changes[address])
    written = space.origins.written(*address.split("."))
    return "not set" if written is None else text_of(plain(to_python(written)))


def check_edit_names(
    names: Sequence[str] | frozenset[str], edits: tuple[Edit, ...], what: str, space: Space, problems: Problems
) -> None:
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
    message = f"there is only one edit from {ends.from_} to {ends.to}: {edits[0].name}"
    apart = ", or split it place by place with split: true" if len(edits[0].places) > 1 else ""
    problems.add(message, place_in_design(space), notes=(f"use compare: [{ends.from_}, {ends.to}]{apart}",))


# Designs that change one edit at a time: paths, leave one out, add one in.

UNSUMMED = "whether the edits add up is not tested: that takes the effect of each of them"


def path_of(models: Models, path: Path, difference: TreatmentDifference, problems: Problems) -> DesignLayout | None:
    """Lay out a path from one end to the other, one edit at a time; a refused model merges two steps into one."""
    space = models.space
    check_edit_names(path.order, difference.edits, "order", space, problems)
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
    return DesignLayout(tuple(arms), tuple(contrasts), tuple(notes))


def leave_one_out(models: Models, ends: LeaveOneOut, difference: TreatmentDifference) -> DesignLayout:
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
    return DesignLayout(tuple(arms), tuple(contrasts), tuple(notes), _whole_against_start(space, ends))


def add_one_in(
    models: Models, ends: AddOneIn, difference: TreatmentDifference, problems: Problems
) -> DesignLayout | None:
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
    return DesignLayout(tuple(arms), tuple(contrasts), tuple(notes), _whole_against_start(space, ends))


def _whole_against_start(space: Space, ends: LeaveOneOut | AddOneIn) -> tuple[str, ...] | None:
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


# Ladders: every treatment at every size, compared with the baseline there, and over all sizes.


def over_sizes(models: Models, ladder: SizeLadderDesign, problems: Problems) -> DesignLayout | None:
    """Lay out the treatments at each size, from the least training compute to the most; None after a mistake.

    The baseline of the plan is that at the largest size.
    """
    against = models.space.judge.against
    others = tuple(name for name in dict.fromkeys(ladder.compare) if name != against)
    for size in ladder.sizes.every:
        _check_size(models, size, (against, *others), problems)
    if len(problems):
        return None
    sizes = sorted(ladder.sizes.sizes, key=lambda size: _training_compute(models, against, size))
    arms = [_arm_at_size(models, name, size) for size in sizes for name in (against, *others)]
    contrasts = [
        Contrast(
            _at_size(name, size),
            f"{against} → {name}, both at {size.name}",
            _at_size(against, size),
            _at_size(name, size),
        )
        for name in others
        for size in sizes
    ]
    detail = "how the compute that it saves over the baseline changes as compute grows: 0 where it saves the same share"
    contrasts += [Contrast(trend_name(name), f"{name} against {against}: {detail}", "", "", "trend") for name in others]
    after = ladder.sizes.next
    return DesignLayout(
        arms=tuple(arms),
        contrasts=tuple(contrasts),
        notes=tuple(_ladder_notes(models, against, sizes)),
        against=(),
        baseline=_at_size(against, sizes[-1]),
        ladder=PlannedLadder(
            baseline=against,
            treatments=others,
            law=ladder.law,
            steps=tuple(
                LadderStep(size=size.name, variants=tuple((name, _at_size(name, size)) for name in (against, *others)))
                for size in sizes
            ),
            next="" if after is None else after.name,
            next_compute=()
            if after is None
            else tuple((name, float(_training_compute(models, name, after))) for name in (against, *others)),
        ),
    )


def _at_size(name: str, size: LadderSize) -> str:
    return f"{name} at {size.name}"


def _arm_at_size(models: Models, name: str, size: LadderSize) -> DesignArm:
    space = models.space
    changes = dict(space.changes_of(name)) | dict(size.changes)
    return DesignArm(_at_size(name, size), space.blocks[name], (), tuple(sorted(changes.items())), size.changes)


def _check_size(models: Models, size: LadderSize, names: tuple[str, ...], problems: Problems) -> None:
    seen: dict[str, str] = {}
    for name in names:
        arm = _arm_at_size(models, name, size)
        reasons = list(refusals(models, arm))
        if not reasons:
            try:
                identity = models.treatment(arm.block, arm.setting)
                models.cost(arm.block, arm.setting)
            except InputError as error:
                reasons = [mistake.message for mistake in error.mistakes] or [str(error)]
        if reasons:
            message = f"{name} cannot be trained at {size.name}: {'; '.join(reasons)}"
            problems.add(message, size.written.span, notes=("change the size",))
            continue
        if identity in seen:
            message = f"{seen[identity]} and {name} are the same model at {size.name}: there is nothing to compare"
            problems.add(message, size.written.span, notes=(f"remove {name} from compare, or change the size",))
        seen[identity] = name


def _training_compute(models: Models, name: str, size: LadderSize) -> int:
    """Return the training FLOPs of a treatment at a size, before anything is matched."""
    arm = _arm_at_size(models, name, size)
    recipe = models.recipe(arm.setting)
    return models.cost(arm.block, arm.setting).training_flops * sequences_of(recipe)


def _ladder_notes(models: Models, against: str, sizes: list[LadderSize]) -> Iterator[str]:
    space = models.space
    first, last = _training_compute(models, against, sizes[0]), _training_compute(models, against, sizes[-1])
    yield f"training compute of {against} from {first:.3g} to {last:.3g} FLOPs over {len(sizes)} sizes"
    fixed = {change.address for size in sizes for change in size.changed}
    by_hand = sorted(address for address in fixed if address.startswith("recipe.optimizer"))
    if isinstance(space.fair.tune, Tune):
        yield f"each treatment is tuned at each size: {listed([field.spoken for field in space.fair.tune.fields])}"
    elif by_hand:
        yield f"each size has its own {listed(by_hand)}, which nothing has tuned"
    else:
        yield (
            "every size has the same learning rate, which nothing tuned: what one size gains may be that the rate "
            "suits it (fair: {tune: …} tunes each size; blocks under µP, as in mup, keep one rate)"
        )
