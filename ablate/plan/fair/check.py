"""Checks of `fair` across sections of a space: whether it fits the design, the recipe and the seeds."""

from __future__ import annotations

from ablate.plan.fair.tuning import tuning_seeds
from ablate.source.problems import Problems
from ablate.space.fair import DEPTH, HIDDEN, WIDTH, Fair, Match, Tune
from ablate.space.space import Space
from ablate.space.variants import Change, is_inside

RESIZED = {WIDTH: ("model.width", "model.heads"), DEPTH: ("model.layers",), HIDDEN: ()}
"""The sizes that a match changes."""
UNTIMED = ("recipe.batch", "recipe.batch_ramp", "recipe.dtype", "recipe.optimizer", "data.")
"""Addresses whose effect on seconds per step is not measured."""
TIMED = "seconds per step are measured with the batch, precision, optimiser and text of the space"


def check_fair(space: Space, problems: Problems) -> None:
    """Report terms that a search does not support, and tuning by what has no best, or at seeds of the verdict."""
    fair = space.fair
    declared = not all(terms.plain for terms in fair.terms.values()) or fair.under or fair.tune != "none"
    if space.design.search is not None and declared:
        message = "a search trains each block at the sizes and for the steps of the space: fair has no effect on it"
        notes = ("remove fair, and compare the blocks found in a separate space: design: {compare: [...]}",)
        problems.add(message, space.origins.section("fair"), notes=notes)
    if isinstance(fair.tune, Tune):
        _check_seeds(fair.tune, space, problems)
        _check_side(space, problems)
    for variant in space.variants.values():
        for change in variant.changes:
            if (why := _contradicted(change, fair)) is not None:
                message = f"{change.address} of variant {variant.name} and fair contradict each other: {why}"
                problems.add(
                    message, change.key.span, notes=(f"remove {change.address} from the variant, or from fair",)
                )

    for factor in space.design.vary.factors:
        first = None if factor.in_block else factor.change(factor.levels[0])
        if first is not None and (why := _contradicted(first, fair)) is not None:
            message = f"vary of {factor.address} and fair contradict each other: {why}"
            problems.add(message, factor.key.span, notes=(f"remove {factor.address} from vary, or from fair",))
    for change in space.design.sizes.changes:
        timed = any(terms.budget == "wallclock" and change.address.startswith(UNTIMED) for terms in fair.terms.values())
        if (why := TIMED if timed else _tuned(change, fair)) is not None:
            message = f"{change.address} of a size and fair contradict each other: {why}"
            problems.add(message, change.key.span, notes=(f"remove {change.address} from the sizes, or from fair",))


def _contradicted(change: Change, fair: Fair) -> str | None:
    """Return why what is held equal would undo a change, or could not take it into account; None where it can."""
    for terms in fair.terms.values():
        if terms.budget != "steps" and is_inside(change.address, "recipe.steps"):
            return f"with budget: {terms.budget} the steps follow from what the baseline spends"
        if terms.budget == "wallclock" and change.address.startswith(UNTIMED):
            return TIMED
        if isinstance(terms.match, Match) and change.address in RESIZED[terms.match.by]:
            return f"match by {terms.match.by} sets that size"
    return _tuned(change, fair)


def _tuned(change: Change, fair: Fair) -> str | None:
    """Return which tuned field would replace the value of a change; None where none does."""
    for field in fair.tune.fields if isinstance(fair.tune, Tune) else ():
        tuned = ".".join(field.path)
        if tuned and is_inside(change.address, tuned):
            return f"fair.tune chooses {field.name}"
    return None


def _check_side(space: Space, problems: Problems) -> None:
    """Report tuning by a metric of which no value is the best."""
    name, judged = next(iter(space.judge.metrics.items()))
    if judged.better == "none":
        message = f"no setting is the best by {name}, the first metric judged: neither side of it is better"
        notes = (
            "judge another metric first, such as eval_loss",
            f"or name a side: judge: {{metrics: {{{name}: {{better: lower}}}}}}",
        )
        also = ((space.origins.key("judge", "metrics", name), "judged first"),)
        problems.add(message, space.origins.key("fair", "tune"), notes=notes, also=also)


def _check_seeds(tune: Tune, space: Space, problems: Problems) -> None:
    both = sorted(set(space.seeds) & set(tuning_seeds(tune)))
    if both:
        message = f"seed {both[0]:,} is a tuning seed: the verdict would reuse the runs that settings were chosen by"
        notes = (f"seeds from {tuning_seeds(tune)[0]:,} on are reserved for tuning: use lower ones for the verdict",)
        problems.add(message, space.origins.section("seeds"), notes=notes)
