"""Jobs of a search as trials: those that the controller is handed, and their results for the search.

A job is a trial at each of the space's seeds, evaluated on the tuning split; its values are their means (geometric if
the metric is judged on the log scale and all are above 0). Confirming trials are evaluated on the verdict split.

Results in the folder are not trained again: a resumed search goes through its known jobs without training. A trial of
this search that failed stays failed: the proposals after it were made knowing that. A lost trial says nothing about its
block: the search stops where it needs that result, until another run has trained it. `anew` trains everything again.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ablate.errors import RefusedError
from ablate.execute.controller import Work
from ablate.execute.executor import FAILED, is_settled
from ablate.execute.forecaster import Forecaster
from ablate.execute.search.ranking import JobOutcome, dominates, ranked
from ablate.execute.search.search import BlockSearch, Job
from ablate.execute.search.search_space import IN_DANGER
from ablate.plan.models import Models
from ablate.plan.plan import KeptProposal, Plan, Trial, Variant
from ablate.plan.proposals import Joined, grown, join
from ablate.space.design import Confirm, Search
from ablate.store.results import Results
from ablate.train.events import Outcome

GROWTH = 1.1
"""The plan is stored whenever it has grown by a tenth, so that all stored versions stay within ten times its size."""


class OtherProposalsError(RefusedError):
    """A resumed search proposes something else than it did."""


@dataclass
class _Block:
    """`sent` is the step that its trials were last sent to: -1 before any, None for the end."""

    joined: Joined | None
    variant: Variant
    trials: tuple[Trial, ...]
    sent: int | None = -1
    jobs: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Past:
    """The stored trials of a resumed search by id, and the derivation of each proposal."""

    trials: frozenset[str] = frozenset()
    proposals: Mapping[int, int] = field(default_factory=dict)


class SearchSource:
    """Hands out the trials of a search, then those that confirm its best blocks.

    `keep` is given the plan as it grows; `past` is the stored part of the same search. `limit` is how many seconds a
    trial may take: one of another space that hit an earlier limit may be tried again. With a `forecaster` each block of
    the plan is forecast when the search has ended.
    """

    def __init__(
        self,
        search: BlockSearch,
        models: Models,
        plan: Plan,
        store: Results,
        *,
        keep: Callable[[Plan], None],
        past: Past | None = None,
        anew: bool = False,
        limit: float | None = None,
        forecaster: Forecaster | None = None,
    ):
        self.search, self.plan = search, plan
        self.chosen: tuple[str, ...] = ()
        self.confirm_seeds: tuple[int, ...] = ()
        self.known = self.known_failed = 0
        self.blocks: dict[str, _Block] = {}
        self.confirming = False
        self._models, self._store, self._keep, self._limit = models, store, keep, limit
        self._forecaster = forecaster
        known = {} if anew else store.outcomes()
        self._outcomes = {id: outcome for id, outcome in known.items() if outcome.kind != "lost"}
        self._past = past or Past()
        names = {*models.space.grammar.blocks, *models.space.blocks}
        self._called = "proposal_" if any(re.fullmatch(r"p\d+", name) for name in names) else "p"
        self._anew = anew
        self._queue: deque[Work] = deque()
        self._jobs: dict[str, Job] = {}
        self._left: dict[int, set[str]] = {}
        self._kept = self._checked = 0
        self._confirming: tuple[Trial, ...] = ()

    @property
    def confirm_left(self) -> int:
        return sum(trial.id not in self._outcomes for trial in self._confirming)

    @property
    def done(self) -> bool:
        return self.confirming and not self.confirm_left

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def open(self) -> bool:
        return not self.confirming

    def next(self) -> Work | None:
        """None while it must wait for results, and when all is done."""
        if self._anew and not self.search.jobs:
            # Only now that a worker is ready: until then no known result may be discarded.
            self._store.give_up(self._past.trials)
        while not self._queue and not self.confirming and (job := self.search.ask()) is not None:
            self._check_past()
            self._take(job)
        if not self._queue and self.search.over and not self._left and not self.confirming:
            self._close()
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Tell the search if this was the last trial of its job to end or pause; not if it is lost."""
        if outcome.kind == "lost":
            return
        self._outcomes[trial.id] = outcome
        if trial.id in self._jobs:
            job = self._jobs.pop(trial.id)
            self._left[job.number].discard(trial.id)
            if outcome.kind in FAILED:
                self._grow(open=True, at_once=True)  # later proposals depend on this failure, so it must be stored
            if not self._left[job.number]:
                self._settle(job)

    def confirmation(self, plan: Plan) -> Plan | None:
        if not self._confirming:
            return None
        reference = plan.variants[0]
        variants = tuple(variant for variant in plan.variants if variant.name in self.chosen)
        ids = {variant.id for variant in variants}
        return replace(
            plan,
            design="search, confirmed",
            variants=(reference, *variants),
            comparisons=tuple(comparison for comparison in plan.comparisons if comparison.after in ids),
            seeds=self.confirm_seeds,
            trials=self._confirming,
            notes=(),
            proposals=(),
        )

    def _check_past(self) -> None:
        """Raise OtherProposalsError if a resumed search proposes something else than before: proposals also depend on
        libraries and on the processor, and earlier trials would silently be orphaned."""
        for proposed in self.search.proposed[self._checked :]:
            then = self._past.proposals.get(proposed.k)
            if then is not None and then != proposed.proposal.index and not self._anew:
                raise OtherProposalsError(
                    f"the search {self.plan.space} would continue with other blocks than it began with: proposal "
                    f"{proposed.k} was derivation {then}, and is {proposed.proposal.index} now\n"
                    "  = its grammar or its sampler has changed since: rename the space, or start over with --fresh"
                )
        self._checked = len(self.search.proposed)

    def _take(self, job: Job) -> None:
        block = self._block(job)
        todo = [trial for trial in block.trials if not self._is_known(trial, job)]
        self._left[job.number] = {trial.id for trial in todo}
        for trial in todo:
            self._jobs[trial.id] = job
            name = block.variant.name
            label = name if len(block.trials) == 1 else f"{name} · seed {trial.seed}"
            self._queue.append(Work(trial=trial, label=label, until=job.until))
        if not todo:
            elsewhere = all(trial.id not in self._past.trials for trial in block.trials)
            of_others = job.k is not None and len(block.jobs) == 1 and elsewhere
            self.known += of_others
            outcomes = [outcome for trial in block.trials if (outcome := self._outcomes.get(trial.id))]
            self.known_failed += of_others and any(outcome.kind in FAILED for outcome in outcomes)
            self._settle(job)

    def _block(self, job: Job) -> _Block:
        if job.mark not in self.blocks:
            reference = self.plan.variants[0]
            joined = None if job.k is None else join(self._models, f"{self._called}{job.k}", job.block, reference)
            variant = reference if joined is None else joined.variant
            trials = tuple(self._models.trials([variant], self._models.space.seeds, "tuning"))
            self.blocks[job.mark] = _Block(joined, variant, trials)
            self._grow(open=True)
        self.blocks[job.mark].jobs.append(job.number)
        return self.blocks[job.mark]

    def _is_known(self, trial: Trial, job: Job) -> bool:
        outcome = self._outcomes.get(trial.id)
        if outcome is not None and outcome.kind == "pruned":
            return job.until is not None and outcome.step > job.until
        if outcome is not None and outcome.kind != "paused":
            return is_settled(outcome, self._limit) or trial.id in self._past.trials
        if job.until is None or (self._anew and outcome is None):
            return False
        return self._store.saved(trial.id) > job.until

    def _settle(self, job: Job) -> None:
        del self._left[job.number]
        self.search.tell(job.number, self._came(job))
        self.blocks[job.mark].sent = job.until

    def _came(self, job: Job) -> JobOutcome:
        """Combine the outcomes of a job's trials: as bad as the worst of them."""
        block = self.blocks[job.mark]
        outcomes = [outcome for trial in block.trials if (outcome := self._outcomes.get(trial.id))]
        # A failure beyond the rung belongs to a later job.
        kinds = [outcome.kind for outcome in outcomes if job.until is None or outcome.step <= job.until]
        courses = [course for trial in block.trials if (course := self._store.course(trial.id))]
        after = None if block.sent == -1 else block.sent
        seconds = math.fsum(course.seconds(after, job.until) for course in courses)
        bad = next((kind for kind in (*FAILED, "diverged") if kind in kinds), None)
        if bad is not None:
            return JobOutcome(bad, (), seconds)
        numbers = [course.numbers(job.until) for course in courses]
        values = tuple(
            self._mean(metric, [each.get(metric, math.nan) for each in numbers]) for metric in self._search.objective
        )
        return JobOutcome("finished" if job.until is None else "paused", values, seconds)

    @property
    def _search(self) -> Search:
        search = self._models.space.design.search
        assert search is not None
        return search

    def _mean(self, metric: str, values: Sequence[float]) -> float:
        judged = self._models.space.judge.metrics.get(metric)
        if judged is not None and judged.scale == "log" and all(value > 0 for value in values):
            return math.exp(math.fsum(map(math.log, values)) / len(values))
        return math.fsum(values) / len(values)

    def _close(self) -> None:
        self.confirming = True
        for block in self.blocks.values():
            if block.sent is not None and block.sent >= 0:
                self._prune(block.trials, block.sent)
        if isinstance(self._search.confirm, Confirm):
            self._confirm(self._search.confirm)
        self._grow(open=not self.done)

    def _prune(self, trials: Iterable[Trial], rung: int) -> None:
        """End the trials that rest at a rung; not those that another run has trained beyond it."""
        for trial in trials:
            outcome = self._outcomes.get(trial.id)
            if (outcome is None or outcome.kind == "paused") and self._store.saved(trial.id) == rung + 1:
                self._store.prune(trial, rung + 1, {"rung": rung})
                self._outcomes[trial.id] = Outcome("pruned", rung + 1)

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
                variant = next(each for each in variants if each.id == trial.variant)
                label = f"{variant.name} · seed {trial.seed}, to confirm"
                self._queue.append(Work(trial=trial, label=label))

    def _grow(self, *, open: bool, at_once: bool = False, forecast: bool = False) -> None:
        """Extend the plan by all blocks so far, and store it if it has grown enough; at the end always. Only with
        `forecast` are new blocks forecast: workers wait for it. While a resumed search goes through known results, the
        stored plan has more, and stays."""
        joined = sum(block.joined is not None for block in self.blocks.values())
        if open and not at_once and not self.confirming and joined < self._kept * GROWTH:
            return
        self.plan = self._grown(open=open, forecast=forecast)
        if self.confirming or self._past.trials <= {trial.id for trial in self.plan.trials}:
            self._kept = joined
            self._keep(self.plan)

    def kept_plan(self) -> Plan:
        """The plan at the end of the run, stored unless the plan stored before has more. At the end of the search each
        of its blocks is forecast."""
        self._grow(open=not self.done, at_once=True, forecast=self.done)
        return self.plan

    def _grown(self, *, open: bool, forecast: bool) -> Plan:
        joined = [block.joined for block in self.blocks.values() if block.joined is not None]
        trials = [trial for block in self.blocks.values() for trial in block.trials]
        plan = grown(self.plan, joined, [*trials, *self._confirming], tuple(self._proposals()), open=open)
        if self._forecaster is None:
            return plan
        return self._forecaster.of_plan(plan) if forecast else self._forecaster.made_of(plan)

    def _proposals(self) -> Iterator[KeptProposal]:
        for proposed in self.search.proposed:
            if proposed.mark in self.blocks:
                yield KeptProposal(
                    k=proposed.k,
                    derivation=proposed.proposal.index,
                    variant=self.blocks[proposed.mark].variant.id,
                    repeat=proposed.same_as is not None,
                    choices=proposed.proposal.choices,
                    random=proposed.proposal.random,
                    skipped=tuple(
                        (reason.removeprefix(IN_DANGER), n)
                        for reason, n in sorted(proposed.proposal.refused.items())
                        if reason.startswith(IN_DANGER)
                    ),
                )


def best_blocks(search: BlockSearch, count: int) -> list[str]:
    """The marks of `count` blocks to confirm: first those that dominate the reference, which is not among them, then
    the others, each ordered by Pareto front and, within one, least crowded first."""
    whole, first = finished(search), search.jobs[0].mark
    signs = [1.0 if goal == "min" else -1.0 for goal in search.goals]
    losses = {
        mark: tuple(sign * value for sign, value in zip(signs, values, strict=True)) for mark, values in whole.items()
    }
    marks = list(losses)
    order = [marks[i] for i in ranked(list(losses.values()))]
    order.sort(key=lambda mark: not (first in losses and dominates(losses[mark], losses[first])))
    return [mark for mark in order if mark != first][:count]


def finished(search: BlockSearch) -> Mapping[str, tuple[float, ...]]:
    """The values, by mark, of every block that was trained to the end and is finite in every objective."""
    values = {}
    for job in search.jobs:
        came = search.came(job.number)
        if came is not None and came.outcome == "finished" and all(map(math.isfinite, came.values)):
            values[job.mark] = came.values
    return values
