"""Wall-clock budgets: how long a training step of each model takes, measured once and stored in the results folder.

    steps of a variant = steps of the baseline × seconds per step of the baseline / seconds per step of the variant

Only training steps count: no evaluation, no probe, no start-up. They are measured on this machine, and from then on
used in this folder, wherever its trials run: a plan that was made from them does not change.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.data.streams import prepare
from ablate.errors import RefusedError
from ablate.execute.task import cache_of
from ablate.plan.identity import computed
from ablate.plan.models import Models
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.session.stages import Plans, has_time_budget
from ablate.store.step_times import Conditions, Paces, holding, kept, record

if TYPE_CHECKING:
    from ablate.execute.step_time import Pace

SCATTERED = 0.1
"""A warning is printed if the interquartile range of the ratios exceeds this share of their median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedModel:
    """A model whose seconds per step are needed: its name, `Models.identity`, what it computes, and a trial of it."""

    name: str
    identity: str
    computed: str
    trial: Trial


def read_step_times(folder: Path, plans: Plans) -> Mapping[str, float]:
    """Read seconds per step by `Models.identity` of every model whose steps depend on them; empty if any is unknown."""
    return _known(folder, plans.models, timed_models(plans))


def _known(folder: Path, models: Models, wanted: tuple[TimedModel, ...]) -> Mapping[str, float]:
    held = holding(kept(folder), [model.computed for model in wanted], _conditions(models)) if wanted else None
    return {} if held is None else {model.identity: held.seconds[model.computed] for model in wanted}


def _conditions(models: Models) -> Conditions:
    recipe = models.space.recipe
    return Conditions(batch=recipe.batch, dtype=recipe.dtype, threads=models.space.threads)


def measure_step_times(
    folder: Path,
    plans: Plans,
    *,
    plugins: tuple[Path, ...] = (),
    fresh: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Mapping[str, float]:
    """Read seconds per step, and measure and store unknown ones, in this process; needs the folder's lock.

    With `fresh`, known ones are measured again. `say` prints what is measured, and what could not be. A model that
    completes no step (it diverges at once) counts as fast as the baseline. RefusedError if that is the baseline, and if
    the corpus is missing.
    """
    wanted, models = timed_models(plans), plans.models
    if not wanted or (not fresh and _known(folder, models, wanted)):
        return _known(folder, models, wanted)
    from ablate.execute.step_time import machine  # loads torch, which reading step times does not need

    baseline, *others = wanted
    here, conditions = machine(), _conditions(models)
    before: dict[str, float] = {}
    for earlier in () if fresh else kept(folder):  # of this machine, beside this baseline: all to one reference
        if (earlier.reference, earlier.conditions, earlier.machine) == (baseline.computed, conditions, here):
            before = dict(earlier.seconds) if earlier.anew else {**earlier.seconds, **before}
    missing = [model for model in others if model.computed not in before]
    cache = cache_of(folder)
    if missing:
        say(f"measuring seconds per step, once: {', '.join(model.name for model in missing)} beside {baseline.name}")
        prepare(models.space.data, models.space.folder, cache, models.space.grammar.catalogue)
    measured = {model.computed: _beside(model, baseline, cache, plugins, say) for model in missing}
    reference = before.get(baseline.computed) or statistics.median(pace.beside for pace in measured.values())
    again = {model.computed: before[model.computed] for model in others if model.computed in before}
    ratios = {key: reference * pace.ratio for key, pace in measured.items()}
    paces = Paces(
        reference=baseline.computed,
        seconds={baseline.computed: reference, **again, **ratios},
        conditions=conditions,
        machine=here,
        unmeasured={key: pace.why for key, pace in measured.items() if pace.why},
        middles={key: pace.middle for key, pace in measured.items() if pace.middle is not None},
        anew=fresh,
    )
    record(folder, paces)
    return _known(folder, models, wanted)


def timed_models(plans: Plans) -> tuple[TimedModel, ...]:
    """Return the models whose seconds per step decide steps, the baseline first; none without a wall-clock budget."""
    models = plans.models
    if not has_time_budget(models.space):
        return ()
    plan, catalogue = plans.of(), models.space.grammar.catalogue
    variants = [plan.variant(plan.baseline), *(variant for variant in plan.variants if variant.setting.open)]
    timed = [
        TimedModel(
            name=variant.name,
            identity=models.as_written(variant.block, variant.setting),
            computed=computed(models.architecture(variant.block, variant.setting), catalogue),
            trial=next(models.trials([variant], [0])),
        )
        for variant in variants
    ]
    return tuple(timed) if len(timed) > 1 else ()


def _beside(
    model: TimedModel, baseline: TimedModel, cache: Path, plugins: tuple[Path, ...], say: Callable[[str], None]
) -> Pace:
    """Measure the pace of a model beside the baseline; return that of the baseline if the model takes no step."""
    from ablate.execute.step_time import NoStep, Pace, pace  # loads torch, as above

    try:
        measured = pace(model.trial, baseline.trial, cache=cache, plugins=plugins)
    except NoStep as error:
        try:
            alone = pace(baseline.trial, baseline.trial, cache=cache, plugins=plugins)
        except NoStep as none:
            raise RefusedError(
                f"a wall-clock budget is the time of {baseline.name}, which completes no step: {none}\n"
                "  = fix the baseline, or compare under another budget"
            ) from None
        say(f"{model.name} completes no step ({error}): it gets as many steps as {baseline.name}")
        return Pace(alone.beside, alone.beside, why=str(error))
    middle = measured.middle
    within = "" if middle is None else " ({:.2f} to {:.2f} in the middle half of the pairs)".format(*middle)
    say(f"a step of {model.name} takes {measured.ratio:.3g} times the time{within} of one of {baseline.name}")
    if measured.spread is not None and measured.spread > SCATTERED:
        say(
            f"! these pairs scatter by {100 * measured.spread:.0f} %: the steps of {model.name} are equal in time only "
            "to within that. They are used from now on in this folder; to measure and train again, with nothing else "
            "running here: ablate run --fresh"
        )
    return measured


def step_times_of(plan: Plan, models: Models, paces: Mapping[str, float]) -> dict[str, float]:
    """Return seconds per step by variant id, of the measured variants of a plan, from `read_step_times`."""
    by_variant = {v.id: paces.get(models.as_written(v.block, v.setting)) for v in plan.variants} if paces else {}
    return {id: seconds for id, seconds in by_variant.items() if seconds is not None}
