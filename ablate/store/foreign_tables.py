"""Foreign tables: runs that were trained elsewhere, from files, SQL, values of Python, logs of trainers, or trackers.

A table keeps the positions of its cells, to show errors there. Cells of CSV are text; others as in their file, or None.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb

from ablate.errors import InputError
from ablate.output.words import plural
from ablate.source.located import Source, Span
from ablate.source.problems import Problems, drawn, quote, refusal
from ablate.store.durable import JsonObject, JsonValue
from ablate.store.mlflow_client import Destination, connected
from ablate.store.projection import file_literal, restrict
from ablate.store.query import READING, check_number

if TYPE_CHECKING:
    from mlflow.entities import Run

CSV, JSON_LINES, PARQUET = "CSV", "JSON lines", "Parquet"
KINDS: Mapping[str, str] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), CSV),
    **dict.fromkeys((".jsonl", ".ndjson"), JSON_LINES),
    **dict.fromkeys((".parquet", ".pq"), PARQUET),
}
READERS = {CSV: "read_csv", JSON_LINES: "read_ndjson", PARQUET: "read_parquet"}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ROWS = "rows"
DELIMITERS = ",;\t|"
MISSING = ("NAType", "NaTType")  # the pandas types of a missing value
NOT_UTF8 = "write it as UTF-8"
MOST_ROWS = 3_000_000
"""Rows of a table: more are refused, for Parquet before any is read. A million take half a gigabyte or so."""
FEWER = "give fewer: one row for each run, or the last steps of each"
BY_SQL = f"{FEWER}; --sql can choose them, for which the table is called rows"


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, its columns, its rows, and the positions of cells.

    `places` gives a cell's position, by row and column from 0, in a text file; else it is None. `nan_or_empty` says
    that NaN may stand for an empty cell, as in pandas. `delimiter` parts the cells of a CSV.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    places: Callable[[int, int], Span] | None = None
    nan_or_empty: bool = False
    delimiter: str | None = None

    def place(self, row: int, column: str) -> Span | None:
        return None if self.places is None else self.places(row, self.columns.index(column))

    def cells(self, column: str) -> tuple[Any, ...]:
        at = self.columns.index(column)
        return tuple(row[at] for row in self.rows)


def read_table(path: Path) -> Table:
    """Read a table from a CSV, JSON lines or Parquet file; InputError, with the line, where it is not one."""
    kind = _kind(path)
    if kind == PARQUET:
        counted = f"SELECT sum(num_rows) FROM parquet_file_metadata({file_literal(path)})"
        ((rows,),) = select(path, counted, closed=False).rows
        check_rows(str(path), rows, BY_SQL)
        return _with_durations(path, select(path, f"FROM {_scan(path, kind)}", closed=False))
    return _read_csv(path) if kind == CSV else _read_json_lines(path)


def _with_durations(path: Path, table: Table) -> Table:
    """Return a Parquet file's table with the durations that Arrow or pandas wrote, which DuckDB reads as integers."""
    from pyarrow import parquet, types

    units = {
        field.name: PER_SECOND[field.type.unit] for field in parquet.read_schema(path) if types.is_duration(field.type)
    }
    if not units:
        return table
    per = [units.get(column) for column in table.columns]
    rows = (
        tuple(
            timedelta(seconds=cell / unit) if unit and isinstance(cell, int) else cell
            for cell, unit in zip(row, per, strict=True)
        )
        for row in table.rows
    )
    return replace(table, rows=tuple(rows))


def table_of(value: Any) -> Table:
    """Convert a data frame (pandas, polars), an Arrow table, a DuckDB relation or a list of dictionaries to a table."""
    name = "the table"
    if isinstance(value, Table):
        return value
    if isinstance(value, duckdb.DuckDBPyRelation):
        fetched = value.limit(MOST_ROWS + 1).fetchall()
        check_rows(name, len(fetched), FEWER)
        return Table(name, tuple(value.columns), tuple(fetched))
    if isinstance(value, Sized):
        check_rows(name, len(value), FEWER)
    nan_or_empty = type(value).__module__.partition(".")[0] == "pandas"
    if hasattr(value, "to_dicts"):
        value = value.to_dicts()
    elif hasattr(value, "to_pylist"):
        value = value.to_pylist()
    elif hasattr(value, "to_dict"):
        value = value.to_dict("records")
    if not isinstance(value, Sequence) or not all(isinstance(row, Mapping) for row in value):
        raise InputError(
            f"{type(value).__name__} is not a table\n"
            "  = give a file, SQL, a data frame, an Arrow table, a DuckDB relation or a list of dictionaries"
        )
    columns = tuple(dict.fromkeys(str(key) for row in value for key in row))
    rows = tuple(tuple(_cell(row.get(column)) for column in columns) for row in value)
    return Table(name, columns, rows, nan_or_empty=nan_or_empty)


def check_rows(name: str, rows: int, way: str) -> None:
    if rows > MOST_ROWS:
        many = f"more than {MOST_ROWS:,}" if rows == MOST_ROWS + 1 else f"{rows:,}"
        raise InputError(f"{name} has {many} rows, and at most {MOST_ROWS:,} are read\n  = {way}")


def _cell(value: Any) -> Any:
    return None if type(value).__name__ in MISSING else value


def _kind(path: Path) -> str:
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a table\n  = give a file, or SQL over a results folder: --results")
    if not path.exists():
        raise InputError(f"there is no file {path}\n  = give a CSV, JSON lines or Parquet file, or SQL over results")
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path} does not have the name of a table\n  = it must end in one of {', '.join(KINDS)}")
    return kind


def _text_of(path: Path) -> Source:
    try:
        data = path.read_bytes()
        return Source(str(path), data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: byte {error.start + 1} is not UTF-8\n  = {NOT_UTF8}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _read_csv(path: Path) -> Table:
    source = _text_of(path)
    heading = source.text.lstrip().partition("\n")[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(DELIMITERS, key=heading.count)
    lines: list[int] = []
    rows: list[tuple[str, ...]] = []
    for line, cells in _csv_records(source, delimiter):
        check_rows(str(path), len(rows), BY_SQL)  # of which one is the header
        lines.append(line)
        rows.append(tuple(cell.strip() for cell in cells))
    if not rows:
        return Table(str(path), (), ())
    columns, *below = rows
    problems = Problems()
    for line, row in zip(lines[1:], below, strict=True):
        if len(row) != len(columns):
            problems.add(
                f"{len(row)} cells, but the header has {len(columns)}",
                source.whole_line(line),
                notes=('put a cell that contains the delimiter in quotes: "a, b"',),
            )
    problems.raise_if_any()

    def place(row: int, column: int) -> Span:
        spans = list(_cells_at(source, lines[row + 1], delimiter))
        return spans[column] if len(spans) == len(columns) else source.whole_line(lines[row + 1])

    return Table(str(path), columns, tuple(below), place, delimiter=delimiter)


def _csv_records(source: Source, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(source.text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        note = "write a quote within quotes twice"
        raise refusal(f"not CSV: {error}", source.whole_line(line), notes=(note,)) from None


def _cells_at(source: Source, line: int, delimiter: str) -> Iterator[Span]:
    text, start, at, quoted_cell = source.text, source.offset(line, 1), source.offset(line, 1), False
    while True:
        sign = text[at : at + 1]
        if sign == '"':
            quoted_cell = not quoted_cell
        if not sign or (not quoted_cell and (sign == delimiter or sign in "\r\n")):
            cell = text[start:at]
            left = start + len(cell) - len(cell.lstrip())
            yield source.span(left, max(left, start + len(cell.rstrip())))
            start = at + 1
            if sign != delimiter:
                return
        at += 1


def _read_json_lines(path: Path) -> Table:
    source = _text_of(path)
    problems, rows, lines = Problems(), [], []
    doubled: list[str] = []

    def members(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        made = dict(pairs)
        if len(made) < len(pairs):
            doubled.extend(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        return made

    decoder = json.JSONDecoder(object_pairs_hook=members)
    for number, read in enumerate(io.StringIO(source.text, newline=None), start=1):
        line = read.rstrip("\n")
        if not line.strip():
            continue
        start = source.offset(number, 1)
        try:
            doubled.clear()
            row = decoder.decode(line)
        except json.JSONDecodeError as error:
            problems.add(f"not JSON: {error.msg}", source.span(start + error.pos, start + error.pos + 1))
            continue
        except (ValueError, RecursionError):  # a number too large, or nesting too deep, to read
            problems.add("unreadable JSON: a number is too large or the nesting too deep", source.whole_line(number))
            continue
        if not isinstance(row, dict):
            problems.add("not a JSON object", source.whole_line(number), notes=("a row is {column: value, …}",))
        elif doubled:
            _add_doubled(doubled[-1], line, source, start, problems)
        else:
            rows.append(row)
            lines.append(number)
        check_rows(str(path), len(rows), BY_SQL)
    problems.raise_if_any()
    columns = tuple(dict.fromkeys(key for row in rows for key in row))

    def place(row: int, column: int) -> Span:
        start, line = source.offset(lines[row], 1), source.line(lines[row])
        for key, _, (low, high) in _members(line):
            if key == columns[column]:
                return source.span(start + low, start + high)
        return source.whole_line(lines[row])

    return Table(str(path), columns, tuple(tuple(row.get(column) for column in columns) for row in rows), place)


def _add_doubled(key: str, line: str, source: Source, start: int, problems: Problems) -> None:
    """Note a key that an object in a line has twice, at its second place where the object is the row itself."""
    places = [source.span(start + low, start + high) for name, (low, high), _ in _members(line) if name == key]
    span = places[1] if len(places) > 1 else source.span(start, start + len(line))
    also = [(places[0], "here first")] if len(places) > 1 else []
    problems.add(f"the key {quote(key)} stands twice", span, notes=("keep one of the two values",), also=also)


def _members(line: str) -> Iterator[tuple[str, tuple[int, int], tuple[int, int]]]:
    """The keys of a JSON object with the start and end of each key and of its value."""
    decoder, at = json.JSONDecoder(), line.index("{") + 1

    def past(signs: str) -> int:
        return at + len(line[at:]) - len(line[at:].lstrip(signs))

    while line[(at := past(" \t,"))] != "}":
        begin = at
        key, at = decoder.raw_decode(line, at)
        ends = (begin, at)
        at = past(" \t:")
        _, end = decoder.raw_decode(line, at)
        yield key, ends, (at, end)
        at = end


def _scan(path: Path, kind: str) -> str:
    return f"{READERS[kind]}({file_literal(path)})"


def select(path: Path, sql: str, *, closed: bool = True) -> Table:
    """Return the result of SQL; if `closed`, it is the user's own and sees only the file's table, called `rows`."""
    with duckdb.connect(":memory:") as connection:
        try:
            if closed:
                connection.execute(f"CREATE TABLE {ROWS} AS FROM {_scan(path, _kind(path))}")
                restrict(connection)
                _refuse_changes(connection, sql)
            result = connection.execute(sql)
            columns = tuple(column[0] for column in result.description or ())
            rows = tuple(result.fetchmany(MOST_ROWS + 1)) if columns else ()
            check_rows(str(path), len(rows), FEWER)
            return Table(str(path), columns, rows)
        except duckdb.Error as error:
            message = "\n".join(drawn(line) for line in f"{path}: {error}".splitlines())
            way = f"\n  = the table of the file is called {ROWS}; SQL sees nothing else" if closed else ""
            raise InputError(message + way) from None


def _refuse_changes(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    check_number(statements, several=False)
    for statement in statements:
        if statement.type.name not in READING:
            raise InputError(f"--sql only reads: {quote(statement.type.name)} is not allowed\n  = write a SELECT")


# Logs of trainers as tables: a folder of them, the state of a Hugging Face trainer, event files of TensorBoard
#
# A row is a step of a run, with all that was logged at it; `run` is the path of the log without what all logs of a kind
# are called: `base-s1` for `base-s1.csv` and `base-s1/trainer_state.json`.

RUN, STEP = "run", "step"
STATE, EVENTS = "trainer_state.json", "events.out.tfevents."
HEADER = struct.Struct("<QI")
"""The head of each record of an event file: its length and a checksum; another one stands behind."""
MOST_RECORD_BYTES = 64 << 20  # the bytes of an event file's record that are read: more are no scalar

# The names of logs that say nothing of their run.
OF_ANY = {
    *("log", "logs", "metrics", "progress", "results", "history", "train", "training", "eval", "scalars", "stats")
}

Steps: TypeAlias = Mapping[float, Mapping[str, JsonValue]]


def read_logs(folder: Path) -> Table:
    """Read all logs below a folder; InputError where there is none, or one cannot be read.

    A run has the path of its log, or of its folder where all logs have such names as `log.jsonl`. Event files below the
    folder of a run that has some of its own are left out, and counted: writers put hyperparameters there.
    """
    paths = [path for path in sorted(folder.rglob("*")) if _is_log(path)]
    runs = {path.parent for path in paths if path.name.startswith(EVENTS)}
    within = {path for path in paths if path.name.startswith(EVENTS) and not runs.isdisjoint(path.parent.parents)}
    logs = [path for path in paths if path not in within]
    alike = {path.stem.lower() for path in logs} <= OF_ANY and len({path.parent for path in logs}) == len(logs)
    tables = [(_run_of(path, folder, of_folder=alike), read_log(path)) for path in logs]
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


def is_log(path: Path) -> bool:
    return path.name == STATE or path.name.startswith(EVENTS)


def _is_log(path: Path) -> bool:
    return path.is_file() and (is_log(path) or path.suffix.lower() in KINDS)


def _run_of(path: Path, folder: Path, *, of_folder: bool) -> str:
    named = path.parent if of_folder or is_log(path) else path.with_suffix("")
    return named.relative_to(folder).as_posix()


def read_log(path: Path) -> Table:
    """Read the log of one run: a table, the state of a trainer, or an event file."""
    if not is_log(path):
        return read_table(path)
    try:
        return _table_of_steps(path, _trainer_state(path) if path.name == STATE else _event_scalars(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _table_of_steps(path: Path, steps: Steps) -> Table:
    columns = tuple(dict.fromkeys([STEP, *(name for values in steps.values() for name in values if name != STEP)]))
    rows = (
        tuple(values.get(column, step if column == STEP else None) for column in columns)
        for step, values in sorted(steps.items())
    )
    return Table(str(path), columns, tuple(rows))


def _trainer_state(path: Path) -> Steps:
    """Return a trainer's log; entries on training and on evaluation share their steps."""
    try:
        history = json.loads(path.read_bytes())["log_history"]
        steps: dict[float, dict[str, JsonValue]] = {}
        for entry in history:
            steps.setdefault(float(entry[STEP]), {}).update(entry)
    except (ValueError, KeyError, TypeError) as error:
        way = "it has a list log_history, whose entries have a step"
        raise InputError(f"{path} is not the state of a trainer: {type(error).__name__} {error}\n  = {way}") from None
    return steps


def _event_scalars(path: Path) -> Steps:
    """Return the scalars of an event file. A record cut off at its end, as of a run that was killed, is left out."""
    from google.protobuf.message import DecodeError
    from tensorboardX.proto.event_pb2 import Event

    steps: dict[float, dict[str, JsonValue]] = {}
    for record in _event_records(path):
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


def _event_records(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while len(header := file.read(HEADER.size)) == HEADER.size:
            length, _ = HEADER.unpack(header)
            if length > MOST_RECORD_BYTES:
                raise InputError(f"{path} is not an event file of TensorBoard: a record of {length:,} bytes")
            record = file.read(length)
            if len(record) < length or len(file.read(4)) < 4:
                return
            yield record


# Runs of trackers as tables: a row is a run, with its state, its parameters and its metrics
#
# They have their own names; where two parts of a run share one, the part stands in front of it (`params.lr`,
# `metrics.lr`). A metric that a run has not logged is None, one that it has logged as NaN is NaN.

MOST_RUNS = 100_000

Parts: TypeAlias = Mapping[str, Mapping[str, str | float | None]]
"""The values of a run, by part (params, metrics, …) and name; those that belong to none, under the empty one."""


def tabulated(name: str, runs: Sequence[Parts]) -> Table:
    if len(runs) > MOST_RUNS:
        raise InputError(f"{name} has more than {MOST_RUNS:,} runs\n  = give those to judge as a file, or by SQL")
    keys = list(dict.fromkeys((part, key) for run in runs for part, of in run.items() for key in of))
    times = Counter(key for _, key in keys)
    columns = tuple(key if times[key] == 1 or not part else f"{part}.{key}" for part, key in keys)
    return Table(name, columns, tuple(tuple(run[part].get(key) for part, key in keys) for run in runs))


# SQLite files that others have written, looked at without being changed

SQLITE = "sqlite:///"


def check_sqlite(uri: str, table: str, whose: str) -> None:
    """Raise InputError unless the file of a SQLite URI has a table; other URIs are not looked at."""
    if not uri.startswith(SQLITE):
        return
    path = Path(uri.removeprefix(SQLITE).partition("?")[0])
    way = f"--uri {SQLITE}FILE names one that {whose} has written"
    if not path.exists():
        raise InputError(f"there is no database {path}\n  = {way}")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise InputError(f"{path} is not a database: {error}\n  = {way}") from None
    if table not in names:
        raise InputError(f"{path} is no database of {whose}\n  = {way}")


# The runs of an MLflow experiment, from a tracking server or a database; the oldest first

PAGE = 1_000
OLDEST_FIRST = ["attributes.start_time ASC", "attributes.run_id ASC"]


def read_experiment(name: str, experiment: str, uri: str) -> Table:
    """Read the runs of an experiment with their last metrics; InputError if it is not there, RefusedError if the server
    cannot be read."""
    check_sqlite(uri, "experiments", "MLflow")
    destination = Destination(Path(), uri)
    runs: list[Run] = []
    with connected(destination) as client:
        of = client.get_experiment_by_name(experiment)
        if of is None:
            known = ", ".join(each.name for each in client.search_experiments())
            message = f"{destination.shown} has no experiment {quote(experiment)}"
            raise InputError(f"{message}\n  = it has {known or 'none'}")
        token: str | None = None
        while token != "" and len(runs) <= MOST_RUNS:
            page = client.search_runs([of.experiment_id], max_results=PAGE, page_token=token, order_by=OLDEST_FIRST)
            runs += page
            token = page.token or ""
    return tabulated(name, [_run_parts(run) for run in runs])


def _run_parts(run: Run) -> Parts:
    return {
        "": {"run": run.info.run_name, "run_id": run.info.run_id, "status": run.info.status},
        "params": run.data.params,
        "metrics": run.data.metrics,
        "tags": {key: value for key, value in run.data.tags.items() if not key.startswith("mlflow.")},
    }
