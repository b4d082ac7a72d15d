"""Jobs of a search as trials: what the controller is handed, and what the search is told of them.

A job is a trial at each of the space's seeds; its values are their means (geometric where the metric is judged on the
log scale). What the folder knows is not trained again: a job all of whose trials are known is told at once, so a
search that is taken up again goes through its jobs in a moment, and on from the first that is not known.

A trial of this search that failed stays failed: the proposals after it were made knowing that. `anew` trains all of it
again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ablate.execute.controller import Work
from ablate.execute.policy import FAILED, is_settled
from ablate.execute.search.ranking import dominates, front, ranked
from ablate.execute.search.result import Came
from ablate.execute.search.search import Job, Search
from ablate.plan.models import Models
from ablate.plan.plan import Plan, Proposed, Variant
from ablate.plan.proposals import Joined, grown, join
from ablate.plan.trial import Trial
from ablate.space.design import Confirm, Goal
from ablate.store.results import Results
from ablate.train.events import Outcome

GROWTH = 1.1
"""The plan is kept whenever it has grown by a tenth: so all that is kept of it stays within ten times its size."""


@dataclass
class _Block:
    """A block that was trained: what it is in the plan, its trials, and the step they were last sent to."""

    joined: Joined | None
    variant: Variant
    trials: tuple[Trial, ...]
    sent: int | None = -1
    jobs: list[int] = field(default_factory=list)


class SearchSource:
    """Hands out the trials of a search, then those that confirm what it has found.

    `keep` is given the plan as it grows. `limit` is how many seconds a trial may take, which decides whether one that
    ran into an earlier limit is tried again.
    """

    def __init__(
        self,
        search: Search,
        models: Models,
        plan: Plan,
        store: Results,
        *,
        keep: Callable[[Plan], None],
        anew: bool = False,
        limit: float | None = None,
    ):
        self.search, self.plan = search, plan
        self.chosen: tuple[str, ...] = ()
        self.confirm_seeds: tuple[int, ...] = ()
        self.known = 0
        self.blocks: dict[str, _Block] = {}
        self.confirming = False
        self._models, self._store, self._keep, self._limit = models, store, keep, limit
        self._outcomes = {} if anew else store.outcomes()
        self._ours = store.members(plan.space)
        self._anew = anew
        self._queue: deque[Work] = deque()
        self._jobs: dict[str, Job] = {}
        self._left: dict[int, set[str]] = {}
        self._kept = 0

    @property
    def done(self) -> bool:
        """Whether the search is over; what confirms it may be left."""
        return self.confirming

    @property
    def waiting(self) -> int:
        """Trials that were asked for and not handed out; at least one while more will be asked for."""
        return len(self._queue) or int(not self.confirming)

    def next(self) -> Work | None:
        """The next trial to be trained; None while results must be waited for, and when all is done."""
        while not self._queue and not self.confirming and (job := self.search.ask()) is not None:
            self._take(job)
        if not self._queue and self.search.over and not self._left and not self.confirming:
            self._close()
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended or paused; the job whose last one it was is told."""
        self._outcomes[trial.id] = outcome
        if trial.id in self._jobs:
            job = self._jobs.pop(trial.id)
            self._left[job.number].discard(trial.id)
            if not self._left[job.number]:
                self._settle(job)

    def confirmation(self, plan: Plan) -> Plan | None:
        """The plan of what confirms the search alone: the chosen blocks and the reference at fresh seeds."""
        if not self._confirming:
            return None
        reference = plan.variants[0]
        variants = tuple(variant for variant in plan.variants if variant.name in self.chosen)
        ids = {variant.id for variant in variants}
        return replace(
            plan,
            design="search, confirmed",
            variants=(reference, *variants),
            comparisons=tuple(one for one in plan.comparisons if one.after in ids),
            seeds=self.confirm_seeds,
            trials=self._confirming,
            notes=(),
            proposals=(),
        )

    def trials_of(self, mark: str) -> tuple[Trial, ...]:
        """The trials of a block at the search's seeds."""
        return self.blocks[mark].trials

    def _take(self, job: Job) -> None:
        block = self._block(job)
        todo = [trial for trial in block.trials if not self._is_known(trial, job)]
        self._left[job.number] = {trial.id for trial in todo}
        for trial in todo:
            if self._anew and block.sent == -1:
                self._store.begin_anew([trial])
            self._jobs[trial.id] = job
            self._queue.append(Work(trial=trial, label=_label(block.variant, trial, block.trials), until=job.until))
        if not todo:
            self.known += job.k is not None and len(block.jobs) == 1
            self._settle(job)

    def _block(self, job: Job) -> _Block:
        """The block of a job; one that is new joins the plan."""
        if job.mark not in self.blocks:
            reference = self.plan.variants[0]
            joined = None if job.k is None else join(self._models, f"p{job.k}", job.block, reference)
            variant = reference if joined is None else joined.variant
            trials = tuple(self._models.trials([variant], self._models.space.seeds))
            self.blocks[job.mark] = _Block(joined, variant, trials)
            self._grow(open=True)
        self.blocks[job.mark].jobs.append(job.number)
        return self.blocks[job.mark]

    def _is_known(self, trial: Trial, job: Job) -> bool:
        """Whether the folder knows what the job asks of a trial."""
        outcome = self._outcomes.get(trial.id)
        if outcome is not None and outcome.kind == "pruned":
            return job.until is not None and outcome.step > job.until
        if outcome is not None and outcome.kind != "paused":
            return is_settled(outcome, self._limit) or trial.id in self._ours
        if job.until is None or (self._anew and outcome is None):
            return False
        return self._store.saved(trial.id) > job.until

    def _settle(self, job: Job) -> None:
        del self._left[job.number]
        self.search.tell(job.number, self._came(job))
        self.blocks[job.mark].sent = job.until

    def _came(self, job: Job) -> Came:
        """What the trials of a job came to together: as bad as the worst of them."""
        block = self.blocks[job.mark]
        outcomes = [outcome for trial in block.trials if (outcome := self._outcomes.get(trial.id))]
        # What went wrong beyond the rung is for a later job to tell.
        kinds = [one.kind for one in outcomes if job.until is None or one.step <= job.until]
        courses = [course for trial in block.trials if (course := self._store.course(trial.id))]
        after = None if block.sent == -1 else block.sent
        seconds = math.fsum(course.seconds(after, job.until) for course in courses)
        bad = next((kind for kind in (*FAILED, "diverged") if kind in kinds), None)
        if bad is not None:
            return Came(bad, (), seconds)
        numbers = [course.numbers(job.until) for course in courses]
        values = tuple(self._mean(metric, [one.get(metric, math.nan) for one in numbers]) for metric in self._metrics)
        return Came("finished" if job.until is None else "paused", values, seconds)

    @property
    def _metrics(self) -> tuple[str, ...]:
        search = self._models.space.design.search
        assert search is not None
        return tuple(search.objective)

    def _mean(self, metric: str, values: Sequence[float]) -> float:
        judged = self._models.space.judge.metrics.get(metric)
        if judged is not None and judged.scale == "log" and all(value > 0 for value in values):
            return math.exp(math.fsum(map(math.log, values)) / len(values))
        return math.fsum(values) / len(values)

    def _close(self) -> None:
        """The search is over: what rests at a rung is ended, and the best are trained anew beside the reference."""
        self.confirming = True
        for job in self.search.resting():
            assert job.until is not None
            for trial in self.blocks[job.mark].trials:
                if self._outcomes.get(trial.id, Outcome("paused", 0)).kind == "paused":
                    self._store.prune(trial, job.until + 1, {"rung": job.until})
                    self._outcomes[trial.id] = Outcome("pruned", job.until + 1)
        search = self._models.space.design.search
        assert search is not None
        if isinstance(search.confirm, Confirm):
            self._confirm(search.confirm)
        self._grow(open=False)

    def _confirm(self, confirm: Confirm) -> None:
        marks = best_blocks(self.search, confirm.blocks)
        if not marks:
            return
        last = max(self._models.space.seeds)
        self.confirm_seeds = tuple(range(last + 1, last + 1 + confirm.seeds))
        variants = [self.plan.variants[0], *(self.blocks[mark].variant for mark in marks)]
        self.chosen = tuple(variant.name for variant in variants[1:])
        self._confirming = tuple(self._models.trials(variants, self.confirm_seeds))
        for trial in self._confirming:
            outcome = self._outcomes.get(trial.id)
            if outcome is None or not is_settled(outcome, self._limit):
                variant = next(one for one in variants if one.id == trial.variant)
                label = f"{variant.name} · seed {trial.seed}, to confirm"
                if self._anew:
                    self._store.begin_anew([trial])
                self._queue.append(Work(trial=trial, label=label))

    _confirming: tuple[Trial, ...] = ()

    def _grow(self, *, open: bool) -> None:
        """The plan with all blocks so far, kept where it has grown enough; at the end always."""
        joined = [block.joined for block in self.blocks.values() if block.joined is not None]
        if open and len(joined) < self._kept * GROWTH:
            return
        self._kept = max(1, len(joined))
        self.plan = self.grown(open=open)
        self._keep(self.plan)

    def grown(self, *, open: bool) -> Plan:
        """The plan with all that has joined it."""
        joined = [block.joined for block in self.blocks.values() if block.joined is not None]
        trials = [trial for block in self.blocks.values() for trial in block.trials]
        return grown(self.plan, joined, [*trials, *self._confirming], tuple(self._proposals()), open=open)

    def _proposals(self) -> Iterator[Proposed]:
        for one in self.search.proposed:
            if one.mark in self.blocks:
                yield Proposed(
                    k=one.k,
                    derivation=one.proposal.index,
                    variant=self.blocks[one.mark].variant.id,
                    repeat=one.same_as is not None,
                    choices=one.proposal.choices,
                    random=one.proposal.random,
                )


def best_blocks(search: Search, count: int) -> list[str]:
    """The marks of so many blocks to confirm: of the front of what finished, those that beat the reference in every
    objective first, then the others; the reference is none of them."""
    whole = finished(search)
    reference = next(iter(whole), None)
    if reference is None:
        return []
    losses = {mark: _losses(values, search.goals) for mark, values in whole.items()}
    marks = list(losses)
    best = {marks[i] for i in front(list(losses.values()))}
    order = [marks[i] for i in ranked(list(losses.values())) if marks[i] in best]
    first = search.jobs[0].mark
    order.sort(key=lambda mark: not (first in losses and dominates(losses[mark], losses[first])))
    return [mark for mark in order if mark != first][:count]


def finished(search: Search) -> Mapping[str, tuple[float, ...]]:
    """The values of every block that was trained to the end, finite in every objective, by mark."""
    found = {}
    for job in search.jobs:
        came = search.came(job.number)
        if came is not None and came.outcome == "finished" and all(map(math.isfinite, came.values)):
            found[job.mark] = came.values
    return found


def _losses(values: Iterable[float], goals: Sequence[Goal]) -> tuple[float, ...]:
    return tuple(value if goal == "min" else -value for value, goal in zip(values, goals, strict=True))


def _label(variant: Variant, trial: Trial, trials: Sequence[Trial]) -> str:
    return variant.name if len(trials) == 1 else f"{variant.name} · seed {trial.seed}"
