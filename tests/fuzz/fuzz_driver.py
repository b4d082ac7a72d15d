"""Runs cases in processes of their own, and says which failed: by what came of them, by its end, or by its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz_cases import SEED, Case, case, case_of

WORKER = Path(__file__).with_name("fuzz_worker.py")


@dataclass(frozen=True)
class Found:
    """A case that came to what it may not come to, and what that was."""

    case: Case
    why: str

    def __str__(self) -> str:
        return f"{self.case.line()}\n{self.why}"


@dataclass(frozen=True)
class Ran:
    """What a worker came to: the cases it found, how many it finished, and how it ended (None: as it should)."""

    found: tuple[Found, ...]
    finished: int
    ended: str | None


def run_numbers(first: int, count: int, seed: int = SEED) -> tuple[Found, ...]:
    """Cases `first` … `first + count - 1`; one that ends its worker counts if it does so again alone."""
    found: list[Found] = []
    end = first + count
    while first < end:
        ran = _run((str(first), str(end - first), str(seed)), first)
        found += ran.found
        if ran.ended is None:
            break
        first += ran.finished
        found += run_cases([case(first, seed)])
        first += 1
    return tuple(found)


def run_cases(cases: Sequence[Case], worker: Path = WORKER) -> tuple[Found, ...]:
    """These cases, in order; one that ends its worker is found, and those behind it run in another."""
    found: list[Found] = []
    left = list(cases)
    while left:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.write("".join(f"{one.line()}\n" for one in left))
            file.flush()
            ran = _run((file.name,), 0, worker)
        found += ran.found
        if ran.ended is None:
            break
        found.append(Found(left[ran.finished], ran.ended))
        left = left[ran.finished + 1 :]
    return tuple(found)


def _run(words: tuple[str, ...], first: int, worker: Path = WORKER) -> Ran:
    with tempfile.NamedTemporaryFile() as record:
        done = subprocess.run(
            [sys.executable, str(worker), record.name, *words],
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "COLUMNS": "100"},
            check=False,
        )
        at = record.read().decode().strip()
    assert at, f"the worker did not begin:\n{done.stderr}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = tuple(Found(case_of(line["case"]), line["why"]) for line in lines if "why" in line)
    if any("counts" in line for line in lines):
        return Ran(found, 0, None)
    return Ran(found, int(at) - first, f"ended with {done.returncode}:\n{done.stderr[:4000]}")


def kept(folder: Path) -> Iterator[tuple[str, Case]]:
    """The finds that are kept: files of one line each, by name."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, case_of(path.read_text(encoding="utf-8"))
