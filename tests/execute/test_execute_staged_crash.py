"""A plan that learns, its driver killed between looks and inside one: gone on with, it comes to the same tables."""

from __future__ import annotations

import os
import random
import subprocess
import time

import pytest
from crashes import ABLATE, damage, log_of, start, strike, wait_gone, wait_until
from staged_fixtures import all_of, killed_at, killed_before_verdicts, run, write_looks
from tiny_spaces import write_world

import ablate
from ablate.store.snapshot import Snapshot


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
    assert len(Snapshot(results).outcomes()) == 8
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


@pytest.mark.sampled(0, gate=1)
@pytest.mark.parametrize("learns", [True, False])
def test_killed_before_the_verdicts_are_written(world, tmp_path, learns):
    """All has ended, and nothing is to be trained: to go on is to judge."""
    folder, _, calm = world
    if not learns:
        folder = tmp_path
        run(write_world(folder, steps=12), folder / "calm", executor="inline")
        calm = all_of(folder / "calm")
    results = folder / "unjudged"
    killed_before_verdicts(folder, results, 2 if learns else 1)
    assert all_of(results) != calm, "the twin: what is compared below is not there yet"
    (left,), refused = ablate.resumable(results)
    assert not refused and left.left == 0
    status = ablate_command(folder, "status", "--results", str(results))
    assert "all have ended, but were not judged since; to resume: ablate resume tiny" in status
    ablate_command(folder, "resume", "--results", str(results), "--no-mlflow")
    assert all_of(results) == calm and damage(results) == []
    assert ablate.resumable(results) == ((), ())
    assert "to go on" not in ablate_command(folder, "status", "--results", str(results))


def ablate_command(folder, *words):
    """The screen of a command, its lines joined."""
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([*ABLATE, *words], cwd=folder, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(world, executor, trials, delay):
    """Kill the driver when so many trials have ended, and `delay` seconds later; go on at once.

    With none it is from when the run is on record: of one killed before there is nothing to go on with.
    """
    folder, _, calm = world
    results = folder / f"{executor}-{trials}-{delay:.3f}"
    words = ("run", "tiny.yaml", "--executor", executor, *(() if executor == "inline" else ("--workers", "2")))
    begun = start(folder, results, *words)
    try:
        wait_until(begun, lambda: bool(Snapshot(results).requests) and len(Snapshot(results).outcomes()) >= trials)
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


@pytest.mark.crash
def test_killed_inside_a_look(world):
    check(world, "local", trials=9, delay=0.0)


@pytest.mark.crash
@pytest.mark.parametrize("executor", ["local", "inline", "ray"])
def test_killed_at_many_moments(world, executor):
    rng = random.Random(executor)
    for _ in range(8):
        check(world, executor, trials=rng.randrange(11), delay=rng.uniform(0.0, 0.5))
