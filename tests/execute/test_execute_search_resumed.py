"""A search is a function of what it was told: whatever ends first, whenever it is stopped, the same jobs come."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from search_fixtures import STEPS, Surface, proposer, resting, results, run, search, searched, surface
from test_execute_search import QUICK, SMALL

from ablate.execute.search.ranking import Ladder
from ablate.execute.search.search import HOUR, BlockSearch, Job
from ablate.space.design import Budget, Goal

LADDERS = {
    "none": None,
    "asha": Ladder(STEPS, (10, 30), 3),
    "halving": Ladder(STEPS, (10, 20, 40), 2),
    "hyperband": Ladder(STEPS, (10, 30), 3, brackets=3),
}
BUDGETS = {
    "trials": Budget(trials=24),
    "flops": Budget(flops=3e16),
    "hours": Budget(hours=1.2),
}
SURFACE = surface(SMALL, 2, diverged=0.15)
TWO = surface(SMALL, 3, objectives=2, diverged=0.15)

searches = st.fixed_dictionaries(
    {
        "sampler": st.sampled_from(["random", "evolution"]),
        "seed": st.integers(0, 9),
        "parallel": st.integers(1, 5),
        "budget": st.sampled_from(sorted(BUDGETS)),
        "ladder": st.sampled_from(sorted(LADDERS)),
        "seeds": st.integers(1, 3),
        "goals": st.sampled_from([("min",), ("max", "min")]),
    }
)


def made(
    *, sampler: str, seed: int, parallel: int, budget: str, ladder: str, seeds: int, goals: tuple[Goal, ...]
) -> tuple[BlockSearch, Surface]:
    block_search = search(
        SMALL,
        sampler,
        seed=seed,
        goals=goals,
        parallel=parallel,
        budget=BUDGETS[budget],
        ladder=LADDERS[ladder],
        seeds=seeds,
    )
    return block_search, SURFACE if len(goals) == 1 else TWO


def alike(first: BlockSearch, other: BlockSearch) -> None:
    """They handed out the same, were told the same, and are over for the same reason."""
    assert first.jobs == other.jobs
    assert first.proposed == other.proposed
    assert results(first) == results(other)
    assert (first.over, first.why_over, first.spent) == (other.over, other.why_over, other.spent)
    assert (resting(first), first.correlations()) == (resting(other), other.correlations())


def within_budget(block_search: BlockSearch) -> None:
    """Computed anew from the jobs: what was begun, what each of them takes, what all but the last ones have taken."""
    marks = [job.mark for job in block_search.jobs]
    assert block_search.spent.trials == block_search.seeds * len(set(marks))
    assert (block_search.budget.trials or 10**9) >= block_search.spent.trials
    flops, done = 0.0, dict.fromkeys(marks, 0)
    for job in block_search.jobs:
        steps = STEPS if job.until is None else job.until + 1
        flops += block_search.ground.flops(job.block) * block_search.seeds * (steps - done[job.mark]) / STEPS
        done[job.mark] = steps
    assert block_search.spent.flops == pytest.approx(flops, rel=1e-12)
    assert (block_search.budget.flops or 1e30) >= block_search.spent.flops
    seconds = [came.seconds for came in results(block_search).values()]
    assert sum(seconds[: len(block_search.jobs) - block_search.parallel]) < (block_search.budget.hours or 1e9) * HOUR


def climbs(block_search: BlockSearch) -> None:
    """Each block is taken up one level at a time, after it has paused, in jobs of the same proposal."""
    by_mark: dict[str, list[Job]] = {}
    for job in block_search.jobs:
        by_mark.setdefault(job.mark, []).append(job)
    for jobs in by_mark.values():
        for before, after in pairwise(jobs):
            came = block_search.came(before.number)
            assert came is not None and came.outcome == "paused"
            assert before.rung is not None and after.rung in (before.rung + 1, None)
            assert (after.k, after.block) == (before.k, before.block)


@settings(max_examples=examples_of(30), deadline=None)
@given(searches, st.randoms(use_true_random=False), st.integers(0, 40), st.integers(1, 5))
def test_a_search_cut_anywhere_ends_as_an_undisturbed_one(
    options: dict[str, object], order: Random, cut: int, workers: int
) -> None:
    whole = run(*made(**options))
    assert whole.over
    within_budget(whole)
    climbs(whole)
    stopped = run(*made(**options), order=order, ends=cut)
    again = run(*made(**options), order=order, workers=workers, known=results(stopped))
    alike(again, whole)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sampler", QUICK)
@pytest.mark.parametrize("parallel", [1, 3])
def test_every_sampler_goes_on_as_it_would_have(sampler: str, parallel: int) -> None:
    def fresh() -> BlockSearch:
        return search(SMALL, sampler, seed=3, parallel=parallel, trials=20, ladder=LADDERS["asha"])

    whole = run(fresh(), SURFACE)
    assert whole.trained == 19
    for cut in (0, 1, 9, 20, 30):
        known = {number: came for number, came in results(whole).items() if number < cut}
        alike(run(fresh(), SURFACE, order=Random(cut), known=known), whole)


class Hasty(BlockSearch):
    """Looks at whatever is there."""

    def ask(self) -> Job | None:
        self._visible = next((job.number for job in self.jobs if self.came(job.number) is None), len(self.jobs))
        return super().ask()


@pytest.mark.parametrize("ladder", ["none", "asha"])
def test_a_search_that_looks_at_all_there_is_depends_on_what_ends_first(ladder: str) -> None:
    """So that the tests above could fail."""

    def jobs(kind: type[BlockSearch], order: Random | None) -> list[Job]:
        block_search = searched(
            SMALL,
            proposer("evolution", SMALL, 1, ("min",)),
            parallel=4,
            budget=BUDGETS["trials"],
            ladder=LADDERS[ladder],
            kind=kind,
        )
        return run(block_search, SURFACE, order=order).jobs

    orders = [Random(seed) for seed in range(4)]
    assert any(jobs(Hasty, order) != jobs(Hasty, None) for order in orders)
    assert all(jobs(BlockSearch, order) == jobs(BlockSearch, None) for order in orders)


def test_the_number_at_once_is_part_of_the_search() -> None:
    one, three = (run(search(SMALL, "evolution", seed=3, parallel=w, trials=30), SURFACE) for w in (1, 3))
    assert [job.mark for job in one.jobs] != [job.mark for job in three.jobs]
