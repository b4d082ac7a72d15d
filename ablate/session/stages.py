"""Stages: what a run trains, stage by stage, as its trials have ended, and the plans that follow from that.

    times      for steps that follow from a wall-clock budget: seconds per step of each model, measured once
    tuning     every variant with every combination of the tuned settings, on the tuning split
    look 1     the verdict's first seeds
    look 2 …   more seeds, until every verdict is decided or the last look is reached

The current stage follows from how the trials have ended, and from nothing else: a run that was stopped, killed and
resumed, on any executor, ends with the same plan as one that was not. A trial that failed has ended, without a number.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ablate.data.streams import prepare
from ablate.errors import RefusedError
from ablate.execute.executor import FAILED, cache_of
from ablate.execute.forecaster import Forecaster
from ablate.output.words import plural
from ablate.plan.build import plan_of
from ablate.plan.identity import computed
from ablate.plan.models import Models
from ablate.plan.plan import NOTHING_KNOWN, Known, Plan, Trial
from ablate.plan.tuning import choose
from ablate.space.fair import Tune
from ablate.space.space import Space
from ablate.store.machines import Conditions, Paces, paces_in, paces_of, record_paces
from ablate.train.events import WITH_RESULT, Outcome
from ablate.verdict.contrasts import contrast
from ablate.verdict.experiment import Finals
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    from ablate.execute.machine import Pace
    from ablate.verdict.judgement import Account

Build: TypeAlias = "Callable[[Known], Plan]"
Ask: TypeAlias = "Callable[[Collection[str]], Finals]"
AccountOf: TypeAlias = "Callable[[Plan, Finals], Account]"


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a space over its corpus, for each state of knowledge; with a `forecaster` they have forecasts."""

    models: Models
    forecaster: Forecaster | None = None
    _built: list[tuple[Known, Plan]] = field(default_factory=list, repr=False, compare=False)

    def of(self, known: Known = NOTHING_KNOWN) -> Plan:
        """The plan that follows from what is known, built only once; InputError if there is none."""
        for before, plan in self._built:
            if before == known:
                return plan
        plan = plan_of(self.models, known)
        if self.forecaster is not None:
            plan = self.forecaster.of_plan(plan)
        self._built.append((known, plan))
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The current stage: its plan, `open` while more may follow, and `known`, from which it was built.

    `took` says what each look decided, `summary` is that of the last look taken.
    """

    plan: Plan
    known: Known
    took: tuple[str, ...] = ()
    summary: Summary | None = None


def adapts(space: Space) -> bool:
    """True if what is trained may depend on how trials end; for a space that is not a search."""
    return space.auto is not None or isinstance(space.fair.tune, Tune) or has_time_budget(space)


def has_time_budget(space: Space) -> bool:
    return any(terms.budget == "wallclock" for terms in space.fair.terms.values())


def counts(outcome: Outcome) -> bool:
    """True if a look need not wait for a trial with this outcome: it has a result, or it failed."""
    return outcome.kind in (*WITH_RESULT, *FAILED)


def unfold(
    space: Space, build: Build, *, ended: Collection[str], finals: Ask, paces: Mapping[str, float], account: AccountOf
) -> Stage:
    """The stage that follows from the trials that have `ended`, by id; `finals` reads how those in use ended.

    `build` makes the plan from what is known; `paces` are as in `Known`, empty before they were measured.
    """
    known = Known(paces=paces)
    plan = build(known)
    tuning = [trial.id for trial in plan.trials if trial.split == "tuning"]
    if isinstance(space.fair.tune, Tune) and tuning:
        if not set(tuning) <= set(ended):
            return Stage(plan=replace(plan, open=True), known=known)
        choice = choose(space, plan, finals(tuning), failed=tuning)  # all ended: a trial without a number has failed
        known, build = replace(known, tuned=choice.tuned), partial(_with_notes, build, choice.notes)
        plan = build(known)
    if plan.open or not plan.looks:  # open: numbers of steps depend on what was not measured yet
        return Stage(plan=plan, known=known)
    from ablate.verdict.judge import judge  # loads SciPy, which a plan before its first look does not need

    looks, summary, more = plan.looks, None, False
    took: tuple[str, ...] = ()
    for look, after in zip(looks, (*looks[1:], None), strict=True):  # each decides whether there is a next one
        known = replace(known, seeds=tuple(range(look)))
        plan = build(known)
        if not {trial.id for trial in plan.trials} <= set(ended):
            more = after is not None
            break
        ended_now = finals([trial.id for trial in plan.trials])
        summary = judge(plan, space.judge, ended_now, account(plan, ended_now))
        took = (*took, _look_result(plan, summary, look, after))
        if summary.decided:
            break
    return Stage(plan=replace(plan, open=more, notes=(*plan.notes, *took)), known=known, took=took, summary=summary)


def _with_notes(build: Build, notes: tuple[str, ...], known: Known) -> Plan:
    plan = build(known)
    return replace(plan, notes=(*plan.notes, *notes))


def _look_result(plan: Plan, summary: Summary, look: int, after: int | None) -> str:
    """Describe the result of a look and what follows; a contrast that appears twice counts once."""
    factors = dict(plan.factors)
    contrasts = {
        (c.kind, c.change, c.before, c.after, c.terms): contrast(c, factors)
        for c in plan.comparisons
        if c.kind != "noise"
    }
    verdicts = {
        (contrasts[e.kind, e.change, e.before, e.after, e.terms], e.metric): "identical" if e.identical else e.verdict
        for e in summary.effects
        if e.judged
    }
    decided = sum(verdict != "undecided" for verdict in verdicts.values())
    seen = f"after {look} seeds, {decided} of {len(verdicts)} verdicts decided"
    if summary.decided:
        return f"{seen}: no more seeds are needed"
    return f"{seen}: that was the last look" if after is None else f"{seen}: {plural(after - look, 'more seed')}"


# Wall-clock budgets: how long a training step of each model takes, measured once and stored in the results folder.
#
#     steps of a variant = steps of the baseline × seconds per step of the baseline / seconds per step of the variant
#
# Only training steps count: no evaluation, no probe, no start-up. They are measured on this machine, and from then on
# used in this folder, wherever its trials run: a plan that was made from them does not change.

SCATTERED = 0.1  # a warning is printed if the interquartile range of the ratios exceeds this share of their median


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedModel:
    """A model whose seconds per step are needed: its name, `Models.identity`, what it computes, and a trial of it."""

    name: str
    identity: str
    computed: str
    trial: Trial


def read_step_times(folder: Path, plans: Plans) -> Mapping[str, float]:
    """Seconds per step by `Models.identity` of every model whose steps depend on them; empty if any is unknown."""
    return _known_step_times(folder, plans.models, timed_models(plans))


def _known_step_times(folder: Path, models: Models, wanted: tuple[TimedModel, ...]) -> Mapping[str, float]:
    held = paces_of(paces_in(folder), [model.computed for model in wanted], _conditions(models)) if wanted else None
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
    """Read seconds per step; measure unknown ones (with `fresh`, all) in this process and store them; needs the lock.

    `say` prints what is measured, and what could not be. A model that completes no step counts as fast as the baseline.
    RefusedError if that is the baseline, and if the corpus is missing.
    """
    wanted, models = timed_models(plans), plans.models
    if not wanted or (not fresh and _known_step_times(folder, models, wanted)):
        return _known_step_times(folder, models, wanted)
    from ablate.execute.machine import timing_versions  # loads torch, which reading step times does not need

    baseline, *others = wanted
    here, conditions = timing_versions(), _conditions(models)
    before: dict[str, float] = {}
    for earlier in () if fresh else paces_in(folder):  # of this machine, beside this baseline: all to one reference
        if (earlier.reference, earlier.conditions, earlier.machine) == (baseline.computed, conditions, here):
            before = dict(earlier.seconds) if earlier.anew else {**earlier.seconds, **before}
    missing = [model for model in others if model.computed not in before]
    cache = cache_of(folder)
    if missing:
        say(f"measuring seconds per step, once: {', '.join(model.name for model in missing)} beside {baseline.name}")
        prepare(models.space.data, models.space.folder, cache, models.space.grammar.catalogue)
    measured = {model.computed: _pace_beside(model, baseline, cache, plugins, say) for model in missing}
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
    record_paces(folder, paces)
    return _known_step_times(folder, models, wanted)


def timed_models(plans: Plans) -> tuple[TimedModel, ...]:
    """The models whose seconds per step decide steps, the baseline first; none without a wall-clock budget."""
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


def _pace_beside(
    model: TimedModel, baseline: TimedModel, cache: Path, plugins: tuple[Path, ...], say: Callable[[str], None]
) -> Pace:
    """The pace of a model, or that of the baseline if the model takes no step."""
    from ablate.execute.machine import NoStep, Pace, pace  # loads torch, as above

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
    by_variant = {v.id: paces.get(models.as_written(v.block, v.setting)) for v in plan.variants} if paces else {}
    return {id: seconds for id, seconds in by_variant.items() if seconds is not None}
