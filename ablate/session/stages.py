"""What an adaptive run asks for, stage by stage, from how its trials have ended.

    times      where steps follow from a wall-clock budget: how long a step of each model takes, measured once
    tuning     every variant with every combination of the settings in question, on the tuning split
    look 1     the verdict's first seeds
    look 2 …   more seeds, until every verdict is decided or the last look is reached

Which stage it is at follows from how the trials have ended, and from nothing else: a run that was stopped, killed and
gone on with, on whatever executor, ends with the plan of one that was not. A trial that failed has ended, without a
number.
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
"""The ends of trials, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What an adaptive run asks for now. `plan` is open while more may follow, and `known` is what it was built with.

    `took` says what each look came to, `summary` is that of the last one taken.
    """

    plan: Plan
    known: Known
    took: tuple[str, ...] = ()
    summary: Summary | None = None


def adapts(space: Space) -> bool:
    """Whether what is trained may depend on how trials end; a search is another matter."""
    return space.auto is not None or isinstance(space.fair.tune, Tune) or has_time_budget(space)


def has_time_budget(space: Space) -> bool:
    """Whether steps follow from measured time."""
    return any(terms.budget == "wallclock" for terms in space.fair.terms.values())


def counts(outcome: Outcome) -> bool:
    """Whether a look need not wait for a trial that ended so: with a result, or as one that failed."""
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
    """The stage that follows from the trials that have `ended`, by id; `finals` is asked for those that count.

    `build` makes the plan from what is known; `paces` are as `Known` has them, empty before they were measured.
    `account` says of a plan how often what it asks was judged before.
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
    if plan.open or not plan.looks:  # open: steps hang on what was not measured yet
        return Stage(plan=plan, known=known)
    return _looked(space, build, plan, known, ended, finals, account)


def _with_notes(build: Build, notes: tuple[str, ...], known: Known) -> Plan:
    plan = build(known)
    return replace(plan, notes=(*plan.notes, *notes))


def _all_ended(trials: Collection[Trial], ended: Collection[str]) -> bool:
    return all(trial.id in ended for trial in trials)


def _tuned(space: Space, plan: Plan, known: Known, finals: Ask) -> tuple[Known, tuple[str, ...]]:
    ids = [trial.id for trial in plan.trials if trial.split == "tuning"]
    choice = choose(space, plan, finals(ids), failed=ids)  # all have ended: what has no number here has failed
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
    """Look after look, as far as trials have ended: what was seen then decides whether there is a next one."""
    from ablate.verdict.judge import judge  # with SciPy, which a plan that is not at a look yet does without

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
        took.append(_said(plan, summary, look, after))
        if summary.decided:
            break
    return Stage(plan=_noted(plan, took, open=False), known=known, took=tuple(took), summary=summary)


def _noted(plan: Plan, took: list[str], *, open: bool) -> Plan:
    return replace(plan, open=open, notes=(*plan.notes, *took))


def _said(plan: Plan, summary: Summary, look: int, after: int | None) -> str:
    """What a look came to, and what follows; what is asked twice of the same variants counts once."""
    factors = dict(plan.factors)
    asked = {
        (c.kind, c.change, c.before, c.after, c.terms): contrast(c, factors)
        for c in plan.comparisons
        if c.kind != "noise"
    }
    verdicts = {
        (asked[effect.kind, effect.change, effect.before, effect.after, effect.terms], effect.metric): effect.verdict
        for effect in summary.effects
        if effect.judged
    }
    decided = sum(verdict != "undecided" for verdict in verdicts.values())
    seen = f"after {look} seeds, {decided} of {len(verdicts)} verdicts decided"
    if summary.decided:
        return f"{seen}: no more are needed"
    return f"{seen}: that was the last look" if after is None else f"{seen}: {plural(after - look, 'seed')} more"
