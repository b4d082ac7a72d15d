"""A ladder: every treatment at every size, compared with the baseline there, and over all sizes."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.errors import InputError
from ablate.output.words import listed
from ablate.plan.designs.between import refusals
from ablate.plan.designs.layout import Contrast, DesignArm, Layout
from ablate.plan.models import Models
from ablate.plan.plan import LadderStep, PlannedLadder, trend_name
from ablate.source.problems import Problems
from ablate.space.batch_ramp import sequences_of
from ablate.space.design import SizeLadderDesign
from ablate.space.fair import Tune
from ablate.space.ladder import LadderSize


def over_sizes(models: Models, ladder: SizeLadderDesign, problems: Problems) -> Layout | None:
    """Lay out the treatments at each size, from the least training compute to the most; None after a mistake.

    The baseline of the plan is that at the largest size.
    """
    against = models.space.judge.against
    others = tuple(name for name in dict.fromkeys(ladder.compare) if name != against)
    for size in ladder.sizes.every:
        _check(models, size, (against, *others), problems)
    if len(problems):
        return None
    sizes = sorted(ladder.sizes.sizes, key=lambda size: _compute(models, against, size))
    arms = [_arm(models, name, size) for size in sizes for name in (against, *others)]
    contrasts = [
        Contrast(
            _named(name, size), f"{against} → {name}, both at {size.name}", _named(against, size), _named(name, size)
        )
        for name in others
        for size in sizes
    ]
    detail = "how the compute that it saves over the baseline changes as compute grows: 0 where it saves the same share"
    contrasts += [Contrast(trend_name(name), f"{name} against {against}: {detail}", "", "", "trend") for name in others]
    after = ladder.sizes.next
    return Layout(
        arms=tuple(arms),
        contrasts=tuple(contrasts),
        notes=tuple(_notes(models, against, sizes)),
        against=(),
        baseline=_named(against, sizes[-1]),
        ladder=PlannedLadder(
            baseline=against,
            treatments=others,
            law=ladder.law,
            steps=tuple(
                LadderStep(size=size.name, variants=tuple((name, _named(name, size)) for name in (against, *others)))
                for size in sizes
            ),
            next="" if after is None else after.name,
            next_compute=()
            if after is None
            else tuple((name, float(_compute(models, name, after))) for name in (against, *others)),
        ),
    )


def _named(name: str, size: LadderSize) -> str:
    return f"{name} at {size.name}"


def _arm(models: Models, name: str, size: LadderSize) -> DesignArm:
    space = models.space
    changes = dict(space.changes_of(name)) | dict(size.changes)
    return DesignArm(_named(name, size), space.blocks[name], (), tuple(sorted(changes.items())), size.changes)


def _check(models: Models, size: LadderSize, names: tuple[str, ...], problems: Problems) -> None:
    """Report a size at which a treatment cannot be trained, or is the same model as the baseline."""
    seen: dict[str, str] = {}
    for name in names:
        arm = _arm(models, name, size)
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


def _compute(models: Models, name: str, size: LadderSize) -> int:
    """Return the training FLOPs of a treatment at a size, before anything is matched."""
    arm = _arm(models, name, size)
    recipe = models.recipe(arm.setting)
    return models.cost(arm.block, arm.setting).training_flops * sequences_of(recipe)


def _notes(models: Models, against: str, sizes: list[LadderSize]) -> Iterator[str]:
    """Say what grows from size to size, and whether each has a learning rate of its own."""
    space = models.space
    first, last = _compute(models, against, sizes[0]), _compute(models, against, sizes[-1])
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
