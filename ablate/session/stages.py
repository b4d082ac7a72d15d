"""What a run trains, stage by stage, depending on how its trials have ended; and the plans that follow from that.

    times      for steps that follow from a wall-clock budget: seconds per step of each model, measured once
    tuning     every variant with every combination of the tuned settings, on the tuning split
    look 1     the verdict's first seeds
    look 2 …   more seeds, until every verdict is decided or the last look is reached

The current stage follows from how the trials have ended, and from nothing else: a run that was stopped, killed and
resumed, on any executor, ends with the same plan as one that was not. A trial that failed has ended, without a number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ablate.execute.forecaster import Forecaster
from ablate.execute.policy import FAILED
from ablate.output.words import plural
from ablate.plan.build import build_plan
from ablate.plan.fair import choose
from ablate.plan.known import NOTHING, Known
from ablate.plan.models import Models
from ablate.plan.plan import Plan
from ablate.space.fair import Tune
from ablate.space.space import Space
from ablate.train.events import WITH_RESULT, Outcome
from ablate.verdict.contrasts import contrast
from ablate.verdict.finals import Finals
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    from ablate.verdict.account import Account

Build: TypeAlias = "Callable[[Known], Plan]"
Ask: TypeAlias = "Callable[[Collection[str]], Finals]"
"""Read how trials ended, by id."""
AccountOf: TypeAlias = "Callable[[Plan, Finals], Account]"
"""Count how often the questions of a plan were judged before."""


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a space over its corpus: one for each state of knowledge, each built only once.

    With a `forecaster` they have forecasts of their variants.
    """

    models: Models
    forecaster: Forecaster | None = None
    _built: list[tuple[Known, Plan]] = field(default_factory=list, repr=False, compare=False)

    def of(self, known: Known = NOTHING) -> Plan:
        """Return the plan that follows from what is known; InputError if there is none."""
        for before, plan in self._built:
            if before == known:
                return plan
        models = self.models
        plan = build_plan(
            models.space,
            vocab_size=models.vocab_size,
            corpus=models.corpus,
            repetition=models.repetition,
            read=models.read,
            known=known,
        )
        if self.forecaster is not None:
            plan = self.forecaster.of_plan(plan)
        self._built.append((known, plan))
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a run trains now. `plan` is open while more may follow, and `known` is what it was built from.

    `took` says what each look decided, `summary` is that of the last look taken.
    """

    plan: Plan
    known: Known
    took: tuple[str, ...] = ()
    summary: Summary | None = None


def adapts(space: Space) -> bool:
    """Return whether what is trained may depend on how trials end; for a space that is not a search."""
    return space.auto is not None or isinstance(space.fair.tune, Tune) or has_time_budget(space)


def has_time_budget(space: Space) -> bool:
    return any(terms.budget == "wallclock" for terms in space.fair.terms.values())


def counts(outcome: Outcome) -> bool:
    """Return whether a look need not wait for a trial with this outcome: it has a result, or it failed."""
    return outcome.kind in (*WITH_RESULT, *FAILED)


def unfold(
    space: Space, build: Build, *, ended: Collection[str], finals: Ask, paces: Mapping[str, float], account: AccountOf
) -> Stage:
    """Return the stage that follows from the trials that have `ended`, by id; `finals` reads how those in use ended.

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
