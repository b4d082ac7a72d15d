"""A run of a plan that learns from its own trials: unfolded, stage by stage, from what the results folder knows.

    times      where steps follow from a wall-clock budget: how long a step of each model takes, measured once
    tuning     every variant with every combination of the settings in question, on the tuning split
    look 1     the verdict's first seeds
    look 2 …   more seeds, until every verdict is decided or the last look is reached

Which stage it is at follows from how the trials have ended, and from nothing else: a run that was stopped, killed and
gone on with, on whatever executor, ends with the plan of one that was not. A trial that failed has ended, without a
number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

from ablate.execute.controller import Ended, Work
from ablate.execute.policy import FAILED, is_settled
from ablate.plan.fair import choose
from ablate.plan.known import Known
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.report.asked import question
from ablate.report.finals import Finals
from ablate.report.judgement import Account
from ablate.report.summary import Summary
from ablate.report.verdicts import judge
from ablate.report.wording import plural
from ablate.session import judging
from ablate.session.fixed_run import judged_run
from ablate.session.planned import Planned, Stage
from ablate.session.run_protocol import documents, work_of
from ablate.session.run_result import Run
from ablate.space.fair import Tune
from ablate.space.space import Space
from ablate.store.requests import Request
from ablate.store.results import Results
from ablate.train.events import Outcome

Build: TypeAlias = "Callable[[Known], Plan]"
Ask: TypeAlias = "Callable[[Collection[str]], Finals]"
"""The ends of trials, by id."""


class AdaptiveRun:
    """Hand out the trials of the present stage, and when all of them have ended those of the next.

    A trial whose outcome is settled, where each may take `limit` seconds, is not trained again. How those to `retry`
    have ended counts for nothing; with `fresh`, nothing that the store knows of the space's trials does. `say` is told
    what each look came to.
    """

    def __init__(
        self,
        planned: Planned,
        store: Results,
        request: Request,
        *,
        fresh: bool,
        limit: float | None,
        say: Callable[[str], None],
        retry: Collection[str] = (),
    ):
        assert planned.stage is not None
        self.stage = planned.stage
        self._planned, self._store, self._request, self._say = planned, store, request, say
        self._kept = documents(planned, store, train=bool(planned.to_run))
        self._give_up = self._asked_last() if fresh else None
        known: Mapping[str, Outcome] = {} if fresh else store.outcomes()
        outcomes = {id: outcome for id, outcome in known.items() if id not in retry}
        self._ended = {id for id, outcome in outcomes.items() if counts(outcome)}
        self._done = {id for id, outcome in outcomes.items() if is_settled(outcome, limit)}
        self._queue: deque[Work] = deque()
        self._left: set[str] = set()
        self._over = False

    @property
    def plan(self) -> Plan:
        """The plan of the present stage."""
        return self.stage.plan

    @property
    def total(self) -> int | None:
        """The trials that are not known; None where others may follow."""
        return None if self._planned.plan.open else len(self._planned.to_run)

    @property
    def trains(self) -> bool:
        """Whether any is not known."""
        return bool(self._planned.to_run)

    @property
    def waiting(self) -> int:
        """Trials of this stage that were not handed out."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """Whether another stage may follow."""
        return self.plan.open

    def begin(self) -> None:
        """Keep the plan of the present stage."""
        self._store.record_plan(self.plan, self._kept)
        self._take()

    def next(self) -> Work | None:
        """The next trial of this stage; None while its last ones run, and when nothing is left."""
        if self._give_up is not None:
            # Not before a worker is there: until then nothing that is known may be given up.
            self._store.begin_anew(work.trial for work in self._queue)
            self._store.give_up(self._give_up - {work.trial.id for work in self._queue})
            self._give_up = None
        while not (self._queue or self._left or self._over):
            self._go_on()
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended; in this run it is not tried again."""
        self._ended.add(trial.id)
        self._done.add(trial.id)
        self._left.discard(trial.id)

    def answer(self, ended: Ended) -> Run:
        """The comparisons of the stage it has come to, judged by what has ended."""
        now = replace(self._planned, plan=self.plan, stage=self.stage)
        return judged_run(now, ended, self._store, self._kept, self._request)

    def _asked_last(self) -> set[str]:
        """The trials that the space was last asked for, by id."""
        return {str(trial_id) for trial_id, *_ in self._store.plan(self._planned.space.name).get("trials", ())}

    def _take(self) -> None:
        """Queue what is not known of the present stage."""
        todo = [trial for trial in self.plan.trials if trial.id not in self._done]
        self._left = {trial.id for trial in todo}
        self._queue.extend(work_of(self.plan, todo))

    def _go_on(self) -> None:
        """All of this stage has ended: what follows from it."""
        self._store.refresh()
        before, self.stage = self.stage, self._next_stage()
        for line in self.stage.took[len(before.took) :]:
            self._say(line)
        if self.plan != before.plan:
            self._keep()
        self._take()
        self._over = not self._left

    def _next_stage(self) -> Stage:
        """What follows from the trials that have ended, once the store has their numbers."""
        return unfold(
            self._planned.space,
            self._planned.plans.of,
            ended=self._ended,
            finals=self._finals,
            paces=self.stage.known.paces,
            account=self._account,
        )

    def _keep(self) -> None:
        """Keep the present stage, and the verdicts of the look that it follows from."""
        plan, summary, rules = self.plan, self.stage.summary, self._planned.space.judge
        self._store.record_plan(plan, self._kept)
        if summary is not None:
            finals = self._finals([trial.id for trial in plan.trials])
            judging.keep(summary, plan, rules, self._account(plan, finals), finals, self._store)

    def _finals(self, trial_ids: Collection[str]) -> Finals:
        return cast("Finals", self._store.finals(trial_ids))

    def _account(self, plan: Plan, finals: Finals) -> Account:
        return judging.account_of(plan, self._planned.space.judge, self._store.folder, finals)


def counts(outcome: Outcome) -> bool:
    """Whether a look need not wait for a trial that ended so: with a result, or as one that failed."""
    return outcome.kind in ("finished", "diverged", *FAILED)


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
        (c.kind, c.change, c.before, c.after, c.terms): question(c, factors)
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
