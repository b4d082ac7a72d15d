"""Surfaces over grammars for tests of searches: what a derivation comes to, fixed by a seed, nothing trained."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from random import Random
from statistics import NormalDist

from builders import CATALOGUE
from reading import read_block

from ablate.block.expression import Block
from ablate.block.normal_form import fingerprint
from ablate.execute.search.proposer import Proposer, proposer_for, sampler_on
from ablate.execute.search.ranking import JobOutcome, Ladder, Result
from ablate.execute.search.search import BlockSearch, Job
from ablate.grammar.choices import choices
from ablate.grammar.derivation import Template
from ablate.grammar.grammar import Grammar
from ablate.space.design import Beforehand, Budget, Goal, Order, ZeroCost
from ablate.space.design import Search as Asked
from ablate.space.documents import Choice

Surface = Callable[[int], Result]
STEPS = 100


def score(seed: int, *words: object) -> float:
    """A standard normal number that stands for these words."""
    digest = hashlib.sha256("|".join(map(str, (seed, *words))).encode()).digest()
    return NormalDist().inv_cdf((int.from_bytes(digest[:6]) + 0.5) / 2**48)


def surface(grammar: Grammar, seed: int, *, objectives: int = 1, diverged: float = 0.0) -> Surface:
    """The mean score of the choices and, half as much, of their pairs; a share of the derivations diverges.

    A mean times the root of the number: what has more choices is not better or worse for it.
    """

    @cache
    def came_to(index: int) -> Result:
        if diverged and (score(seed, "diverged", index)) < NormalDist().inv_cdf(diverged):
            return Result(index, "diverged")
        made = [(one.name, one.taken) for one in choices(grammar.derivations, index)]
        pairs = list(combinations(made, 2))
        values = tuple(
            sum(score(seed, which, *one) for one in made) / math.sqrt(len(made) or 1)
            + 0.5 * sum(score(seed, which, *a, *b) for a, b in pairs) / math.sqrt(len(pairs) or 1)
            for which in range(objectives)
        )
        return Result(index, "finished", values)

    return came_to


@cache
def reference() -> Block:
    """A block that the small grammars of these tests do not derive."""
    return read_block("[residual: {gain: 0.25, branch: [layer_norm, attention, mlp]}]")


@cache
def mark(block: Block) -> str:
    return fingerprint(block, CATALOGUE)


@dataclass(frozen=True)
class World:
    """A grammar without a space: its blocks are the same where their normal forms are, and cost what is made up."""

    grammar: Grammar

    @property
    def name(self) -> str:
        return self.grammar.name

    @property
    def derivations(self) -> Template:
        return self.grammar.derivations

    @property
    def count(self) -> int:
        return self.grammar.count

    def derive(self, k: int) -> Block:
        return self.grammar.derive(k)

    def refusals(self, block: Block) -> tuple[str, ...]:
        return self.grammar.refusals(block)

    def way_out(self, reason: str) -> str:
        return self.grammar.way_out(reason)

    def mark(self, block: Block) -> str:
        return mark(block)

    def flops(self, block: Block) -> float:
        return 1e15 * (1 + abs(score(0, "flops", self.mark(block))))

    def measure(self, by: ZeroCost, block: Block) -> float:
        return score(0, by, self.mark(block))


def search(
    grammar: Grammar,
    sampler: str,
    *,
    seed: int = 0,
    goals: tuple[Goal, ...] = ("min",),
    parallel: int = 1,
    trials: int | None = None,
    budget: Budget | None = None,
    order: Order | None = None,
    ladder: Ladder | None = None,
    seeds: int = 1,
) -> BlockSearch:
    """A search of a grammar; without a budget it goes on until there is nothing new."""
    budget = budget or Budget(trials=trials)
    proposer = proposer_for(asked(sampler, seed, goals, order=order), World(grammar), grammar.catalogue)
    return searched(grammar, proposer, goals=goals, parallel=parallel, budget=budget, ladder=ladder, seeds=seeds)


def resting(block_search: BlockSearch) -> list[Job]:
    """The jobs that have paused at a rung and were not promoted."""
    last = {job.mark: job for job in block_search.jobs}.values()
    came = ((job, block_search.came(job.number)) for job in last)
    return sorted((job for job, end in came if end and end.outcome == "paused"), key=lambda job: job.number)


def searched(
    grammar: Grammar,
    proposer: Proposer,
    *,
    goals: tuple[Goal, ...] = ("min",),
    parallel: int = 1,
    budget: Budget | None = None,
    ladder: Ladder | None = None,
    seeds: int = 1,
    block: Block | None = None,
    kind: type[BlockSearch] = BlockSearch,
) -> BlockSearch:
    """A search whose proposals come from this proposer; `block` is its reference."""
    return kind(
        World(grammar),
        proposer,
        reference=block or reference(),
        goals=goals,
        budget=budget or Budget(),
        parallel=parallel,
        steps=ladder.steps if ladder else STEPS,
        seeds=seeds,
        ladder=ladder,
    )


def asked(sampler: str, seed: int, goals: tuple[Goal, ...], *, order: Order | None = None) -> Asked:
    """What a space says that a search like this is for."""
    return Asked(
        **{"from": "reference"},
        objective={f"metric_{n}": goal for n, goal in enumerate(goals)},
        budget=Budget(trials=1),
        sampler=Choice(sampler),
        pruner="none",
        beforehand=Beforehand(veto={}, order=order),
        confirm="none",
        parallel=1,
        seed=seed,
    )


def proposer(sampler: str, grammar: Grammar, seed: int, goals: tuple[Goal, ...]) -> Proposer:
    """A proposer by the name of its sampler."""
    return sampler_on(World(grammar), Choice(sampler), seed, goals, grammar.catalogue)


def came_of(found: BlockSearch, job: Job, surface: Surface) -> JobOutcome:
    """What becomes of a job: at the end what the surface says, at rungs that with noise, the less the later.

    What diverges does so on the way to a level that is its own. The reference comes to 0.
    """
    seconds = 100 * (1 + abs(score(1, job.mark, job.rung)))
    if job.k is None:
        return JobOutcome("finished", (0.0,) * len(found.goals), seconds)
    result = surface(found.proposed[job.k].proposal.index)
    if result.outcome == "diverged":
        if job.until is None or Random(job.mark).randrange(found.ladder.end + 1) <= (job.rung or 0):
            return JobOutcome("diverged", (), seconds)
        return JobOutcome("paused", (0.0,) * len(found.goals), seconds)
    if job.until is None:
        return JobOutcome(result.outcome, result.values, seconds)
    noise = 1 - job.until / found.ladder.steps
    values = (value + noise * score(2, job.mark, job.rung, n) for n, value in enumerate(result.values))
    return JobOutcome("paused", tuple(values), seconds)


def carried_out(found: BlockSearch, surface: Surface, *, until: int | None = None) -> Iterator[Job]:
    """Ask and tell one after another, until the search is over or has `until` proposals; all jobs but the reference."""
    while (until is None or len(found.proposed) < until) and (job := found.ask()) is not None:
        found.tell(job.number, came_of(found, job, surface))
        if job.k is not None:
            yield job


def run(
    found: BlockSearch,
    surface: Surface,
    *,
    known: Mapping[int, JobOutcome] | None = None,
    order: Random | None = None,
    workers: int | None = None,
    ends: int | None = None,
) -> BlockSearch:
    """`found` carried out by so many workers, jobs ending in some order, stopped after `ends` of them.

    What is known of a job is told at once.
    """
    known, workers, ended = known or {}, workers or found.parallel, 0
    running: list[Job] = []
    while ends is None or ended < ends:
        while len(running) < workers and (job := found.ask()) is not None:
            if job.number in known:
                found.tell(job.number, known[job.number])
            else:
                running.append(job)
        if not running:
            break
        job = running.pop(order.randrange(len(running)) if order else 0)
        found.tell(job.number, came_of(found, job, surface))
        ended += 1
    return found


def results(found: BlockSearch) -> dict[int, JobOutcome]:
    """What is known of each job."""
    return {job.number: came for job in found.jobs if (came := found.came(job.number)) is not None}


def best(found: BlockSearch, proposals: int) -> float:
    """The lowest first value among so many proposals, repeats counted."""
    marks = {one.mark for one in found.proposed[:proposals]}
    ended = (found.came(job.number) for job in found.jobs if job.mark in marks)
    return min(came.values[0] for came in ended if came is not None and came.outcome == "finished")
