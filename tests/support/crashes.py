"""A run killed at a moment, gone on with at once, and what must hold afterwards. Real processes, real signals.

Every process of a run, whoever started it and whatever session it has put itself in, is known by a mark in its
environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.store import claim, journal
from ablate.store.snapshot import Snapshot, open_trials

ABLATE = [sys.executable, "-c", "from ablate.cli import main; main()"]
MARK = "ABLATE_TEST_MARK"
ALLOWED = 2.0
"""Seconds after which nothing of a run may be alive whose driver was killed."""

Victim = Literal["driver", "worker", "group"]
TABLES = ("leaderboard", "final", "pairs", "summaries", "metrics", "edits", "divergences")


@dataclass
class Started:
    """A run under way."""

    folder: Path
    results: Path
    process: subprocess.Popen[str]
    mark: str
    reached: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """For each trial when its worker was seen to have come to which step."""

    def look(self) -> None:
        """Note how far each worker says it is."""
        now = time.monotonic()
        for holder in claim.holders(self.results).values():
            self.reached.setdefault(holder.trial_id, []).append((now, holder.step))

    def reported(self, before: float) -> dict[str, int]:
        """The step that each trial's worker had done at a time."""
        return {
            trial_id: max(step for when, step in seen if when <= before)
            for trial_id, seen in self.reached.items()
            if any(when <= before for when, _ in seen)
        }


def undisturbed(folder: Path, *, steps: int, seeds: int = 1) -> tuple[Path, object]:
    """A folder with a space, and the tables of a run that nobody disturbed."""
    space = ablate.load_space(write_world(folder, steps=steps, seeds=seeds))
    ablate.run(space, results=folder / "calm", executor="inline", console=Console(quiet=True), mirror=False)
    return folder, tables_of(folder / "calm")


def start(folder: Path, results: Path, *words: str, environment: Mapping[str, str] | None = None) -> Started:
    """Start `ablate …` in a process group of its own."""
    mark = uuid.uuid4().hex
    log = (folder / f"{results.name}.log").open("a")
    process = subprocess.Popen(
        [*ABLATE, *words, "--results", str(results), "--no-mlflow"],
        cwd=folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, MARK: mark, "COLUMNS": "120", **(environment or {})},
    )
    log.close()
    return Started(folder, results, process, mark)


def alive(mark: str) -> dict[int, str]:
    """The living processes of a run: pid and command."""
    found = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            marked = f"{MARK}={mark}".encode() in (place / "environ").read_bytes()
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marked and state not in "ZX":
            found[int(place.name)] = command[:120]
    return found


def wait_until(run: Started, what, seconds: float = 90.0) -> None:
    """Look at a run until `what()` is true; an error if it ends before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run.look()
        if what():
            return
        assert run.process.poll() is None, "the run was over too soon:\n" + log_of(run)
        time.sleep(0.05)
    raise AssertionError("waited in vain:\n" + log_of(run))


def strike(run: Started, victim: Victim) -> int:
    """kill -9; the process that was hit."""
    if victim == "driver":
        run.process.kill()
    elif victim == "group":
        os.killpg(run.process.pid, signal.SIGKILL)
    else:
        living = [holder.pid for holder in claim.holders(run.results).values() if holder.alive]
        assert living, "no worker has a trial"
        os.kill(living[0], signal.SIGKILL)
        return living[0]
    return run.process.pid


def written(results: Path) -> dict[str, int]:
    """The last step each trial has rows of; a trial that has ended has all of them."""
    ended = dict.fromkeys(Snapshot(results).outcomes(), sys.maxsize)
    found = {}
    for trial_id in open_trials(results):
        content = journal.read(journal.path_of(results, trial_id))
        found[trial_id] = max((row[0] for row in content.rows), default=-1) if content else -1
    return found | ended


def crash(folder: Path, executor: str, victim: Victim, delay: float, every: int) -> dict[str, float]:
    """Kill a run `delay` seconds after its first trial began, go on at once, and check all that must hold.

    `every` is how many steps lie between measured ones. What was measured: how long processes lived on, in seconds.
    """
    results = folder / f"{executor}-{victim}-{delay:.3f}"
    run = start(folder, results, "run", "tiny.yaml", "--executor", executor, "--workers", "2")
    try:
        wait_until(run, lambda: any(holder.step > 0 for holder in claim.holders(results).values()))
        moment = time.monotonic() + delay
        wait_until(run, lambda: time.monotonic() >= moment)
        if victim == "worker":
            wait_until(run, lambda: any(holder.alive for holder in claim.holders(results).values()))
        must = run.reported(time.monotonic() - 1.0)
        strike(run, victim)
        lived = 0.0
        if victim == "worker":
            assert run.process.wait(240) == 0, log_of(run)
        else:
            killed = time.monotonic()
            there = written(results)
            for trial_id, step in must.items():
                last_measured = (step - 1) // every * every
                assert there.get(trial_id, -1) >= last_measured, f"{trial_id} lost rows: {there} < {step}"
            resumed = start(folder, results, "resume")
            while alive(run.mark):
                lived = time.monotonic() - killed
                assert lived <= ALLOWED, f"alive {lived:.1f} s later: {alive(run.mark)}"
                time.sleep(0.02)
            assert resumed.process.wait(240) == 0, log_of(run)
            wait_gone(resumed.mark)
        wait_gone(run.mark)
    finally:
        run.process.kill()
        run.process.wait()
    return {"lived": lived}


def wait_gone(mark: str, seconds: float = 10.0) -> None:
    """A run that is over leaves nothing behind."""
    end = time.monotonic() + seconds
    while left := alive(mark):
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.05)


def log_of(run: Started) -> str:
    """What the run has printed."""
    return (run.folder / f"{run.results.name}.log").read_text()[-3000:]


def tables_of(results: Path) -> dict[str, list[tuple[str, ...]]]:
    """The rows and final tables, as text so that NaN equals itself."""
    from ablate.store.query import query

    return {
        name: [tuple(map(repr, row)) for row in query(results, f"FROM {name} ORDER BY ALL").rows] for name in TABLES
    } | {"rows": [tuple(map(repr, row)) for row in rows_of(results)]}


def damage(results: Path) -> list[str]:
    """What is not whole in a results folder."""
    now = Snapshot(results)
    found = [f"{name} {fault}" for name, fault in now.lost.items()]
    found += [f"{name} is not listed" for name in now.unlisted]
    if now.witness.torn or now.witness.damaged:
        found.append(f"witness: torn {now.witness.torn}, damaged {now.witness.damaged}")
    return found + [f"open: {trial_id}" for trial_id in open_trials(results)]
