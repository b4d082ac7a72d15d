"""The DuckDB file: filled from the journal by changing a copy and renaming it over the old one."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb

from ablate.errors import RefusedError
from ablate.store import comments
from ablate.store import pending_rows as changed
from ablate.store.durable import DAMAGED, UNFINISHED, put_in_place, remove, set_aside, unfinished_in, writing
from ablate.store.loading import SUMMARIES, load
from ablate.store.pending_rows import Changes, Journal, Stored
from ablate.store.schema import DDL

DATABASE = "ablate.duckdb"
VIEWS = resources.files("ablate.store").joinpath("views.sql").read_text(encoding="utf-8")
SQL_DIGEST = hashlib.sha256((DDL + SUMMARIES + VIEWS).encode()).hexdigest()[:16]

CREATED = re.compile(r"CREATE OR REPLACE (TABLE|VIEW) (\w+)")
"""Matches what the SQL of the schema creates."""

LOCKED = "Could not set lock on file"
"""DuckDB's message when another process has a file open for writing."""

Say = Callable[[str], None]

CLOSED: Mapping[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
"""No file, no network, no foreign code, and no setting that could allow them again. The last one must come last."""


def refresh(folder: Path, journal: Journal, say: Say) -> bool:
    """Bring the DuckDB file up to date with the journal; return whether there was anything to do.

    Costs a copy of the file, so call it when trials have ended, not after every row. Readers never block it: they keep
    the file they have open, and later ones see the new file.
    """
    path = folder / DATABASE
    todo = changed.changes(folder, journal, read_stored(path, say))
    say_damaged(folder, todo, say)
    if not todo:
        return False
    try:
        _replace(folder, journal, todo)
    except UnusableError as unusable:
        kept = set_aside(folder, path)
        say(f"{path} cannot be used ({unusable.fault}); it is kept as {kept} and rebuilt from the journal")
        _replace(folder, journal, todo)
    return True


class UnusableError(RefusedError):
    """The file is not a DuckDB file, or is damaged; `fault` is DuckDB's message."""

    def __init__(self, path: Path, error: duckdb.Error):
        super().__init__(unreadable(path, error))
        self.fault = str(error).splitlines()[0]


def _replace(folder: Path, journal: Journal, todo: Changes) -> None:
    path = folder / DATABASE
    unfinished = path.with_name(path.name + UNFINISHED)
    with changing(path, unfinished):
        with _writable_copy(path, unfinished) as connection:
            if not is_ours(connection):
                _create(connection)
                todo = changed.changes(folder, journal, Stored({}, {}))
            load(connection, todo)
            connection.execute("CHECKPOINT")
        # A write-ahead log beside the file belongs to the old file and must not be applied to the new one.
        path.with_name(path.name + ".wal").unlink(missing_ok=True)
        put_in_place(unfinished, path)


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    """Recreate all of our tables and views, empty; what the user has added is kept.

    In one transaction, since each transaction waits for the disk.
    """
    there = "SELECT table_name, 'TABLE' FROM duckdb_tables() UNION ALL SELECT view_name, 'VIEW' FROM duckdb_views()"
    made = {name: kind for kind, name in CREATED.findall(DDL + VIEWS)}
    connection.begin()
    for name, kind in connection.execute(there).fetchall():
        if made.get(name, kind) != kind:  # an older schema had a view where there is a table now
            connection.execute(f"DROP {kind} {name}")
    connection.execute(DDL)
    connection.execute(VIEWS)
    comments.inherit(connection, VIEWS)
    connection.execute("INSERT INTO projection VALUES (?)", [SQL_DIGEST])
    connection.commit()


def put_damaged_aside(folder: Path, say: Say) -> bool:
    """Read every block of the DuckDB file and put the file aside if one is damaged, in whatever table, so that it is
    rebuilt; return whether it was.

    DuckDB verifies the checksum of a block only when reading it: copying the file copies a damaged block unnoticed.
    """
    path = folder / DATABASE
    if not path.exists():
        return False
    try:
        with duckdb.connect(path.absolute(), read_only=True, config=dict(CLOSED)) as connection:
            for (table,) in connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall():
                its = table.replace('"', '""')
                connection.execute(f'SELECT bit_xor(hash(t)) FROM "{its}" AS t').fetchall()
    except duckdb.Error as error:
        if not is_damage(error):  # open in another program, or no DuckDB file at all: `refresh` reports that
            return False
        kept = set_aside(folder, path)
        say(f"{path} is damaged ({str(error).splitlines()[0]}); it is kept as {kept} and rebuilt from the journal")
        return True
    return False


def say_damaged(folder: Path, changes: Changes, say: Say) -> None:
    """Report every trial whose sealed file is damaged, and so has no numbers."""
    for trial_id, fault in changes.damaged.items():
        say(
            f"trial {trial_id} is left out: its sealed file {fault}; "
            f"`ablate doctor --results {folder}` recovers what it can"
        )


@contextmanager
def changing(path: Path, unfinished: Path) -> Iterator[None]:
    """Turn DuckDB's write errors into a RefusedError, and delete what is left of the copy `unfinished`."""
    try:
        with writing(path):
            yield
    except duckdb.Error as error:
        if is_damage(error):
            raise UnusableError(path, error) from error
        if not isinstance(error, duckdb.IOException | duckdb.TransactionException | duckdb.FatalException):
            raise
        reason = str(error).splitlines()[0].rpartition('": ')[2]  # after the file's name, the system's message
        raise RefusedError(
            f"cannot write {path}: {reason}\n"
            "  = free space or permission there, or choose another folder with --results"
        ) from error
    finally:
        for leftover in unfinished_in(unfinished.parent):
            if leftover.name.startswith(unfinished.name):
                remove(leftover)


def read_stored(path: Path, say: Say | None = None) -> Stored:
    """Read what a DuckDB file contains; nothing if it is missing, has another schema, or cannot be read.

    `say` is told of a program that has it open for writing, whose changes are lost when the file is replaced.
    """
    if not path.exists():
        return Stored({}, {})
    try:
        with duckdb.connect(path.absolute(), read_only=True, config=dict(CLOSED)) as connection:
            return _stored_in(connection)
    except duckdb.Error as error:
        # Another process has it open for writing, or it is damaged: then it is rebuilt, and `refresh` reports that.
        if say and LOCKED in (first := str(error).splitlines()[0]):
            say(f"{path} is open for writing elsewhere and is replaced, without the changes made there ({first})")
        return Stored({}, {})


def _stored_in(connection: duckdb.DuckDBPyConnection) -> Stored:
    if not is_ours(connection):
        return Stored({}, {})
    plans = connection.execute(
        "SELECT space, plan_digest, judged_digest, questions_digest FROM plans WHERE current"
    ).fetchall()
    others = connection.execute(
        "SELECT space, list((plan, plan_digest, coalesce(judged_digest, ''))) FROM plans"
        " WHERE NOT current GROUP BY space"
    ).fetchall()
    seen = connection.execute("SELECT plan, first_seen FROM plans WHERE first_seen IS NOT NULL").fetchall()
    trials = connection.execute("SELECT trial_id, status, attempt, digest FROM trials").fetchall()
    bare = connection.execute("SELECT trial_id FROM trials WHERE specification IS NULL").fetchall()
    states = {trial_id: (status, attempt, rows) for trial_id, status, attempt, rows in trials}
    return Stored(
        {space: digest for space, digest, *_ in plans},
        states,
        frozenset(trial_id for (trial_id,) in bare),
        {space: judged for space, _, judged, _ in plans if judged},
        {space: questions for space, _, _, questions in plans if questions},
        {space: frozenset(earlier) for space, earlier in others},
        dict(seen),
    )


def finals(folder: Path, trial_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return each ended trial's end and final numbers: {"status", "step", "versions", "metrics": {name: value}}.

    Names are those of the view `numbers`.
    """
    if not (folder / DATABASE).exists():
        return {}
    with reading(folder / DATABASE) as connection:
        wanted = [list(trial_ids)]
        ended = connection.execute(
            "SELECT trial_id, status, ended_step, versions_id FROM trials "
            "WHERE trial_id IN (SELECT unnest(?)) AND digest IS NOT NULL",
            wanted,
        ).fetchall()
        numbers = connection.execute(
            "SELECT trial_id, name, value FROM numbers WHERE trial_id IN (SELECT unnest(?)) ORDER BY ALL", wanted
        ).fetchall()
    ends: dict[str, dict[str, Any]] = {
        trial_id: {"status": status, "step": step, "metrics": {}, "versions": versions}
        for trial_id, status, step, versions in sorted(ended)
    }
    for trial_id, name, value in numbers:
        if trial_id in ends:
            ends[trial_id]["metrics"][name] = value
    return ends


@contextmanager
def reading(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a read-only connection; a RefusedError where another process writes to the file in place, or it is damaged.

    Every connection of this program to the file has the same settings: DuckDB refuses a second one otherwise.
    """
    try:
        connection = duckdb.connect(path.absolute(), read_only=True, config=dict(CLOSED))
    except duckdb.Error as error:
        raise RefusedError(unreadable(path, error)) from error
    with connection:
        try:
            yield connection
        except duckdb.Error as error:
            if is_damage(error):
                raise RefusedError(unreadable(path, error)) from error
            raise


def is_damage(error: duckdb.Error) -> bool:
    """Return whether a block of the file has failed its checksum, or is beyond the end of the file."""
    return any(text in str(error) for text in ("Corrupt database file", "Could not read enough bytes from file"))


def unreadable(path: Path, error: duckdb.Error) -> str:
    """Return the error text for a file that DuckDB cannot read; DuckDB names a process that is writing to it."""
    first = str(error).splitlines()[0]
    if LOCKED in first:
        way_out = "close the program that has it open for writing; it should open it with read_only=True"
    else:
        way_out = f"`ablate doctor --results {path.parent}` keeps it in {DAMAGED} and rebuilds it from the journal"
    return f"cannot read {path}: {first}\n  = {way_out}"


def _writable_copy(path: Path, copy: Path) -> duckdb.DuckDBPyConnection:
    """Connect to a copy of `path`, or to an empty file if there is none."""
    if not path.exists():
        return duckdb.connect(copy.absolute())
    shutil.copyfile(path, copy)
    try:
        return duckdb.connect(copy.absolute())
    except duckdb.Error as error:
        raise UnusableError(path, error) from error


def is_ours(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a database was made by this schema."""
    try:
        return connection.execute("SELECT sql_digest FROM projection").fetchall() == [(SQL_DIGEST,)]
    except duckdb.CatalogException:
        return False
