"""Runs whose workers are ended in every phase of their lives, and what must hold afterwards. See `faults`."""

from __future__ import annotations

import os
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

from crashes import Started, log_of, start, wait_gone

FAULTS = Path(__file__).parent / "faults"
STARTING = ("import", "handshake")
IN_TRIAL = ("step", "measuring", "saving", "anywhere")
NOTICED = re.compile(r"worker was lost|worker was gone|worker failed|could not start|had no trial")
"""What a run says of a worker that is gone."""

LONGEST = 900.0

Fault = tuple[str, str]
"""A phase, and how: `kill` or `exit`."""


def drawn(kills: int, exits: int, rng: random.Random) -> list[Fault]:
    """So many of each in random order: a third of the kills at start-up, the rest of both in mid-trial."""
    starting = kills // 3
    found = [(STARTING[n % 2], "kill") for n in range(starting)]
    found += [(IN_TRIAL[n % 4], "kill") for n in range(kills - starting)]
    found += [(IN_TRIAL[n % 4], "exit") for n in range(exits)]
    rng.shuffle(found)
    return found


@dataclass
class Survived:
    """A run that is over: how long it took in seconds, what was fired, and how long until each was noticed.

    Of a Ray worker that is gone before it is there, nothing was told once in twenty deaths: its trial simply began with
    another. So of those it is asked alone that the run goes on.
    """

    seconds: float
    fired: list[Fault]
    noticed: list[float]
    resumed: int = 0


def calm(folder: Path, results: Path, *words: str) -> float:
    """An undisturbed run; its seconds."""
    began = time.monotonic()
    run = start(folder, results, "run", "tiny.yaml", *words)
    assert run.process.wait(LONGEST) == 0, log_of(run)
    wait_gone(run.mark)
    return time.monotonic() - began


def disturbed(folder: Path, results: Path, faults: list[Fault], *words: str, most: int = 2) -> Survived:
    """A run with these faults, gone on with where trials were lost; all of them fired, and no process is left.

    A worker that is to end while it starts is one that is started after those before it in the list have ended, so
    that others have trials meanwhile. No trial ends more than `most` workers.
    """
    place = folder / f"{results.name}-faults"
    place.mkdir()
    for number, (phase, how) in enumerate(faults):
        (place / f"{phase}.{how}.{number if phase in STARTING else 0}.{number}").touch()
    path = os.pathsep.join([str(FAULTS), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path, "ABLATE_TEST_FAULTS": str(place), "ABLATE_TEST_MOST": str(most)}
    began, resumed = time.monotonic(), 0
    run = start(folder, results, "run", "tiny.yaml", *words, environment=environment)
    said, position = _listen(run, 0)
    while run.process.returncode == 1 and resumed < len(faults):  # trials were lost
        resumed += 1
        wait_gone(run.mark)
        run = start(folder, results, "resume", environment=environment)
        more, position = _listen(run, position)
        said += more
    assert run.process.returncode == 0, log_of(run)
    seconds = time.monotonic() - began
    wait_gone(run.mark)
    lines = [line.split() for line in (place / "fired").read_text().splitlines()]
    left = [path.name for path in place.iterdir() if path.name != "fired"]
    assert not left and len(lines) == len(faults), f"not fired: {left}\n{log_of(run)}"
    when = sorted(float(line[0]) for line in lines if not ("ray" in words and line[1] in STARTING))
    told, noticed = sorted(said), []
    for died in when:  # each has a telling of its own
        at = next((at for at in told if at >= died), None)
        assert at is not None, f"{len(when)} deaths, {len(said)} of them told:\n{log_of(run)}"
        told.remove(at)
        noticed.append(at - died)
    return Survived(seconds, faults, noticed, resumed)


def _listen(run: Started, position: int) -> tuple[list[float], int]:
    """When the run has told of each worker that was gone, until it ends; its log is read from a position."""
    said, rest, end = [], "", time.monotonic() + LONGEST
    with (run.folder / f"{run.results.name}.log").open() as file:
        file.seek(position)
        while True:
            over = run.process.poll() is not None
            *lines, rest = (rest + file.read()).split("\n")
            said += [time.time() for line in lines if NOTICED.search(line)]
            if over:
                return said, file.tell()
            if time.monotonic() > end:
                run.process.kill()
                raise AssertionError("it never ended:\n" + log_of(run))
            time.sleep(0.02)
