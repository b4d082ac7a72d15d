"""Journal of a trial that has not ended: its segment `journal/<trial>.jsonl`, and the checkpoints it continues from.

Each line of a segment is a list whose first word says what it is:

    ["begin", {"trial": …, "attempt": 1, "began": 1790000000.0, "versions": {…}, "specification": {…}}]     first, once
    ["row", step, metric, address, value]
    ["timing", step, name, seconds]
    ["checkpoint", step, crc32, bytes]      the state is in a file of its own, complete before this line is written
    ["outcome", kind, step, detail, ended]  the last line, just before the segment is sealed

A checkpoint's line also marks a place: what is above it happened before the state was saved, and what is below happens
again when the trial continues from it. So a trial continues by cutting its segment there, and no row is duplicated.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from sys import intern
from typing import get_args

from pydantic import StrictFloat, StrictInt, TypeAdapter, ValidationError

from ablate.store import durable
from ablate.store.documents import Specification
from ablate.store.durable import compact, write_whole, writing
from ablate.store.files import ForeignError
from ablate.train.events import Checkpoint, Outcome, OutcomeKind, Row, Saved, Timing

JOURNAL = "journal"
KINDS = get_args(OutcomeKind)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The start of an attempt, whose number counts from 1; `began` is in seconds since 1970, `specification` None in
    segments of earlier versions."""

    trial: str
    attempt: StrictInt
    began: StrictFloat
    versions: Mapping[str, str]
    specification: Specification | None = None


BEGINNING = TypeAdapter(Beginning)


@dataclass(frozen=True, slots=True)
class TrialStart:
    """The checkpoint that a trial resumes from, if any, and the versions that made it."""

    resume: Saved | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckpointMark:
    """A checkpoint's line: what was saved, and the offset where the line ends."""

    saved: Saved
    end: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The content of a segment's whole lines. Rows and timings are plain tuples, in the order they came."""

    beginning: Beginning
    rows: tuple[tuple[int, str, str, float], ...]
    timings: tuple[tuple[int, str, float], ...]
    marks: tuple[CheckpointMark, ...]
    outcome: Outcome | None
    ended: float | None
    torn: int
    damaged: tuple[int, ...]
    start: int  # offset where the first line ends
    length: int  # offset where the last whole line ends
    sound: int  # offset up to which every line is whole


def path_of(folder: Path, trial_id: str) -> Path:
    return folder / JOURNAL / f"{trial_id}.jsonl"


def begin_record(beginning: Beginning) -> list[object]:
    return ["begin", {name: value for name, value in asdict(beginning).items() if value is not None}]


def event_records(events: Iterable[Row | Timing]) -> Iterator[list[object]]:
    for event in events:
        if isinstance(event, Row):
            yield ["row", event.step, event.metric, event.address, event.value]
        else:
            yield ["timing", event.step, event.name, event.seconds]


def read(path: Path) -> Segment | None:
    """Read a segment; None if it is gone or its first line is not whole."""
    reading = durable.read_lines(path)
    if not reading.records or 1 in reading.damaged:
        return None
    head = _beginning(reading.records[0], path)
    rows: list[tuple[int, str, str, float]] = []
    timings: list[tuple[int, str, float]] = []
    marks: list[CheckpointMark] = []
    outcome, ended = None, None
    for record, end in zip(reading.records, reading.ends, strict=True):
        match record:
            case ["row", int(step), str(metric), str(address), float() | int() | str() as value] if _whole(step, value):
                rows.append((step, intern(metric), intern(address), _number(value, path)))
            case ["timing", int(step), str(name), float() | int() | str() as seconds] if _whole(step, seconds):
                timings.append((step, intern(name), _number(seconds, path)))
            case ["checkpoint", int(step), int(crc), int(size)] if _whole(step, crc, size):
                marks.append(CheckpointMark(Saved(step, crc, size), end))
            case ["outcome", kind, int(step), dict(detail), float() | int() as when] if kind in KINDS and _whole(
                step, when
            ):
                outcome, ended = Outcome(kind, step, detail), float(when)
            case ["row" | "timing" | "checkpoint" | "outcome" as word, *_]:
                raise ForeignError(path, f"the {word} {compact(record)[:100]}")
    return Segment(
        beginning=head,
        rows=tuple(rows),
        timings=tuple(timings),
        marks=tuple(marks),
        outcome=outcome,
        ended=ended,
        torn=reading.torn,
        damaged=reading.damaged,
        start=reading.ends[0],
        length=reading.ends[-1],
        sound=reading.sound,
    )


def _beginning(record: object, path: Path) -> Beginning:
    head = record[1] if isinstance(record, list) and len(record) == 2 and record[0] == "begin" else None
    try:
        return BEGINNING.validate_python(head)
    except ValidationError:
        raise ForeignError(path, f"it begins with {compact(record)[:100]}") from None


def _whole(*numbers: object) -> bool:
    """Return whether no number is a bool, which Python takes for an integer."""
    return bool not in map(type, numbers)


def _number(value: float | str, path: Path) -> float:
    """Convert a number; NaN and infinities, which JSON does not have, are written as words."""
    try:
        return float(value)
    except ValueError:
        raise ForeignError(path, f"{str(value)[:100]!r} where a number is expected") from None


# Checkpoints, where a trial can continue from: `checkpoints/<trial>.<step>.pt`
#
# The training worker writes its states here, so on a cluster all nodes must share the folder. A state is complete
# before the driver's segment names it, and the one before it is deleted only then: the last one named always exists.

CHECKPOINTS = "checkpoints"
CHECKPOINT_NAME = re.compile(r"(?P<trial>.+)\.(?P<step>\d+)\.pt")


def write_checkpoint(folder: Path, trial_id: str, checkpoint: Checkpoint) -> Saved:
    """Write the state to the disk, completely or not at all."""
    with writing(folder / CHECKPOINTS):
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
    write_whole(checkpoint_path(folder, trial_id, checkpoint.step), checkpoint.state)
    return Saved(checkpoint.step, zlib.crc32(checkpoint.state), len(checkpoint.state))


def read_checkpoint(folder: Path, trial_id: str, saved: Saved) -> bytes | None:
    """Read the saved state; None if the file is gone or has changed since it was written."""
    try:
        state = checkpoint_path(folder, trial_id, saved.step).read_bytes()
    except FileNotFoundError:
        return None
    return state if len(state) == saved.size and zlib.crc32(state) == saved.crc else None


def checkpoint_steps(folder: Path, trial_id: str) -> tuple[int, ...]:
    names = (CHECKPOINT_NAME.fullmatch(path.name) for path in (folder / CHECKPOINTS).glob(f"{trial_id}.*.pt"))
    return tuple(sorted(int(name["step"]) for name in names if name))


def drop_checkpoints(folder: Path, trial_id: str, *, keep: int | None = None, before: int | None = None) -> None:
    """Delete a trial's states: all, or all but that of step `keep`, or those `before` a step.

    While a worker has the trial, delete only older states: it may have written a newer one than its driver knows of.
    """
    for step in checkpoint_steps(folder, trial_id):
        if step != keep and (before is None or step < before):
            checkpoint_path(folder, trial_id, step).unlink(missing_ok=True)


def trials_with_checkpoints(folder: Path) -> set[str]:
    names = (CHECKPOINT_NAME.fullmatch(path.name) for path in (folder / CHECKPOINTS).glob("*.pt"))
    return {name["trial"] for name in names if name}


def checkpoint_path(folder: Path, trial_id: str, step: int) -> Path:
    return folder / CHECKPOINTS / f"{trial_id}.{step}.pt"
