"""Rungs: where they stand, who goes on from them, and what is told of blocks that came to different ones."""

from __future__ import annotations

import math
import re

import pytest
from search_fixtures import STEPS, carried_out, resting, run, search, searched, surface
from test_execute_search import SMALL, TINY, Spy

from ablate.errors import InputError
from ablate.execute.search.ranking import (
    Arrival,
    JobOutcome,
    Ladder,
    Origin,
    Result,
    RungCorrelation,
    correlations,
    history,
    ladder_of,
    let_on,
    spearman,
    told_level,
)
from ablate.execute.search.search import BlockSearch
from ablate.space.design import Budget, Pruner, Rungs

pytestmark = pytest.mark.fast


def pruner(kind: str, first: float, factor: int) -> Pruner:
    return Pruner(**{kind: Rungs(first=first, factor=factor)})


@pytest.mark.parametrize(
    ("first", "factor", "steps", "every", "rungs"),
    [
        (0.1, 3, 300, 10, (30, 90, 270)),
        (0.1, 3, 300, 25, (25, 75, 250)),  # down to an evaluation
        (0.29, 2, 100, 1, (29, 58)),  # 0.29 * 100 is 28.999999999999996
        (1 / 3, 3, 300, 10, (100,)),  # the next one is the end
        (0.01, 10, 100_000, 1000, (1000, 10_000)),
        (0.5, 2, 4, 1, (2,)),
    ],
)
def test_rungs_stand_at_evaluations(first: float, factor: int, steps: int, every: int, rungs: tuple[int, ...]) -> None:
    assert ladder_of(pruner("asha", first, factor), steps, every) == Ladder(steps, rungs, factor, 1)
    assert ladder_of(pruner("hyperband", first, factor), steps, every).brackets == len(rungs) + 1


@pytest.mark.parametrize(
    ("first", "steps", "every", "message"),
    [
        (0.05, 300, 25, "the first rung, at 5% of 300 steps, is before the first evaluation, at step 25\n  = start"),
        (
            0.99,
            100,
            1,
            "no evaluation, one every 1 of 100 steps, can be a rung before the end\n  = evaluate more often",
        ),
        (0.5, 1, 1, "can be a rung before the end"),
    ],
)
def test_rungs_that_cannot_be(first: float, steps: int, every: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ladder_of(pruner("asha", first, 2), steps, every)


def test_the_way_out_of_a_rung_too_early_is_one() -> None:
    with pytest.raises(InputError) as raised:
        ladder_of(pruner("asha", 0.05, 3), 300, 25)
    said = re.search(r"first: (\d+)%", str(raised.value))
    assert said is not None
    assert ladder_of(pruner("asha", int(said[1]) / 100, 3), 300, 25).rungs[0] == 25


def test_a_trial_pauses_behind_the_step_of_its_rung() -> None:
    ladder = Ladder(100, (10, 30))
    assert [ladder.done(level) for level in (None, 0, 1, 2)] == [0, 11, 31, 100]


def paused(*values: float) -> JobOutcome:
    return JobOutcome("paused", values)


def test_the_best_of_what_has_come_goes_on() -> None:
    came = [paused(5.0), paused(3.0), paused(4.0), paused(1.0), paused(2.0)]
    assert [let_on(came[:n], 2, ("min",)) for n in range(6)] == [[], [], [1], [1], [3, 1], [3, 4]]
    assert let_on(came, 3, ("max",)) == [0]
    assert let_on([paused(1.0, 2.0), paused(2.0, 1.0), paused(3.0, 3.0), paused(4.0, 4.0)], 2, ("min", "min")) == [0, 1]


def test_what_diverged_is_counted_and_stays() -> None:
    diverged, bug = JobOutcome("diverged"), JobOutcome("bug")
    assert let_on([paused(1.0), diverged, diverged, paused(2.0)], 2, ("min",)) == [0, 3]
    assert let_on([paused(1.0), bug, bug, paused(2.0)], 2, ("min",)) == [0]
    assert let_on([diverged] * 6, 2, ("min",)) == []
    assert let_on([paused(math.nan), paused(1.0)], 2, ("min",)) == [1]
    assert let_on([paused(math.nan)] * 4, 2, ("min",)) == []


def test_asha_by_hand() -> None:
    """Blocks A ... E with the same loss at every rung; half of what has come to a rung goes on; one job at a time."""
    losses = {"A": 5.0, "B": 3.0, "C": 4.0, "D": 1.0, "E": 2.0}
    derivations = dict(zip("ABCDE", (0, 4, 8, 5, 7), strict=True))
    names = {TINY.derive(index): name for name, index in derivations.items()}
    block_search = searched(
        TINY, Spy(list(derivations.values())), budget=Budget(trials=6), ladder=Ladder(STEPS, (10, 20), factor=2)
    )
    made = []
    while (job := block_search.ask()) is not None:
        if job.k is None:
            block_search.tell(job.number, JobOutcome("finished", (0.0,)))
            continue
        made.append((names[job.block], job.rung))
        block_search.tell(
            job.number, JobOutcome("finished" if job.until is None else "paused", (losses[names[job.block]],))
        )
    assert made == [
        ("A", 0),  # of 1, none goes on
        ("B", 0),
        ("B", 1),  # the better one of 2
        ("C", 0),  # of 3, B is on already
        ("D", 0),
        ("D", 1),  # the best 2 of 4 are D and B
        ("D", None),  # the better one of B and D at the second rung: the highest rung first
        ("E", 0),
        ("E", 1),  # the best 2 of 5 are D and E; no trial is left for a new block
    ]
    assert [(names[job.block], job.rung) for job in resting(block_search)] == [("A", 0), ("B", 1), ("C", 0), ("E", 1)]
    assert (block_search.over, block_search.why_over, block_search.spent.trials) == (True, "budget", 6)
    assert [job.until for job in block_search.jobs[:4]] == [None, 10, 10, 20]


def test_the_highest_rung_comes_first() -> None:
    """A repeat waits for job 9, and by then something may go on from both rungs."""
    derivations = (0, 4, 8, 5, 7, 1, 2)
    spy, ladder = Spy([*derivations, 2]), Ladder(STEPS, (10, 20), 2)
    block_search = searched(TINY, spy, parallel=4, ladder=ladder)
    made: list[tuple[int | None, int | None]] = []
    while len(block_search.jobs) < 12:
        if (job := block_search.ask()) is None:
            number = next(n for n in range(len(block_search.jobs)) if block_search.came(n) is None)
            k = block_search.jobs[number].k
            kind = "paused" if block_search.jobs[number].until else "finished"
            block_search.tell(number, JobOutcome(kind, (0.0 if k is None else float(k),)))
        else:
            made.append((job.k, job.until))
    assert made[:6] == [(None, None), (0, 10), (1, 10), (2, 10), (3, 10), (4, 10)]
    assert made[6:10] == [(0, 20), (5, 10), (1, 20), (6, 10)]
    assert made[10:] == [(0, None), (2, 20)]  # the better of 2 at the second rung, then the third of 7 at the first


def test_promotions_go_on_after_the_last_trial_is_begun() -> None:
    """Four at once: nothing can be let on before the results of the last ones are there."""
    block_search = searched(
        TINY, Spy([0, 4, 8, 5]), parallel=5, budget=Budget(trials=5), ladder=Ladder(STEPS, (10,), factor=4)
    )
    jobs = [job for _ in range(5) if (job := block_search.ask())]
    assert block_search.ask() is None and not block_search.over
    for job in (jobs[4], jobs[2], jobs[0], jobs[3]):
        block_search.tell(job.number, JobOutcome("finished" if job.until is None else "paused", (float(job.number),)))
        assert block_search.ask() is None and not block_search.over
    block_search.tell(1, paused(9.0))
    last = block_search.ask()
    assert last is not None and (last.number, last.block, last.until) == (5, jobs[2].block, None)
    assert block_search.ask() is None and not block_search.over
    block_search.tell(5, JobOutcome("diverged"))
    assert block_search.ask() is None and block_search.over
    assert jobs[2] not in resting(block_search) and jobs[1] in resting(block_search)


def test_brackets_begin_in_turn_at_the_rungs_and_the_end() -> None:
    ladder = ladder_of(pruner("hyperband", 0.1, 3), STEPS, 10)
    assert ladder == Ladder(STEPS, (10, 30, 90), 3, 4)
    found = search(SMALL, "random", trials=33, ladder=ladder)
    jobs = list(carried_out(found, surface(SMALL, 1)))
    first: dict[str, int | None] = {}
    for job in jobs:
        first.setdefault(job.mark, job.until)
    assert list(first.values()) == [10, 30, 90, None] * 8
    asha = search(SMALL, "random", trials=33, ladder=Ladder(STEPS, (10, 30, 90), 3))
    begun = {job.k: job.until for job in reversed(list(carried_out(asha, surface(SMALL, 1))))}
    assert set(begun.values()) == {10}


def test_brackets_do_not_compete_with_each_other() -> None:
    """Two that began at the second rung, and one that came up to it: none of three in the first bracket's place."""
    ladder = Ladder(STEPS, (10, 20), 2, brackets=2)
    block_search = searched(TINY, Spy([0, 4, 8, 5, 7]), budget=Budget(trials=6), ladder=ladder)
    losses = {0: 1.0, 4: 9.0, 8: 2.0, 5: 8.0, 7: 3.0}
    made = []
    while (job := block_search.ask()) is not None:
        index = None if job.k is None else block_search.proposed[job.k].proposal.index
        made.append((index, job.until))
        kind = "finished" if job.until is None else "paused"
        block_search.tell(job.number, JobOutcome(kind, (0.0 if index is None else losses[index],)))
    assert made == [
        (None, None),
        (0, 10),
        (4, 20),
        (8, 10),
        (0, 20),  # the better one of 0 and 8
        (5, 20),
        (5, None),  # the better one of 4 and 5: with 0 among them, it would be 0
        (7, 10),
    ]


def test_diverged_blocks_never_go_on() -> None:
    found = search(SMALL, "random", parallel=3, trials=60, ladder=Ladder(STEPS, (10, 30), 2))
    run(found, surface(SMALL, 4, diverged=0.4))
    kinds = [(job, came.outcome) for job in found.jobs if (came := found.came(job.number))]
    diverged = {job.mark for job, kind in kinds if kind == "diverged"}
    assert len(diverged) > 10
    for mark in diverged:
        last = [kind for job, kind in kinds if job.mark == mark][-1]
        assert last == "diverged"
        assert not any(job.mark == mark for job in resting(found))
    assert sum(kind == "finished" for _, kind in kinds) > 3


def levels(*values: float | None, job: int = 0) -> dict[int, Arrival]:
    return at(*(None if value is None else paused(value) for value in values), job=job)


def at(*came: JobOutcome | None, job: int = 0) -> dict[int, Arrival]:
    """What a block came to at each level, in jobs one after another."""
    return {level: Arrival(job + level, one) for level, one in enumerate(came) if one is not None}


def test_samplers_are_told_of_the_highest_rung_that_ten_have_reached() -> None:
    standing = {
        str(n): levels(float(n), 100.0 + n if n < 10 else None, 200.0 if n < 9 else None, job=10 * n) for n in range(15)
    }
    assert told_level(standing) == 1
    standing["diverged"] = at(JobOutcome("diverged"), job=150)
    standing["late"] = at(paused(1.0), JobOutcome("diverged"), job=160)
    standing["bug"] = at(paused(1.0), paused(2.0), JobOutcome("bug"), job=170)
    standing["last"] = at(paused(1.0), paused(2.0), JobOutcome("diverged"), job=180)
    named = [
        *((n, str(n)) for n in range(15)),
        (20, "diverged"),
        (21, "late"),
        (22, "bug"),
        (24, "last"),
        (23, "running"),
    ]
    proposed = [Origin(index, mark, 10 * n) for n, (index, mark) in enumerate(named)]
    results = history([*proposed, Origin(3, "3", 200)], standing)
    assert results[:10] == [Result(n, "paused", (100.0 + n,)) for n in range(10)]
    assert results[10:15] == [Result(n, "paused") for n in range(10, 15)]
    assert results[15:18] == [Result(20, "diverged"), Result(21, "diverged"), Result(22, "paused", (2.0,))]
    assert results[18] == Result(24, "diverged")  # though it had values at the rung
    assert results[19:] == [Result(3, "paused", (103.0,))]  # what is the same, again; what still runs, not


def test_what_is_new_is_told_last() -> None:
    """Blocks come up to a rung in another order than they were proposed in; a repeat stands where it was proposed."""
    proposed = [Origin(7, "a", 1), Origin(8, "b", 2), Origin(9, "c", 3), Origin(6, "a", 9)]
    standing = {
        "a": {0: Arrival(1, paused(1.0)), 1: Arrival(8, paused(1.5))},
        "b": {0: Arrival(2, paused(2.0)), 1: Arrival(6, paused(2.5))},
        "c": {0: Arrival(3, paused(3.0)), 1: Arrival(7, paused(3.5))},
    }
    assert [result.index for result in history(proposed, standing)] == [8, 9, 7, 6]
    first = {mark: {0: levels[0]} for mark, levels in standing.items()}
    assert [result.index for result in history(proposed, first)] == [7, 8, 9, 6]


def test_before_ten_have_come_anywhere_that_rung_counts_that_most_have_reached() -> None:
    assert told_level({"a": levels(1.0, 2.0), "b": levels(1.0)}) == 0
    assert told_level({"a": levels(1.0, 2.0)}) == 1
    assert told_level({"a": at(JobOutcome("diverged"))}) is None
    assert told_level({}) is None


def test_a_sampler_sees_one_rung() -> None:
    """With a ladder, all that is told has the values of one level; the reference's are never told."""
    block_search = search(SMALL, "random", trials=41, ladder=Ladder(STEPS, (10, 30), 3))
    came = surface(SMALL, 1)
    list(carried_out(block_search, came))
    standing = block_search._standing(len(block_search.jobs))
    level = told_level({mark: one for mark, one in standing.items() if mark != block_search.jobs[0].mark})
    assert level == 1  # 40 came to the first rung, a third of them to the second, four to the end
    told = history(block_search._origins.values(), standing)
    values = {one.values for one in told if one.values}
    assert values == {levels[1].came.values for levels in standing.values() if 1 in levels}
    assert 10 <= len(values) < 20


def test_rank_correlations_by_hand() -> None:
    """Spearman without ties is 1 - 6 sum d^2 / (n (n^2 - 1))."""
    pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (4.0, 5.0), (5.0, 4.0)]
    assert spearman(pairs) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert spearman([(a, -a) for a, _ in pairs]) == pytest.approx(-1)
    assert spearman(pairs[:2]) is None
    assert spearman([]) is None
    assert spearman([(a, 1.0) for a, _ in pairs]) is None


def test_correlations_are_between_every_two_levels_and_for_each_objective() -> None:
    standing = {
        "a": at(paused(1.0, 9.0), paused(1.0, 1.0), JobOutcome("finished", (1.0, 1.0))),
        "b": at(paused(2.0, 8.0), paused(2.0, 2.0)),
        "c": at(paused(3.0, 7.0), paused(4.0, 3.0)),
        "d": at(paused(4.0, 6.0), paused(3.0, math.nan)),
        "e": at(paused(9.0, 1.0), JobOutcome("diverged")),
        "reference": at(None, None, JobOutcome("finished", (0.0, 0.0))),
    }
    found = correlations(standing, Ladder(100, (10, 30)), 2)
    assert found == (
        RungCorrelation(10, 30, 4, 0, pytest.approx(0.8)),
        RungCorrelation(10, 30, 3, 1, pytest.approx(-1.0)),
        RungCorrelation(10, 100, 1, 0, None),
        RungCorrelation(10, 100, 1, 1, None),
        RungCorrelation(30, 100, 1, 0, None),
        RungCorrelation(30, 100, 1, 1, None),
    )


def test_correlations_of_a_search() -> None:
    """Noise that is less at later rungs: neighbours agree more there. Without rungs there is nothing to correlate."""
    found = search(SMALL, "random", trials=100, ladder=Ladder(STEPS, (10, 80), 2))
    list(carried_out(found, surface(SMALL, 1)))
    early, across, late = found.correlations()
    assert (early.lower, early.upper, late.lower, late.upper) == (10, 80, 80, 100)
    assert early.n > late.n == across.n > 10
    assert late.spearman is not None and across.spearman is not None
    assert late.spearman > 0.8 > across.spearman
    assert search(SMALL, "random").correlations() == ()


def test_what_pauses_was_asked_to() -> None:
    block_search: BlockSearch = searched(TINY, Spy([0]), ladder=Ladder(STEPS, (10,)))
    assert block_search.ask() is not None
    with pytest.raises(ValueError, match="cannot be paused"):
        block_search.tell(0, paused(1.0))
    block_search.tell(0, JobOutcome("finished", (1.0,)))
    assert block_search.ask() is not None
    with pytest.raises(ValueError, match="cannot be finished"):
        block_search.tell(1, JobOutcome("finished", (1.0,)))
    block_search.tell(1, paused(1.0))
    assert [job.number for job in resting(block_search)] == [1]
