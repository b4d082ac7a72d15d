"""A results folder half-way through a plan, ways to harm it, and the same command again. Real files, real disks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import strategies as st
from store_fixtures import DOCUMENTS, RULES, VERSIONS, contents, course, diverged, hear, opened, plan

from ablate.plan.plan import Plan
from ablate.session.judging import judged, verdict_document
from ablate.session.table_columns import TableQuestion
from ablate.session.table_judging import judge_table
from ablate.store import files, machines, records
from ablate.store.faults import Finding, Repaired
from ablate.store.machines import Conditions, Paces
from ablate.store.records import Request
from ablate.store.repair import repair
from ablate.store.results import Results
from ablate.train.events import Began
from ablate.verdict.judge import judge

OPEN = "c30000"
"""The trial that is interrupted, ten rows after its checkpoint; c30001 has not begun."""

SEALED = {"a10000", "a10001", "b20000", "b20001"}
"""Those that have ended."""

FILES = {
    "segment": f"journal/{OPEN}.jsonl",
    "checkpoint": f"checkpoints/{OPEN}.20.pt",
    "sealed": "trials/b20001.parquet",
    "plans": "plans/*.json",
    "runs": "runs/*.json",
    "verdicts": "verdicts/*.json",
    "paces": "paces/*.json",
    "tables": "tables/*.json",
    "sources": "sources/*",
    "witness": "witness.jsonl",
    "database": "ablate.duckdb",
}
"""A file of every kind, or a pattern that it fits."""


def file_of(folder: Path, kind: str) -> Path:
    """The first file of a kind."""
    return min(folder.glob(FILES[kind]))


def half_way(folder: Path) -> None:
    """Four trials ended and judged, one interrupted behind its checkpoint, one not begun, and a table judged."""
    with opened(folder) as results:
        asked(results)
        for one in plan().trials:
            if one.id == OPEN:
                results.begin(one)
                hear(results, one.id, course(one.id)[:30])
            elif one.id != "c30001":
                results.begin(one)
                hear(results, one.id, course(one.id))
        results.refresh()
        so_far = judge(plan(), RULES, results.finals([one.id for one in plan().trials]))
        results.record_judgement("small", verdict_document(so_far, plan()), [])
        results.refresh()
    judge_elsewhere(folder)


def judge_elsewhere(folder: Path) -> None:
    """Judge a table of runs that were trained elsewhere, which the folder keeps."""
    losses = {"a": (2.31, 2.44, 2.52, 2.63), "b": (2.42, 2.51, 2.66, 2.71)}
    runs = [{"variant": v, "seed": s, "loss": loss} for v, of in losses.items() for s, loss in enumerate(of)]
    question = TableQuestion(metrics=("loss",))
    judge_table(runs, question, results=folder, space="elsewhere", say=lambda said: None)


def run(folder: Path, say: Callable[[str], None]) -> None:
    """The whole plan and the table, as far as they are not known: what the same commands give again."""
    with opened(folder, say=say) as results:
        asked(results)
        known = results.outcomes()
        for one in plan().trials:
            if one.id not in known:
                start = results.begin(one)
                after = start.resume.step if start.resume else 0
                events = diverged(one.id) if one.id == "c30001" else course(one.id, after=after)
                hear(results, one.id, [Began(after, VERSIONS), *events])
        judged(plan(), RULES, results)
    judge_elsewhere(folder)


def asked(results: Results, of: Plan | None = None) -> None:
    """What a run keeps before its first trial, once each: its plan, a source, its request, and what was timed."""
    results.record_plan(of or plan(), DOCUMENTS)
    files.keep_source(results.folder, DOCUMENTS.source.encode())
    records.record_request(results.folder, Request(space="small", path="/spaces/small.yaml", at=1.0))
    if not machines.paces_in(results.folder):
        conditions = Conditions(batch=4, dtype="float32", threads=1)
        machines.record_paces(
            results.folder, Paces(reference="m", seconds={"m": 0.1}, conditions=conditions, machine={}, at=1.0)
        )


def tables(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every table and view but those of what clocks measured."""
    return contents(folder, but=("timings", "costs"))


@dataclass(frozen=True)
class Worlds:
    """A folder half-way through the plan, a place for copies of it, and the tables of an undisturbed run."""

    half: Path
    copy: Path
    tables: dict[str, list[tuple[object, ...]]] = field(repr=False)


def make_worlds(place: Path) -> Worlds:
    """Made once for all attacks of a module."""
    half_way(place / "half")
    run(place / "undisturbed", pytest.fail)
    return Worlds(place / "half", place / "copy", tables(place / "undisturbed"))


def ends_well(folder: Path, worlds: Worlds) -> list[str]:
    """Give the same command again: every table is as it must be. What was said on the way."""
    said: list[str] = []
    run(folder, said.append)
    assert tables(folder) == worlds.tables
    return said


def one_line(said: list[str], *words: str) -> None:
    """Exactly one thing was said, on one line, with these words in it."""
    assert len(said) == 1 and "\n" not in said[0], said
    assert all(word in said[0] for word in words), said[0]


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its content and times."""
    return {
        str(path): (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def only(folder: Path, severity: str = "repaired") -> Finding:
    """The one thing that is found; looking has changed nothing."""
    before = state(folder)
    (found,) = repair(folder, dry_run=True).findings
    assert state(folder) == before
    assert found.severity == severity and "\n" not in found.what + found.remedy
    return found


def mended(folder: Path, code: int = 0) -> Repaired:
    """Repair, and look again: nothing is left."""
    said: list[str] = []
    findings = repair(folder, dry_run=False, say=said.append)
    assert findings.done and findings.left == () and findings.exit_code == code
    assert repair(folder, dry_run=True).to_repair == ()
    assert not list(folder.rglob("*.new*"))
    return findings


@contextmanager
def small_disk(place: Path, size: str = "16m") -> Iterator[Path]:
    """A disk of its own in memory; the test is skipped where the machine does not allow it."""
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def remount(disk: Path, option: str) -> None:
    """Make it read-only (`ro`), writable again (`rw`), or of another size."""
    subprocess.run(["mount", "-o", f"remount,{option}", disk], check=True)


def fill_up(disk: Path, leave: int = 0) -> None:
    """Take all of the space but so many bytes."""
    with (disk / "filler").open("ab") as file:
        file.write(bytes(free(disk) - leave))


def make_room(disk: Path) -> None:
    """Give it back."""
    (disk / "filler").unlink()


def free(disk: Path) -> int:
    """Bytes that can be written."""
    return shutil.disk_usage(disk).free


def flip(path: Path, place: int, bit: int = 0) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


HARM = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1, exclude_max=True), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.floats(0, 1, exclude_max=True), st.just(0)),
    st.tuples(st.just("zeros"), st.floats(0, 1, exclude_max=True), st.integers(1, 600)),
)


def harm(path: Path, how: str, where: float, much: int) -> bool:
    """Change a bit, cut the file off, or put zeros in it; False where that changes nothing."""
    before = path.read_bytes()
    place = int(where * len(before))
    if how == "flip":
        flip(path, place, much)
    elif how == "cut":
        path.write_bytes(before[:place])
    else:
        path.write_bytes(before[:place] + bytes(len(before[place : place + much])) + before[place + much :])
    return path.read_bytes() != before


@contextmanager
def another(script: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs `script`, from the first line it prints until it is not needed any more."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    assert process.stdout and process.stdin
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()
