"""A run of a plan that depends on its own results: settings that are tuned, seeds that are added.

What it trains at each stage, and when the next stage begins, is in `stages`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import cast

from ablate.execute.controller import EndCounts, Work
from ablate.execute.policy import is_settled
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.session import judging
from ablate.session.fixed_run import judged_run
from ablate.session.planned import Planned
from ablate.session.run_protocol import documents, work_of
from ablate.session.run_result import Run
from ablate.session.stages import Stage, counts, unfold
from ablate.store.requests import Request
from ablate.store.results import Results
from ablate.train.events import Outcome
from ablate.verdict.finals import Finals
from ablate.verdict.judgement import Account


class AdaptiveRun:
    """A run that hands out the trials of the current stage, and once all of them have ended those of the next.

    A trial with a settled outcome under a time limit of `limit` seconds is not trained again. Outcomes of trials to
    `retry` are ignored; with `fresh`, everything that the store knows of the space's trials is. `say` prints the result
    of each look.
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
        self._give_up = self._trials_of_last_plan() if fresh else None
        known: Mapping[str, Outcome] = {} if fresh else store.outcomes()
        outcomes = {id: outcome for id, outcome in known.items() if id not in retry}
        self._ended = {id for id, outcome in outcomes.items() if counts(outcome)}
        self._done = {id for id, outcome in outcomes.items() if is_settled(outcome, limit)}
        self._queue: deque[Work] = deque()
        self._left: set[str] = set()
        self._over = False

    @property
    def plan(self) -> Plan:
        """The plan of the current stage."""
        return self.stage.plan

    @property
    def total(self) -> int | None:
        """The number of trials that are not known; None if others may follow."""
        return None if self._planned.plan.open else len(self._planned.to_run)

    @property
    def trains(self) -> bool:
        """True if any trial is not known."""
        return bool(self._planned.to_run)

    @property
    def waiting(self) -> int:
        """The number of trials of this stage that were not handed out yet."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """True if another stage may follow."""
        return self.plan.open

    def begin(self) -> None:
        """Store the plan of the current stage."""
        self._store.record_plan(self.plan, self._kept)
        self._take()

    def next(self) -> Work | None:
        """Return the next trial of this stage; None while its last ones run, and when nothing is left."""
        if self._give_up is not None:
            # Only now is a worker ready: known results must not be given up before.
            self._store.begin_anew(work.trial for work in self._queue)
            self._store.give_up(self._give_up - {work.trial.id for work in self._queue})
            self._give_up = None
        while not (self._queue or self._left or self._over):
            self._go_on()
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Note that a trial has ended; in this run it is not tried again."""
        self._ended.add(trial.id)
        self._done.add(trial.id)
        self._left.discard(trial.id)

    def answer(self, ended: EndCounts) -> Run:
        """Judge the comparisons of the current stage by the trials that have ended."""
        now = replace(self._planned, plan=self.plan, stage=self.stage)
        return judged_run(now, ended, self._store, self._kept, self._request)

    def _trials_of_last_plan(self) -> set[str]:
        """Return the ids of the trials in the space's last plan."""
        return {str(trial_id) for trial_id, *_ in self._store.plan(self._planned.space.name).get("trials", ())}

    def _take(self) -> None:
        """Queue the trials of the current stage that are not known."""
        todo = [trial for trial in self.plan.trials if trial.id not in self._done]
        self._left = {trial.id for trial in todo}
        self._queue.extend(work_of(self.plan, todo))

    def _go_on(self) -> None:
        """Move to the next stage, once all trials of this one have ended."""
        self._store.refresh()
        before, self.stage = self.stage, self._next_stage()
        for line in self.stage.took[len(before.took) :]:
            self._say(line)
        if self.plan != before.plan:
            self._keep()
        self._take()
        self._over = not self._left

    def _next_stage(self) -> Stage:
        """Return the stage that follows from the trials that have ended, once the store has their numbers."""
        return unfold(
            self._planned.space,
            self._planned.plans.of,
            ended=self._ended,
            finals=self._finals,
            paces=self.stage.known.paces,
            account=self._account,
        )

    def _keep(self) -> None:
        """Store the current stage, and the verdicts of the look that it follows from."""
        plan, summary, rules = self.plan, self.stage.summary, self._planned.space.judge
        self._store.record_plan(plan, self._kept)
        if summary is not None:
            finals = self._finals([trial.id for trial in plan.trials])
            judging.keep(summary, plan, rules, self._account(plan, finals), finals, self._store)

    def _finals(self, trial_ids: Collection[str]) -> Finals:
        return cast("Finals", self._store.finals(trial_ids))

    def _account(self, plan: Plan, finals: Finals) -> Account:
        return judging.account_of(plan, self._planned.space.judge, self._store.folder, finals)
