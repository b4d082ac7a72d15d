"""Jobs of a search as trials: what the controller is handed, and what the search is told of them.

A job is a trial at each of the space's seeds, evaluated on the tuning split; its values are their means (geometric
where the metric is judged on the log scale and none is at or below 0). What confirms is evaluated on the verdict split.

What the folder knows is not trained again: a job all of whose trials are known is told at once, so a search that is
taken up again goes through its jobs without training, and on from the first that is not known. A trial of this search
that failed stays failed: the proposals after it were made knowing that. One that is lost says nothing of its block: the
search is not told, comes to a rest where it needs to know, and is open until another run has trained it. `anew` trains
all of it again.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ablate.errors import RefusedError
from ablate.execute.controller import Work
from ablate.execute.policy import FAILED, is_settled
from ablate.execute.search.confirmation import best_blocks
from ablate.execute.search.result import JobOutcome
from ablate.execute.search.search import BlockSearch, Job
from ablate.plan.models import Models
from ablate.plan.plan import KeptProposal, Plan, Variant
from ablate.plan.proposals import Joined, grown, join
from ablate.plan.trial import Trial
from ablate.space.design import Confirm
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


@dataclass(frozen=True, slots=True)
class Past:
    """What is kept of a search that is taken up again: its trials by id, and the derivation of each proposal."""

    trials: frozenset[str] = frozenset()
    proposals: Mapping[int, int] = field(default_factory=dict)


class SearchSource:
    """Hands out the trials of a search, then those that confirm what it has found.

    `keep` is given the plan as it grows; `past` is what was kept of the same search. `limit` is how many seconds a
    trial may take, which decides whether one of another space that ran into an earlier limit is tried again.
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
    ):
        self.search, self.plan = search, plan
        self.chosen: tuple[str, ...] = ()
        self.confirm_seeds: tuple[int, ...] = ()
        self.known = self.known_failed = 0
        self.blocks: dict[str, _Block] = {}
        self.confirming = False
        self._models, self._store, self._keep, self._limit = models, store, keep, limit
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
        """How many of the trials that confirm what was found have not ended."""
        return sum(trial.id not in self._outcomes for trial in self._confirming)

    @property
    def done(self) -> bool:
        """Whether the search is over, and what was found confirmed."""
        return self.confirming and not self.confirm_left

    @property
    def waiting(self) -> int:
        """Trials that were asked for and not handed out."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """Whether more will be asked for."""
        return not self.confirming

    def next(self) -> Work | None:
        """The next trial to be trained; None while results must be waited for, and when all is done."""
        if self._anew and not self.search.jobs:
            # Not before a worker is there: until then nothing that is known may be given up.
            self._store.give_up(self._past.trials)
        while not self._queue and not self.confirming and (job := self.search.ask()) is not None:
            self._check_past()
            self._take(job)
        if not self._queue and self.search.over and not self._left and not self.confirming:
            self._close()
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended or paused; the job whose last one it was is told. Of one that is lost nobody is."""
        if outcome.kind == "lost":
            return
        self._outcomes[trial.id] = outcome
        if trial.id in self._jobs:
            job = self._jobs.pop(trial.id)
            self._left[job.number].discard(trial.id)
            if outcome.kind in FAILED:
                self._grow(open=True, at_once=True)  # that it failed is known to what is proposed from now on
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

    def _check_past(self) -> None:
        """RefusedError where a search that is taken up again proposes something else than it did.

        What proposes is a function of the seed and the results, but of its libraries too, and of the processor they run
        on: another version may propose otherwise, and what was trained would be orphaned without a word.
        """
        for one in self.search.proposed[self._checked :]:
            then = self._past.proposals.get(one.k)
            if then is not None and then != one.proposal.index and not self._anew:
                raise RefusedError(
                    f"the search {self.plan.space} would go on with other blocks than it began with: proposal {one.k} "
                    f"was derivation {then}, and is {one.proposal.index} now\n"
                    "  = its grammar or what proposes has changed since: ask it under another name, or begin it anew "
                    "with --fresh"
                )
        self._checked = len(self.search.proposed)

    def _take(self, job: Job) -> None:
        block = self._block(job)
        todo = [trial for trial in block.trials if not self._is_known(trial, job)]
        self._left[job.number] = {trial.id for trial in todo}
        for trial in todo:
            self._jobs[trial.id] = job
            self._queue.append(Work(trial=trial, label=_label(block.variant, trial, block.trials), until=job.until))
        if not todo:
            elsewhere = all(trial.id not in self._past.trials for trial in block.trials)
            of_others = job.k is not None and len(block.jobs) == 1 and elsewhere
            self.known += of_others
            outcomes = [outcome for trial in block.trials if (outcome := self._outcomes.get(trial.id))]
            self.known_failed += of_others and any(outcome.kind in FAILED for outcome in outcomes)
            self._settle(job)

    def _block(self, job: Job) -> _Block:
        """The block of a job; one that is new joins the plan."""
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
        """Whether the folder knows what the job asks of a trial."""
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
            return JobOutcome(bad, (), seconds)
        numbers = [course.numbers(job.until) for course in courses]
        values = tuple(self._mean(metric, [one.get(metric, math.nan) for one in numbers]) for metric in self._metrics)
        return JobOutcome("finished" if job.until is None else "paused", values, seconds)

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
        for block in self.blocks.values():
            if block.sent is not None and block.sent >= 0:
                self._prune(block.trials, block.sent)
        search = self._models.space.design.search
        assert search is not None
        if isinstance(search.confirm, Confirm):
            self._confirm(search.confirm)
        self._grow(open=not self.done)

    def _prune(self, trials: Iterable[Trial], rung: int) -> None:
        """End what rests at a rung; not what another run has trained beyond it, which is not this search's to end."""
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
                variant = next(one for one in variants if one.id == trial.variant)
                label = f"{variant.name} · seed {trial.seed}, to confirm"
                self._queue.append(Work(trial=trial, label=label))

    def _grow(self, *, open: bool, at_once: bool = False) -> None:
        """The plan with all blocks so far, kept where it has grown enough; at the end always.

        While a search that is taken up again goes through what it knows, the plan that is kept has more, and stays.
        """
        joined = sum(block.joined is not None for block in self.blocks.values())
        if open and not at_once and not self.confirming and joined < self._kept * GROWTH:
            return
        self.plan = self._grown(open=open)
        if self.confirming or self._past.trials <= {trial.id for trial in self.plan.trials}:
            self._kept = joined
            self._keep(self.plan)

    def kept_plan(self) -> Plan:
        """The plan as it stands when the run ends, kept unless what was kept before has more."""
        self._grow(open=not self.done, at_once=True)
        return self.plan

    def _grown(self, *, open: bool) -> Plan:
        """The plan with all that has joined it."""
        joined = [block.joined for block in self.blocks.values() if block.joined is not None]
        trials = [trial for block in self.blocks.values() for trial in block.trials]
        return grown(self.plan, joined, [*trials, *self._confirming], tuple(self._proposals()), open=open)

    def _proposals(self) -> Iterator[KeptProposal]:
        for one in self.search.proposed:
            if one.mark in self.blocks:
                yield KeptProposal(
                    k=one.k,
                    derivation=one.proposal.index,
                    variant=self.blocks[one.mark].variant.id,
                    repeat=one.same_as is not None,
                    choices=one.proposal.choices,
                    random=one.proposal.random,
                )


def _label(variant: Variant, trial: Trial, trials: Sequence[Trial]) -> str:
    return variant.name if len(trials) == 1 else f"{variant.name} · seed {trial.seed}"
