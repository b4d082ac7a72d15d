"""Budgets are of all jobs together: trials and flops are never exceeded, hours by what ran beside."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from search_fixtures import STEPS, World, resting, results, run, search, searched, surface
from test_execute_search import SMALL, TINY, Spy

from ablate.errors import InputError
from ablate.execute.search.ranking import JobOutcome, Ladder
from ablate.execute.search.search import HOUR, BlockSearch, JobCost, affords, check_reference, used_up
from ablate.space.design import Budget

pytestmark = pytest.mark.fast
SURFACE = surface(SMALL, 2)
LADDER = Ladder(STEPS, (10, 30), 3)


@pytest.mark.parametrize(("trials", "seeds", "blocks"), [(20, 1, 20), (20, 3, 6), (21, 3, 7), (3, 3, 1)])
@pytest.mark.parametrize("parallel", [1, 4])
def test_trials_count_seeds_and_the_reference(trials: int, seeds: int, blocks: int, parallel: int) -> None:
    block_search = search(SMALL, "random", parallel=parallel, trials=trials, seeds=seeds)
    run(block_search, SURFACE, order=Random(0))
    assert len({job.mark for job in block_search.jobs}) == len(block_search.jobs) == blocks
    assert block_search.spent.trials == seeds * blocks <= trials < seeds * (blocks + 1)
    assert (block_search.over, block_search.why_over) == (True, "budget")


def test_what_goes_on_costs_no_trials() -> None:
    found = run(search(SMALL, "random", trials=20, ladder=LADDER), SURFACE)
    assert found.spent.trials == 20 < len(found.jobs)
    assert found.trained == 19


@pytest.mark.parametrize("ladder", [None, LADDER], ids=["none", "asha"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_flops_are_spent_up_to_the_budget_exactly(ladder: Ladder | None, seeds: int) -> None:
    """What a first search has spent is enough for it to be repeated, and the next number below is not."""

    def spent(flops: float) -> BlockSearch:
        return run(search(SMALL, "random", parallel=3, budget=Budget(flops=flops), ladder=ladder, seeds=seeds), SURFACE)

    first = spent(5e16)
    exact, rounded = first._cost.flops, first.spent.flops
    assert 4e16 < exact <= 5e16
    enough = rounded if Fraction(rounded) >= exact else math.nextafter(rounded, math.inf)
    assert spent(enough).jobs == first.jobs
    less = spent(math.nextafter(enough, 0))
    assert less.jobs != first.jobs
    assert less._cost.flops < exact


def test_a_block_to_the_end_costs_the_same_by_way_of_rungs() -> None:
    """Shares of a trial add up to a trial, exactly; 1/3 of the steps and the like are not numbers of a computer."""
    ladder = Ladder(300, (10, 20, 40, 80, 160), 2)
    block_search = searched(TINY, Spy([0, 4]), budget=Budget(trials=2), ladder=ladder)
    whole = Fraction(World(TINY).flops(TINY.derive(0)))
    job = block_search.ask()
    reference = block_search._cost.flops
    assert job is not None
    block_search.tell(0, JobOutcome("finished", (0.0,)))
    for level in range(ladder.end + 1):
        block_search._sent |= {} if level == 0 else {block_search.jobs[-1].mark: level - 1}
        block = TINY.derive(0)
        block_search._handed_out(block_search._job(block, block_search.ground.mark(block), 0, level))
    assert block_search._cost.flops == reference + whole


@pytest.mark.parametrize("parallel", [1, 2, 5])
@pytest.mark.parametrize("ladder", [None, LADDER], ids=["none", "asha"])
def test_hours_are_exceeded_by_what_ran_beside_at_most(parallel: int, ladder: Ladder | None) -> None:
    block_search = search(SMALL, "random", parallel=parallel, budget=Budget(hours=1.0), ladder=ladder)
    run(block_search, SURFACE, order=Random(3))
    seconds = [results(block_search)[job.number].seconds for job in block_search.jobs]
    assert sum(seconds) == pytest.approx(block_search.spent.seconds)
    assert sum(seconds) >= HOUR > sum(seconds[:-parallel])
    assert block_search.why_over == "budget"


def test_a_search_out_of_time_lets_nothing_on() -> None:
    ladder = Ladder(STEPS, (10,), 2)
    block_search = searched(TINY, Spy([0, 4, 8]), budget=Budget(hours=1.0), ladder=ladder)
    for seconds in (0.0, 1000.0, 2600.0):
        job = block_search.ask()
        assert job is not None
        kind = "finished" if job.until is None else "paused"
        block_search.tell(job.number, JobOutcome(kind, (float(job.number),), seconds))
    assert block_search.ask() is None and block_search.over
    assert len(resting(block_search)) == 2
    less = searched(TINY, Spy([0, 4, 8]), budget=Budget(hours=1.0), ladder=ladder)
    for seconds in (0.0, 1000.0, 2599.0):
        job = less.ask()
        assert job is not None
        less.tell(job.number, JobOutcome("finished" if job.until is None else "paused", (float(job.number),), seconds))
    job = less.ask()
    assert job is not None and job.until is None and not less.over


def test_a_rung_that_flops_do_not_pay_for_is_not_climbed() -> None:
    """The budget ends with the second block at the first rung: its way on is beyond it."""
    world, ladder = World(TINY), Ladder(STEPS, (9,), 2)
    whole = searched(TINY, Spy([]))._reference.block
    flops = world.flops(whole) + 0.1 * (world.flops(TINY.derive(0)) + world.flops(TINY.derive(4)))
    block_search = searched(TINY, Spy([0, 4, 8]), budget=Budget(flops=flops * (1 + 1e-9)), ladder=ladder)
    made = run(block_search, surface(TINY, 0)).jobs
    assert [job.until for job in made] == [None, 9, 9]
    assert len(resting(block_search)) == 2
    assert (block_search.over, block_search.why_over) == (True, "budget")
    flops += 0.9 * max(world.flops(TINY.derive(0)), world.flops(TINY.derive(4)))
    more = searched(TINY, Spy([0, 4, 8]), budget=Budget(flops=flops * (1 + 1e-9)), ladder=ladder)
    assert [job.until for job in run(more, surface(TINY, 0)).jobs] == [None, 9, 9, None]


def test_a_budget_that_does_not_pay_for_the_reference() -> None:
    with pytest.raises(InputError, match=r"2 trials does not cover .* needs 3, one per seed\n  = raise"):
        search(SMALL, "random", trials=2, seeds=3)
    with pytest.raises(InputError, match="a budget of 5 flops does not cover"):
        search(SMALL, "random", budget=Budget(flops=5))
    assert search(SMALL, "random", budget=Budget(hours=1e-6)).ask() is not None


def test_what_a_budget_bounds() -> None:
    assert affords(Budget(trials=3), JobCost(3, Fraction(10**30)))
    assert not affords(Budget(trials=3), JobCost(4))
    assert affords(Budget(flops=0.1), JobCost(10**9, Fraction(0.1)))
    assert not affords(Budget(flops=0.1), JobCost(0, Fraction(1, 10) + Fraction(1, 10**17)))
    assert affords(Budget(hours=1.0), JobCost(10**9, Fraction(10**30)))
    assert used_up(Budget(hours=1.0), 3600.0) and not used_up(Budget(hours=1.0), 3599.9)
    assert not used_up(Budget(trials=1), 1e12)
    assert JobCost(1, Fraction(2)) + JobCost(3, Fraction(4)) == JobCost(4, Fraction(6))
    check_reference(Budget(hours=1.0), JobCost(1, Fraction(1)))
