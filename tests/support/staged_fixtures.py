"""Tiny spaces whose plans learn from their trials, and runs of them that are killed where they unfold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from crashes import tables_of
from rich.console import Console
from tiny_spaces import write_world

import ablate

KILLED = """
import os, signal, sys
from ablate.session.running import StagedRun
go_on, calls, moment, when = StagedRun._go_on, [], int(sys.argv[1]), sys.argv[2]
def killed(self):
    calls.append(1)
    if len(calls) == moment and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    go_on(self)
    if len(calls) == moment:
        os.kill(os.getpid(), signal.SIGKILL)
StagedRun._go_on = killed
sys.argv = ["ablate", *sys.argv[3:]]
from ablate.cli import main
main()
"""
"""`ablate …` that dies with its n-th unfolding: before it, or when its plan is kept and nothing of it begun."""

BEFORE_VERDICTS = """
import os, signal, sys
from ablate.session import judging
keep, calls, moment = judging.keep, [], int(sys.argv[1])
def killed(*of):
    calls.append(1)
    if len(calls) == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    keep(*of)
judging.keep = killed
sys.argv = ["ablate", *sys.argv[2:]]
from ablate.cli import main
main()
"""
"""`ablate …` that dies where it would write its n-th verdicts."""


def write_looks(
    folder: Path, *, looks: str = "[2, 3, 4]", margin: str = "1e-6", steps: int = 12, extra: str = ""
) -> Path:
    """A path of three edits with seeds that are added; a margin of 50 % is decided at once, one of 1e-6 never."""
    path = write_world(folder, steps=steps)
    text = path.read_text(encoding="utf-8")
    text = text.replace("seeds: 2", f"seeds: {{auto: {{looks: {looks}}}}}\n{extra}")
    text = text.replace("margin: 1%", f"margin: {margin}").replace(", peak_kurtosis: {scale: log}", "")
    path.write_text(text, encoding="utf-8")
    return path


def run(path: Path, results: Path, **options: object) -> ablate.Run:
    """Run a space without a word."""
    console = options.pop("console", Console(quiet=True))
    return ablate.run(ablate.load_space(path), results=results, console=console, mirror=False, **options)


def killed_at(folder: Path, results: Path, moment: int, when: str) -> None:
    """A run whose driver is killed at its n-th unfolding."""
    _killed(folder, results, KILLED, str(moment), when)


def killed_before_verdicts(folder: Path, results: Path, moment: int) -> None:
    """A run whose driver is killed where it would write its n-th verdicts."""
    _killed(folder, results, BEFORE_VERDICTS, str(moment))


def _killed(folder: Path, results: Path, script: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, *words, "run", "tiny.yaml", "--results", str(results), "--no-mlflow"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "COLUMNS": "120"},
    )
    assert done.returncode == -9, done.stdout + done.stderr


def all_of(results: Path) -> dict[str, list[tuple[str, ...]]]:
    """The tables of a run and its verdicts, without what tells how often it was asked."""
    from ablate.store.query import query

    more = ("effects", "verdicts", "memberships")
    return tables_of(results) | {
        name: [tuple(map(repr, row)) for row in query(results, f"FROM {name} ORDER BY ALL").rows] for name in more
    }
