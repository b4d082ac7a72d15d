"""A search with an ask-and-tell interface: it hands out jobs and is told their outcomes.

Job 0 is the reference, trained to the end. Job j is chosen from the results of jobs 0 ... j - w alone, however many
more are known by then; w is `parallel`, the number of jobs that run at once. If these leave nothing to hand out, the
search waits for one more result, and one more; and a proposal that repeats a block in training waits for that block.
Results, and derivations refused on the way to a proposal, that one job has seen are visible to all later ones.

A block that is the same model as an earlier one has that one's result, and is never trained again; a derivation that is
proposed again is told once. A sampler that proposes nothing new is suspended until uniform draws have found something
new; if they do not either, or every derivation was proposed, the search is over. On a ladder, a job takes a block to
one rung, and a later job may continue with it: the same trials, from where they paused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ablate.errors import InputError
from ablate.execute.search.proposer import Proposal, Proposer, generator, uniform
from ablate.execute.search.ranking import (
    VALUED,
    Arrival,
    JobOutcome,
    Ladder,
    Origin,
    RungCorrelation,
    Standing,
    correlations,
    history,
    let_on,
)
from ablate.plan.proposals import Treated
from ablate.space.design import Budget, Goal

if TYPE_CHECKING:
    from ablate.execute.search.search_space import SearchGround

STUCK = 10
"""The known proposals in a row after which uniform draws are made until one is new: from the same results a sampler
would repeat itself, at the cost of fitting a model each time."""
REPEATS = 100
"""The known proposals in a row that end a search: if 5 % of draws would still be new, one in a hundred ends so."""


class BlockSearch:
    """Hands out blocks to be trained, and is told their outcomes. A trial has `steps` steps, a job `seeds` trials.
    InputError if the budget does not cover the reference, or if `ground` cannot count its FLOPs."""

    def __init__(
        self,
        ground: SearchGround,
        proposer: Proposer,
        *,
        reference: Treated,
        goals: tuple[Goal, ...],
        budget: Budget,
        parallel: int,
        steps: int,
        seeds: int,
        ladder: Ladder | None = None,
    ):
        if parallel < 1:
            raise InputError(f"a search needs at least one job at a time, got {parallel}")
        self.ground, self.goals, self.budget, self.parallel, self.seeds = ground, goals, budget, parallel, seeds
        self.ladder = ladder or Ladder(steps)
        self.jobs: list[Job] = []
        self.proposed: list[ProposedBlock] = []
        self.why_over: Literal["", "budget", "exhausted"] = ""
        self._proposer = proposer
        self._came: dict[int, JobOutcome] = {}
        # By mark: the first job of each block, and the level that it was last sent to.
        self._first: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        # By derivation.
        self._origins: dict[int, Origin] = {}
        # By derivation that was refused: the number of jobs before it was met.
        self._met: dict[int, int] = {}
        self._cost = JobCost()
        # The next job is chosen from the results of this many first jobs.
        self._visible = 0
        # Why nothing more is proposed; earlier proposals may still be promoted.
        self._closed: Literal["", "budget", "exhausted"] = ""
        self._repeats = 0
        self._reference = Job(0, reference, ground.mark(reference), None, None, None)
        check_reference(budget, self._cost_of(self._reference))

    @property
    def trained(self) -> int:
        """The number of different blocks that were handed out, without the reference."""
        return max(0, len(self._first) - 1)

    @property
    def folded(self) -> int:
        """The number of proposals that were the same as an earlier block."""
        return len(self.proposed) - self.trained

    @property
    def refused(self) -> Counter[str]:
        """The number of proposals that each reason removed: constraints, vetoes with their prefix, sizes."""
        by_reason: Counter[str] = Counter()
        for proposed in self.proposed:
            by_reason.update(proposed.proposal.refused)
        return by_reason

    @property
    def repaired(self) -> int:
        return sum(proposed.proposal.repaired for proposed in self.proposed)

    @property
    def passed_over(self) -> int:
        """The number of proposals that were not trained because one made along with them was better beforehand."""
        return sum(proposed.proposal.passed_over for proposed in self.proposed)

    @property
    def random_share(self) -> float:
        """The share of choices that were made without regard to any result; 0 if none was made."""
        made = sum(proposed.proposal.choices for proposed in self.proposed)
        return sum(proposed.proposal.random for proposed in self.proposed) / made if made else 0.0

    @property
    def wholly_random(self) -> float:
        """The share of proposals all of whose choices were made without regard to any result."""
        wholly = sum(proposed.proposal.random == proposed.proposal.choices for proposed in self.proposed)
        return wholly / len(self.proposed) if self.proposed else 0.0

    @property
    def over(self) -> bool:
        """True if nothing more will be handed out, whatever is told; `ask` determines it."""
        return bool(self.why_over)

    @property
    def spent(self) -> SearchSpending:
        return SearchSpending(self._cost.trials, float(self._cost.flops), self._seconds(self._came))

    def came(self, number: int) -> JobOutcome | None:
        return self._came.get(number)

    def correlations(self) -> tuple[RungCorrelation, ...]:
        return correlations(self._standing(len(self.jobs)), self.ladder, len(self.goals))

    def rehearse(self) -> None:
        """InputError, before anything is trained, if practically no derivation is admitted."""
        self._proposer.propose(0, [])

    def ask(self) -> Job | None:
        """Return the next block to be trained; None while it must wait for a result, and when the search is over."""
        if not self.jobs:
            return self._handed_out(self._reference)
        while not self.over:
            if any(number not in self._came for number in range(self._visible)):
                return None
            if used_up(self.budget, self._seconds(range(self._visible))):
                self.why_over = "budget"
                return None
            standing = self._standing(self._visible)
            job = self._promotion(standing)
            if job is None and not self._closed:
                job = self._proposal(standing)
            if job is not None:
                return self._handed_out(job)
            if self._closed and self.ladder.end and self._visible < len(self.jobs):
                self._visible += 1  # look at one more result
            elif self._closed:
                self.why_over = self._closed
        return None

    def tell(self, number: int, came: JobOutcome) -> None:
        """ValueError for a job that was not handed out or is told twice, if there is not one value for each objective
        (or any value, if it did not come to its end), or if it paused unasked."""
        if not 0 <= number < len(self.jobs):
            raise ValueError(f"job {number} was not handed out")
        if number in self._came:
            raise ValueError(f"job {number} was told already")
        wrong = "paused" if self.jobs[number].until is None else "finished"
        if came.outcome in (wrong, "interrupted"):
            raise ValueError(
                f"job {number} cannot be {came.outcome}: it goes to step {self.jobs[number].until or 'last'}"
            )
        expected = len(self.goals) if came.outcome in VALUED else 0
        if len(came.values) != expected:
            raise ValueError(f"job {number} is {came.outcome}: expected {expected} values, got {len(came.values)}")
        self._came[number] = came

    def _handed_out(self, job: Job) -> Job:
        self._cost += self._cost_of(job)
        self.jobs.append(job)
        self._first.setdefault(job.mark, job.number)
        self._sent[job.mark] = self._level(job)
        self._visible = max(self._visible, len(self.jobs) - self.parallel + 1)
        return job

    def _promotion(self, standing: Standing) -> Job | None:
        """The best block that can be promoted, from the highest such rung, if the budget covers it."""
        for level in reversed(range(self.ladder.end)):
            for bracket in range(min(level + 1, self.ladder.brackets)):
                here = {
                    mark: levels[level].came
                    for mark, levels in standing.items()
                    if level in levels and min(levels) == bracket
                }
                marks = list(here)
                for place in let_on(list(here.values()), self.ladder.factor, self.goals):
                    if self._sent[marks[place]] > level:
                        continue
                    first = self.jobs[self._first[marks[place]]]
                    job = self._job(first.block, first.mark, first.k, level + 1)
                    if self._affords(job):
                        return job
        return None

    def _proposal(self, standing: Standing) -> Job | None:
        """The next proposal; None if it is known already, exceeds the budget, or nothing new is left."""
        if not affords(self.budget, self._cost + JobCost(trials=self.seeds)):
            self._closed = "budget"
            return None
        if len(self._origins) == self.ground.count:
            self._closed = "exhausted"
            return None
        k = len(self.proposed)
        if self._repeats < STUCK:
            proposal = self._proposer.propose(k, history(self._origins.values(), standing, self._met))
        else:
            proposal = uniform(self.ground, generator(0, k))  # any fixed seed: the draw need only be a function of k
        mark = self.ground.mark(proposal.block)
        same_as = self._first.get(mark)
        job = None
        if same_as is None:
            job = self._job(proposal.block, mark, k, self.ladder.begins(self.trained))
            if not self._affords(job):
                self._closed = "budget"
                return None
            self._repeats = 0
        else:
            self._repeats += 1
            self._visible = max(self._visible, same_as + 1)
            if self._repeats >= REPEATS:
                self._closed = "exhausted"
        self.proposed.append(ProposedBlock(k, proposal, mark, same_as))
        self._origins.setdefault(proposal.index, Origin(proposal.index, mark, len(self.jobs)))
        for index in proposal.met:
            self._met.setdefault(index, len(self.jobs))
        return job

    def _job(self, block: Treated, mark: str, k: int | None, level: int) -> Job:
        rung = level if level < self.ladder.end else None
        return Job(len(self.jobs), block, mark, k, self.ladder.rung(level), rung)

    def _level(self, job: Job) -> int:
        return self.ladder.end if job.rung is None else job.rung

    def _affords(self, job: Job) -> bool:
        return affords(self.budget, self._cost + self._cost_of(job))

    def _cost_of(self, job: Job) -> JobCost:
        begun = self._sent.get(job.mark)
        steps = self.ladder.done(self._level(job)) - self.ladder.done(begun)
        flops = Fraction(self.ground.flops(job.block)) * self.seeds * Fraction(steps, self.ladder.steps)
        return JobCost(self.seeds if begun is None else 0, flops)

    def _standing(self, visible: int) -> Standing:
        standing: dict[str, dict[int, Arrival]] = {}
        for job in self.jobs[:visible]:
            if job.number in self._came:
                standing.setdefault(job.mark, {})[self._level(job)] = Arrival(job.number, self._came[job.number])
        return standing

    def _seconds(self, numbers: Iterable[int]) -> float:
        return math.fsum(self._came[number].seconds for number in numbers)


@dataclass(frozen=True, slots=True)
class ProposedBlock:
    """Proposal number k, and the mark of its block; `same_as` is the first job of that block if it is a repeat."""

    k: int
    proposal: Proposal
    mark: str
    same_as: int | None


@dataclass(frozen=True, slots=True)
class Job:
    """A block to be trained to the step `until`, which is rung number `rung` (None: to the end), by a trial of each of
    the search's seeds. k is the number of its proposal, None for the reference."""

    number: int
    block: Treated
    mark: str
    k: int | None
    until: int | None
    rung: int | None


# The budget and the spending of a search, summed over all workers. Trials and FLOPs are known before a job begins, so
# no job is handed out that would exceed them. Hours are known only afterwards: jobs are handed out until the visible
# results have used them up, so up to `parallel` jobs may exceed them.

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class JobCost:
    """The cost of jobs, known before they begin: exact, so that the parts of a trial sum to the whole."""

    trials: int = 0
    flops: Fraction = field(default_factory=Fraction)

    def __add__(self, other: JobCost) -> JobCost:
        return JobCost(self.trials + other.trials, self.flops + other.flops)


@dataclass(frozen=True, slots=True)
class SearchSpending:
    """Trials begun, FLOPs of the jobs handed out, seconds of those with results."""

    trials: int
    flops: float
    seconds: float


def affords(budget: Budget, spent: JobCost) -> bool:
    if budget.trials is not None and spent.trials > budget.trials:
        return False
    return budget.flops is None or spent.flops <= Fraction(budget.flops)


def used_up(budget: Budget, seconds: float) -> bool:
    return budget.hours is not None and seconds >= budget.hours * HOUR


def check_reference(budget: Budget, cost: JobCost) -> None:
    if affords(budget, cost):
        return
    if budget.trials is not None:
        limit, needed = f"{budget.trials} trials", f"{cost.trials}, one per seed"
    else:
        limit, needed = f"{budget.flops:.3g} flops", f"{float(cost.flops):.3g}"
    raise InputError(
        f"a budget of {limit} does not cover the reference of the search, which needs {needed}\n  = raise the budget"
    )
