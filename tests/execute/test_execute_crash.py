"""The crash matrix: `kill -9` of the driver, of a worker and of the whole group, over every executor with workers.

Nothing of the run lives two seconds later; going on at once neither loses, doubles nor changes a row. One kill of each
kind here; a hundred moments by `pytest -m crash`, which prints a table.
"""

from __future__ import annotations

import random
from itertools import product

import pytest
from crashes import crash, damage, tables_of, undisturbed
from rich.console import Console
from tiny_spaces import write_world

import ablate

EXECUTORS = ("local", "ray")
VICTIMS = ("driver", "worker", "group")
MOMENTS = 17
STEPS, SHORT, EVERY = 700, 200, 4


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("crash"), steps=STEPS)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("short"), steps=SHORT)


def check(world, executor, victim, delay):
    folder, calm = world
    measured = crash(folder, executor, victim, delay, EVERY)
    results = folder / f"{executor}-{victim}-{delay:.3f}"
    assert tables_of(results) == calm
    assert damage(results) == []
    return measured


@pytest.mark.crash
def test_killed_and_gone_on_with_in_a_short_run(short):
    check(short, "local", "driver", delay=0.3)


@pytest.mark.sampled(0, gate=1)
@pytest.mark.parametrize(("executor", "victim"), [("local", "group"), ("local", "driver"), ("ray", "worker")])
def test_killed_and_gone_on_with(world, executor, victim):
    check(world, executor, victim, delay=1.2)


@pytest.mark.full
def test_the_comparison_sees_one_changed_bit(world, tmp_path):
    """The twin: what is compared above is not empty, and one bit of one row is enough."""
    _, calm = world
    assert len(calm["rows"]) > 1000 and len(calm["leaderboard"]) == 4
    space = ablate.load_space(write_world(tmp_path, steps=STEPS, seeds=1), settings=["recipe.clip=0.9999999"])
    ablate.run(space, results=tmp_path / "other", executor="inline", console=Console(quiet=True), mirror=False)
    assert tables_of(tmp_path / "other") != calm


@pytest.mark.crash
@pytest.mark.parametrize(("executor", "victim"), list(product(EXECUTORS, VICTIMS)))
def test_at_many_moments(world, executor, victim, capsys):
    rng = random.Random(f"{executor} {victim}")
    delays = sorted(rng.uniform(0.0, 6.0) for _ in range(MOMENTS))
    lived = [check(world, executor, victim, delay)["lived"] for delay in delays]
    rest = "the run went on" if victim == "worker" else f"all gone after at most {max(lived):.2f} s"
    with capsys.disabled():
        print(f"\n{executor:6} {victim:7} {len(delays)} moments, same tables each; {rest}")
