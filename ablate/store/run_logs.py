"""Logs of trainers as tables: a folder of them, the state of a Hugging Face trainer, event files of TensorBoard.

A row is a step of a run, with all that was logged at it; `run` is the path of the log in the folder, without what all
logs of a kind are called: `base-s1` for `base-s1.csv`, `base-s1/trainer_state.json` and `base-s1/events.out.tfevents…`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.errors import InputError
from ablate.output.words import plural
from ablate.store.table_files import FEWER, KINDS, Table, check_rows, read_table

RUN, STEP = "run", "step"
STATE, EVENTS = "trainer_state.json", "events.out.tfevents."
HEADER = struct.Struct("<QI")
"""What stands in front of each record of an event file: its length and a checksum; another one stands behind."""
MOST = 64 << 20
"""The bytes of an event file's record that are read: more are no scalar."""

OF_ANY = {
    *("log", "logs", "metrics", "progress", "results", "history", "train", "training", "eval", "scalars", "stats")
}
"""The names of logs that say nothing of their run."""

Steps = Mapping[float, dict[str, Any]]


def read_logs(folder: Path) -> Table:
    """Read all logs below a folder; InputError where there is none, or one cannot be read.

    A run has the path of its log, or that of its folder where all logs have such names as `log.jsonl`, each in its own.
    Event files within the folder of a run that has some of its own are left out, and counted: a writer puts
    hyperparameters and scalars that are drawn together there.
    """
    paths = [path for path in sorted(folder.rglob("*")) if _is_log(path)]
    runs = {path.parent for path in paths if path.name.startswith(EVENTS)}
    within = {path for path in paths if path.name.startswith(EVENTS) and not runs.isdisjoint(path.parent.parents)}
    logs = [path for path in paths if path not in within]
    alike = {path.stem.lower() for path in logs} <= OF_ANY and len({path.parent for path in logs}) == len(logs)
    tables = [(_run_of(path, folder, of_folder=alike), _read(path)) for path in logs]
    if not tables:
        kinds = ", ".join([*KINDS, STATE, f"{EVENTS}*"])
        raise InputError(f"no log is below {folder}\n  = a log is one of {kinds}")
    check_rows(str(folder), sum(len(table.rows) for _, table in tables), FEWER)
    columns = tuple(dict.fromkeys([RUN, *(column for _, table in tables for column in table.columns)]))
    rows = [
        tuple({**dict(zip(table.columns, row, strict=True)), RUN: run}.get(column) for column in columns)
        for run, table in tables
        for row in table.rows or ((None,) * len(table.columns),)  # an empty log is of a run without a number
    ]
    left_out = f"; {plural(len(within), 'event file')} within these left out" if within else ""
    return Table(f"{folder} ({plural(len(tables), 'log')}{left_out})", columns, tuple(rows))


def read_log(path: Path) -> Table:
    """Read the log of one run: a trainer's state, or an event file."""
    return replace(_read(path), name=str(path))


def is_log(path: Path) -> bool:
    """Return whether a file is a log of another form than a table."""
    return path.name == STATE or path.name.startswith(EVENTS)


def _is_log(path: Path) -> bool:
    return path.is_file() and (is_log(path) or path.suffix.lower() in KINDS)


def _run_of(path: Path, folder: Path, *, of_folder: bool) -> str:
    named = path.parent if of_folder or is_log(path) else path.with_suffix("")
    return named.relative_to(folder).as_posix()


def _read(path: Path) -> Table:
    if not is_log(path):
        return read_table(path)
    try:
        return _of_steps(path, _state(path) if path.name == STATE else _events(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _of_steps(path: Path, steps: Steps) -> Table:
    columns = tuple(dict.fromkeys([STEP, *(name for values in steps.values() for name in values if name != STEP)]))
    rows = (tuple(({STEP: step} | values).get(column) for column in columns) for step, values in sorted(steps.items()))
    return Table(str(path), columns, tuple(rows))


def _state(path: Path) -> Steps:
    """Return what a trainer has logged, whose entries on training and on evaluation share their steps."""
    try:
        history = json.loads(path.read_bytes())["log_history"]
        steps: dict[float, dict[str, Any]] = {}
        for entry in history:
            steps.setdefault(float(entry[STEP]), {}).update(entry)
    except (ValueError, KeyError, TypeError) as error:
        way = "it has a list log_history, whose entries have a step"
        raise InputError(f"{path} is not the state of a trainer: {type(error).__name__} {error}\n  = {way}") from None
    return steps


def _events(path: Path) -> Steps:
    """Return the scalars of an event file. A record cut off at its end, as of a run that was killed, is left out."""
    from google.protobuf.message import DecodeError
    from tensorboardX.proto.event_pb2 import Event

    steps: dict[float, dict[str, Any]] = {}
    for record in _records(path):
        try:
            event = Event.FromString(record)
        except DecodeError as error:
            raise InputError(f"{path} is not an event file of TensorBoard: {error}") from None
        for value in event.summary.value:
            if value.HasField("simple_value"):
                steps.setdefault(event.step, {})[value.tag] = value.simple_value
            elif value.HasField("tensor") and len(value.tensor.float_val) == 1:
                steps.setdefault(event.step, {})[value.tag] = value.tensor.float_val[0]
    return steps


def _records(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while len(header := file.read(HEADER.size)) == HEADER.size:
            length, _ = HEADER.unpack(header)
            if length > MOST:
                raise InputError(f"{path} is not an event file of TensorBoard: a record of {length:,} bytes")
            record = file.read(length)
            if len(record) < length or len(file.read(4)) < 4:
                return
            yield record
