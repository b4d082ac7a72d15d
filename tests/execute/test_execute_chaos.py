"""Workers are ended in every phase of their lives, several in a run: nothing is lost, doubled or changed, no run hangs.

One of each kind here, on this machine; a hundred and more, on every executor that has workers, by `pytest -m crash`,
which prints a table.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from chaos import calm, disturbed, drawn
from crashes import damage, tables_of, undisturbed

from ablate.store.snapshot import Snapshot

IN_A_RUN = 10
NOTICED_WITHIN = 10.0
EACH = [*((phase, "kill") for phase in ("step", "import", "measuring", "handshake", "saving")), ("step", "exit")]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("chaos"), steps=60, seeds=2)


def check(world, name, faults, *words):
    folder, tables = world
    survived = disturbed(folder, folder / name, faults, *words)
    assert tables_of(folder / name) == tables
    assert damage(folder / name) == []
    assert max(survived.noticed) < NOTICED_WITHIN
    return survived


@pytest.mark.full
def test_a_worker_may_die_in_every_phase(world):
    survived = check(world, "each", EACH, "--workers", "2")
    assert survived.resumed == 0, "two deaths are borne by a trial"


@pytest.mark.crash
def test_a_trial_that_loses_worker_after_worker_is_lost_and_taken_up_again(world):
    folder, tables = world
    survived = disturbed(folder, folder / "lost", [("step", "exit")] * 3, "--workers", "1", most=3)
    assert survived.resumed == 1
    log = (folder / "lost.log").read_text()
    assert "failed (lost): " in log and "ended with exit code 0" in log
    assert {outcome.kind for outcome in Snapshot(folder / "lost").outcomes().values()} == {"finished"}
    assert tables_of(folder / "lost") == tables


@pytest.mark.crash
@pytest.mark.parametrize(("executor", "kills", "exits"), [("local", 100, 30), ("ray", 20, 5)])
def test_many_die(world, executor, kills, exits, capsys):
    folder, _ = world
    words = ("--executor", executor, "--workers", "2")
    undisturbed = calm(folder, folder / f"calm-{executor}", *words)
    faults = drawn(kills, exits, random.Random(executor))
    rounds = []
    for first in range(0, len(faults), IN_A_RUN):
        rounds.append(check(world, f"{executor}-{first}", faults[first : first + IN_A_RUN], *words))
        with capsys.disabled():
            told = f"{rounds[-1].seconds:.1f} s, noticed within {max(rounds[-1].noticed):.2f} s"
            print(f"\n{executor} {len(rounds)}: {told}, resumed {rounds[-1].resumed}", end="", flush=True)
    counts = Counter(f"{phase} {how}" for phase, how in faults)
    longest, noticed = max(one.seconds for one in rounds), max(max(one.noticed) for one in rounds)
    with capsys.disabled():
        print(f"\n{executor}: {len(faults)} deaths in {len(rounds)} runs, the same tables each, no process left")
        print("  " + ", ".join(f"{number} {what}" for what, number in sorted(counts.items())))
        print(f"  longest run {longest:.1f} s, undisturbed {undisturbed:.1f} s; noticed within {noticed:.2f} s")
        print(f"  gone on with after losses: {sum(one.resumed for one in rounds)}")
    assert longest < 2 * undisturbed + 60
