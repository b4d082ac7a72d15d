"""Searches killed at some moment and gone on with: the same proposals, trials and rows as of one nobody disturbed."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from crashes import crash, damage
from search_runs import carry_out, design, searched, tables_of
from tiny_spaces import write_world

EXECUTORS = ("local", "ray")
VICTIMS = ("driver", "worker", "group")
MOMENTS = 6
STEPS, EVERY = 240, 4
RUNGS = ", pruner: {asha: {first: 25%, factor: 2}}, confirm: {blocks: 1, seeds: 2}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[tuple[object, ...]]]]:
    """A folder with a space that is a search, and the tables of one that nobody disturbed."""
    folder = tmp_path_factory.mktemp("crash")
    path = write_world(folder, steps=STEPS, seeds=1)
    text = path.read_text(encoding="utf-8")
    asked = design(trials=8, more=RUNGS).replace("design=", "design: ", 1)
    text = text.replace("design: {path: {from: pre_ln, to: op}}", asked).replace("{every: 8,", "{every: 20,")
    path.write_text(text, encoding="utf-8")
    carry_out(searched(path), folder / "calm")
    return folder, tables_of(folder / "calm")


def check(world: tuple[Path, dict[str, list[tuple[object, ...]]]], executor: str, victim: str, delay: float) -> float:
    folder, calm = world
    lived = crash(folder, executor, victim, delay, EVERY)["lived"]  # type: ignore[arg-type]
    results = folder / f"{executor}-{victim}-{delay:.3f}"
    assert tables_of(results) == calm
    assert damage(results) == []
    return lived


@pytest.mark.crash
def test_killed_and_gone_on_with(world) -> None:
    check(world, "local", "driver", delay=1.0)


@pytest.mark.crash
@pytest.mark.parametrize(("executor", "victim"), list(product(EXECUTORS, VICTIMS)))
def test_at_many_moments(world, executor: str, victim: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(f"search {executor} {victim}")
    delays = sorted(rng.uniform(0.0, 8.0) for _ in range(MOMENTS))
    lived = [check(world, executor, victim, delay) for delay in delays]
    rest = "the run went on" if victim == "worker" else f"all gone after at most {max(lived):.2f} s"
    with capsys.disabled():
        print(f"\nsearch {executor:6} {victim:7} {len(delays)} moments, same tables each; {rest}")
