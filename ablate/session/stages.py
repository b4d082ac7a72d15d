"""What an adaptive run trains, stage by stage, depending on how its trials have ended.

    times      for steps that follow from a wall-clock budget: seconds per step of each model, measured once
    tuning     every variant with every combination of the tuned settings, on the tuning split
    look 1     the verdict's first seeds
    look 2 …   more seeds, until every verdict is decided or the last look is reached

The current stage follows from how the trials have ended, and from nothing else: a run that was stopped, killed and
resumed, on any executor, ends with the same plan as one that was not. A trial that failed has ended, without a number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ablate.execute.policy import FAILED
from ablate.output.words import plural
from ablate.plan.fair import choose
from ablate.plan.known import Known
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.space.fair import Tune
from ablate.space.space import Space
from ablate.train.events import WITH_RESULT, Outcome
from ablate.verdict.contrasts import contrast
from ablate.verdict.finals import Finals
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    from ablate.verdict.judgement import Account

Build: TypeAlias = "Callable[[Known], Plan]"
Ask: TypeAlias = "Callable[[Collection[str]], Finals]"
"""Read how trials ended, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What an adaptive run trains now. `plan` is open while more may follow, and `known` is what it was built from.

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
    """Return whether numbers of steps follow from measured time."""
    return any(terms.budget == "wallclock" for terms in space.fair.terms.values())


def counts(outcome: Outcome) -> bool:
    """Return whether a look need not wait for a trial with this outcome: it has a result, or it failed."""
    return outcome.kind in (*WITH_RESULT, *FAILED)


def unfold(
    space: Space,
    build: Build,
    *,
    ended: Collection[str],
    finals: Ask,
    paces: Mapping[str, float],
    account: Callable[[Plan, Finals], Account],
) -> Stage:
    """Return the stage that follows from the trials that have `ended`, by id; `finals` reads how those in use ended.

    `build` makes the plan from what is known; `paces` are as in `Known`, empty before they were measured. `account`
    says how often the questions of a plan were judged before.
    """
    known = Known(paces=paces)
    plan = build(known)
    tuning = [trial for trial in plan.trials if trial.split == "tuning"]
    if isinstance(space.fair.tune, Tune) and tuning:
        if not _all_ended(tuning, ended):
            return Stage(plan=replace(plan, open=True), known=known)
        known, notes = _tuned(space, plan, known, finals)
        build = partial(_with_notes, build, notes)
        plan = build(known)
    if plan.open or not plan.looks:  # open: numbers of steps depend on what was not measured yet
        return Stage(plan=plan, known=known)
    return _looked(space, build, plan, known, ended, finals, account)


def _with_notes(build: Build, notes: tuple[str, ...], known: Known) -> Plan:
    plan = build(known)
    return replace(plan, notes=(*plan.notes, *notes))


def _all_ended(trials: Collection[Trial], ended: Collection[str]) -> bool:
    return all(trial.id in ended for trial in trials)


def _tuned(space: Space, plan: Plan, known: Known, finals: Ask) -> tuple[Known, tuple[str, ...]]:
    ids = [trial.id for trial in plan.trials if trial.split == "tuning"]
    choice = choose(space, plan, finals(ids), failed=ids)  # all have ended: a trial without a number has failed
    return replace(known, tuned=choice.tuned), choice.notes


def _looked(
    space: Space,
    build: Build,
    plan: Plan,
    known: Known,
    ended: Collection[str],
    finals: Ask,
    account: Callable[[Plan, Finals], Account],
) -> Stage:
    """Take one look after another, as far as trials have ended: each decides whether there is a next one."""
    from ablate.verdict.judge import judge  # loads SciPy, which a plan before its first look does not need

    took: list[str] = []
    summary = None
    for look, after in zip(plan.looks, (*plan.looks[1:], None), strict=True):
        known = replace(known, seeds=tuple(range(look)))
        plan = build(known)
        if not _all_ended(plan.trials, ended):
            return Stage(
                plan=_noted(plan, took, open=after is not None), known=known, took=tuple(took), summary=summary
            )
        ended_now = finals([trial.id for trial in plan.trials])
        summary = judge(plan, space.judge, ended_now, account(plan, ended_now))
        took.append(_look_result(plan, summary, look, after))
        if summary.decided:
            break
    return Stage(plan=_noted(plan, took, open=False), known=known, took=tuple(took), summary=summary)


def _noted(plan: Plan, took: list[str], *, open: bool) -> Plan:
    return replace(plan, open=open, notes=(*plan.notes, *took))


def _look_result(plan: Plan, summary: Summary, look: int, after: int | None) -> str:
    """Describe the result of a look and what follows; a contrast that appears twice counts once."""
    factors = dict(plan.factors)
    contrasts = {
        (c.kind, c.change, c.before, c.after, c.terms): contrast(c, factors)
        for c in plan.comparisons
        if c.kind != "noise"
    }
    verdicts = {
        (contrasts[e.kind, e.change, e.before, e.after, e.terms], e.metric): e.verdict
        for e in summary.effects
        if e.judged
    }
    decided = sum(verdict != "undecided" for verdict in verdicts.values())
    seen = f"after {look} seeds, {decided} of {len(verdicts)} verdicts decided"
    if summary.decided:
        return f"{seen}: no more seeds are needed"
    return f"{seen}: that was the last look" if after is None else f"{seen}: {plural(after - look, 'more seed')}"
