"""A plan that learns, its driver killed between looks and inside one: gone on with, it comes to the same tables."""

from __future__ import annotations

import random
import time

import pytest
from crashes import damage, log_of, start, strike, wait_gone, wait_until
from staged_worlds import all_of, killed_at, run, write_looks

import ablate
from ablate.store import ledger


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with a space of two looks, and the tables of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("staged")
    path = write_looks(folder, looks="[2, 3]")
    done = run(path, folder / "calm", executor="inline")
    assert len(done.plan.trials) == 12
    return folder, path, all_of(folder / "calm")


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.slow)])
def test_killed_between_looks(world, when):
    """`before`: all of the look has ended, and nothing follows from it yet; `after`: the next one is asked for."""
    folder, path, calm = world
    results = folder / f"killed-{when}"
    killed_at(folder, results, 1, when)
    assert len(ledger.known_outcomes(results)) == 8
    (left,), refused = ablate.resumable(results)
    assert not refused and left.left == 4, "what follows from the first look"
    run(path, results, executor="inline")
    assert all_of(results) == calm and damage(results) == []


@pytest.mark.slow
def test_killed_after_the_last_look(world):
    """All has ended, and the plan that is kept does not say so yet."""
    folder, path, calm = world
    results = folder / "killed-last"
    killed_at(folder, results, 2, "before")
    run(path, results, executor="inline")
    assert all_of(results) == calm and ablate.resumable(results) == ((), ())


def check(world, executor, trials, delay):
    """Kill the driver when so many trials have ended, and `delay` seconds later; go on at once."""
    folder, _, calm = world
    results = folder / f"{executor}-{trials}-{delay:.3f}"
    words = ("run", "tiny.yaml", "--executor", executor, *(() if executor == "inline" else ("--workers", "2")))
    begun = start(folder, results, *words)
    try:
        wait_until(begun, lambda: len(ledger.known_outcomes(results)) >= trials)
        time.sleep(delay)
        strike(begun, "driver")
        resumed = start(folder, results, "resume")
        assert resumed.process.wait(240) == 0, log_of(begun)
        wait_gone(begun.mark)
        wait_gone(resumed.mark)
    finally:
        begun.process.kill()
        begun.process.wait()
    assert all_of(results) == calm and damage(results) == []


@pytest.mark.full
def test_killed_inside_a_look(world):
    check(world, "local", trials=9, delay=0.0)


@pytest.mark.crash
@pytest.mark.parametrize("executor", ["local", "inline", "ray"])
def test_killed_at_many_moments(world, executor):
    rng = random.Random(executor)
    for _ in range(8):
        check(world, executor, trials=rng.randrange(11), delay=rng.uniform(0.0, 0.5))
