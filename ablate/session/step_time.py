"""Wall-clock budgets: how long a training step of each model takes, measured once and kept in the results folder.

    steps of a variant = steps of the baseline × seconds a step of the baseline / seconds a step of the variant

Only training steps count: no evaluation, no probe, no start. They are measured on this machine, and hold from then on
in this folder, wherever its trials run: a plan that was made of them stays as it is.
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
from ablate.session.planned import Plans
from ablate.session.stages import has_time_budget
from ablate.store.step_times import Conditions, Paces, holding, kept, record

if TYPE_CHECKING:
    from ablate.execute.step_time import Pace

SCATTERED = 0.1
"""Where the middle half of the ratios of steps is wider than this share of their median, that is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedModel:
    """A model whose seconds a step are wanted: its name, `Models.identity`, what it computes, and a trial of it."""

    name: str
    identity: str
    computed: str
    trial: Trial


def read_step_times(folder: Path, plans: Plans) -> Mapping[str, float]:
    """Seconds a step by `Models.identity`, as `Known.paces` has them, of every model whose steps hang on it.

    Empty where no terms ask for a wall-clock budget, and where not all of them were measured. Loads no torch.
    """
    wanted = timed_models(plans)
    if not wanted:
        return {}
    held = _held(folder, plans.models, wanted)
    return {} if held is None else _by_identity(held, wanted)


def measure_step_times(
    folder: Path,
    plans: Plans,
    *,
    plugins: tuple[Path, ...] = (),
    fresh: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Mapping[str, float]:
    """The same, and what is not known is measured on this machine, in this process, and kept; needs the folder's lock.

    `fresh`: what is known is measured again. `say` is told what is measured, and what could not be. A model that takes
    no step to its end (it diverges at once) counts as fast as the baseline. RefusedError where that is the baseline,
    and where the corpus is not there.
    """
    wanted, models = timed_models(plans), plans.models
    held = None if fresh or not wanted else _held(folder, models, wanted)
    if wanted and held is None:
        held = _measure(folder, models, wanted, plugins, fresh=fresh, say=say)
        record(folder, held)
    return {} if held is None else _by_identity(held, wanted)


def timed_models(plans: Plans) -> tuple[TimedModel, ...]:
    """The models whose seconds a step decide steps, the baseline first; none without terms of a wall-clock budget."""
    models = plans.models
    if not has_time_budget(models.space):
        return ()
    plan, catalogue = plans.of(), models.space.grammar.catalogue
    variants = [plan.variant(plan.baseline), *(variant for variant in plan.variants if variant.setting.open)]
    found = [
        TimedModel(
            name=variant.name,
            identity=models.identity(variant.block, variant.setting),
            computed=computed(models.architecture(variant.block, variant.setting), catalogue),
            trial=next(models.trials([variant], [0])),
        )
        for variant in variants
    ]
    return tuple(found) if len(found) > 1 else ()


def _conditions(models: Models) -> Conditions:
    recipe = models.space.recipe
    return Conditions(batch=recipe.batch, dtype=recipe.dtype, threads=models.space.threads)


def _held(folder: Path, models: Models, wanted: tuple[TimedModel, ...]) -> Paces | None:
    return holding(kept(folder), [one.computed for one in wanted], _conditions(models))


def _by_identity(held: Paces, wanted: tuple[TimedModel, ...]) -> dict[str, float]:
    return {one.identity: held.seconds[one.computed] for one in wanted}


def _measure(
    folder: Path,
    models: Models,
    wanted: tuple[TimedModel, ...],
    plugins: tuple[Path, ...],
    *,
    fresh: bool,
    say: Callable[[str], None],
) -> Paces:
    """Each model beside the baseline; of those that this machine has measured before, what it found then."""
    from ablate.execute.step_time import machine  # with torch, which whoever reads step times does without

    baseline, *others = wanted
    here, conditions = machine(), _conditions(models)
    before = {} if fresh else _before(folder, baseline, conditions, here)
    missing = [one for one in others if one.computed not in before]
    cache = cache_of(folder)
    if missing:
        say(f"measuring seconds a step, once: {', '.join(one.name for one in missing)} beside {baseline.name}")
        prepare(models.space.data, models.space.folder, cache, models.space.grammar.catalogue)
    measured = {one.computed: _beside(one, baseline, cache, plugins, say) for one in missing}
    reference = before.get(baseline.computed) or statistics.median(found.beside for found in measured.values())
    again = {one.computed: before[one.computed] for one in others if one.computed in before}
    ratios = {key: reference * found.ratio for key, found in measured.items()}
    return Paces(
        reference=baseline.computed,
        seconds={baseline.computed: reference, **again, **ratios},
        conditions=conditions,
        machine=here,
        unmeasured={key: found.why for key, found in measured.items() if found.why},
        middles={key: found.middle for key, found in measured.items() if found.middle is not None},
        anew=fresh,
    )


def _beside(
    one: TimedModel, baseline: TimedModel, cache: Path, plugins: tuple[Path, ...], say: Callable[[str], None]
) -> Pace:
    """The pace of a model beside the baseline's; that of the baseline where the model takes no step."""
    from ablate.execute.step_time import NoStep, Pace, pace  # with torch, as above

    try:
        found = pace(one.trial, baseline.trial, cache=cache, plugins=plugins)
    except NoStep as error:
        try:
            alone = pace(baseline.trial, baseline.trial, cache=cache, plugins=plugins)
        except NoStep as none:
            raise RefusedError(
                f"a wall-clock budget is what {baseline.name} takes, and it takes no step: {none}\n"
                "  = mend the baseline, or compare under another budget"
            ) from None
        say(f"{one.name} takes no step ({error}): its steps are those of {baseline.name}")
        return Pace(alone.beside, alone.beside, why=str(error))
    say(f"a step of {one.name} takes {_ratio(found)} of one of {baseline.name}")
    if found.spread is not None and found.spread > SCATTERED:
        say(
            f"! these pairs scatter by {100 * found.spread:.0f} %: no more equal in time than that are the steps of "
            f"{one.name}. They hold from now on in this folder; to measure and train anew, with nothing else running "
            "here: ablate run --fresh"
        )
    return found


def _ratio(found: Pace) -> str:
    """`1.06 times the time (1.02 to 1.11 in the middle half of the pairs)`."""
    middle = "" if found.middle is None else " ({:.2f} to {:.2f} in the middle half of the pairs)".format(*found.middle)
    return f"{found.ratio:.3g} times the time{middle}"


def _before(folder: Path, baseline: TimedModel, conditions: Conditions, here: Mapping[str, str]) -> Mapping[str, float]:
    """What this machine has measured beside this baseline under these conditions, all to one reference."""
    found: dict[str, float] = {}
    for one in kept(folder):
        if one.reference == baseline.computed and one.conditions == conditions and one.machine == here:
            found = dict(one.seconds) if one.anew else {**one.seconds, **found}
    return found


def step_times_of(plan: Plan, models: Models, paces: Mapping[str, float]) -> dict[str, float]:
    """Seconds a step by variant id, of the variants of a plan that were measured, from `read_step_times`."""
    by_variant = {v.id: paces.get(models.identity(v.block, v.setting)) for v in plan.variants} if paces else {}
    return {id: seconds for id, seconds in by_variant.items() if seconds is not None}
