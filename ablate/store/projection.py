"""The DuckDB file: filled from the journal by changing a copy and putting it in the place of the old one."""

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
"""What the texts of the schema make."""

LOCKED = "Could not set lock on file"
"""How DuckDB says that another process has a file open for writing."""

Say = Callable[[str], None]

CLOSED: Mapping[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
"""No file, no network, no code from elsewhere, and no setting that could bring them back. The last one must be last."""


def refresh(folder: Path, journal: Journal, say: Say) -> bool:
    """Bring the DuckDB file up to date with the journal; whether there was anything to do.

    Costs a copy of the file, so call it when trials have ended, not after every row. Readers are never in the way: they
    keep the file they have open, and the next one to open it sees the new.
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
        say(f"{path} cannot be used ({unusable.fault}); it is kept as {kept} and filled anew from the journal")
        _replace(folder, journal, todo)
    return True


class UnusableError(RefusedError):
    """The DuckDB file that is there is not one, or is damaged; `fault` is what DuckDB says of it."""

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
        # A write-ahead log beside the file belongs to the file that goes now, and must not be applied to the new one.
        path.with_name(path.name + ".wal").unlink(missing_ok=True)
        put_in_place(unfinished, path)


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    """Make all of our tables and views anew, empty; what the user has added stays.

    In one transaction, since the disk is waited for at the end of each: alone, every statement would wait for it.
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
    """Read every block of the DuckDB file; one that is damaged, in whatever table, is put aside and will be filled
    anew. Whether it was.

    DuckDB looks at the checksum of a block when it reads it: a copy of the file takes a damaged block along unseen.
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
        if not is_damage(error):  # open in another program, or no DuckDB file at all: `refresh` says so
            return False
        kept = set_aside(folder, path)
        say(f"{path} is damaged ({str(error).splitlines()[0]}); it is kept as {kept} and filled anew from the journal")
        return True
    return False


def say_damaged(folder: Path, changes: Changes, say: Say) -> None:
    """Name every trial whose sealed file cannot be believed, and so has no numbers."""
    for trial_id, fault in changes.damaged.items():
        say(
            f"trial {trial_id} is left out: its sealed file {fault}; "
            f"`ablate doctor --results {folder}` gets back what can be got back"
        )


@contextmanager
def changing(path: Path, unfinished: Path) -> Iterator[None]:
    """Turn what the disk refuses DuckDB into a RefusedError, and leave nothing of the copy `unfinished` behind."""
    try:
        with writing(path):
            yield
    except duckdb.Error as error:
        if is_damage(error):
            raise UnusableError(path, error) from error
        if not isinstance(error, duckdb.IOException | duckdb.TransactionException | duckdb.FatalException):
            raise
        reason = str(error).splitlines()[0].rpartition('": ')[2]  # after the file's name, what the system said
        raise RefusedError(
            f"cannot write {path}: {reason}\n"
            "  = free space or permission there, or choose another folder with --results"
        ) from error
    finally:
        for leftover in unfinished_in(unfinished.parent):
            if leftover.name.startswith(unfinished.name):
                remove(leftover)


def read_stored(path: Path, say: Say | None = None) -> Stored:
    """What a DuckDB file knows; nothing if it is not there, is of another schema, or cannot be read.

    `say` is told of a program that has it open for writing: what that one changes goes with the file it has.
    """
    if not path.exists():
        return Stored({}, {})
    try:
        with duckdb.connect(path.absolute(), read_only=True, config=dict(CLOSED)) as connection:
            return _stored_in(connection)
    except duckdb.Error as error:
        # Another process has it open for writing, or it is damaged: then it is written anew, and `refresh` says so.
        if say and LOCKED in (first := str(error).splitlines()[0]):
            say(f"{path} is open for writing elsewhere and is replaced, without what is changed there ({first})")
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
        {space: asked for space, _, _, asked in plans if asked},
        {space: frozenset(earlier) for space, earlier in others},
        dict(seen),
    )


def finals(folder: Path, trial_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """For each known trial its end and final numbers: {"status", "step", "versions", "metrics": {name: value}}.

    Names are those of the view `numbers`. A trial that has not ended is not in it.
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
    found: dict[str, dict[str, Any]] = {
        trial_id: {"status": status, "step": step, "metrics": {}, "versions": versions}
        for trial_id, status, step, versions in sorted(ended)
    }
    for trial_id, name, value in numbers:
        if trial_id in found:
            found[trial_id]["metrics"][name] = value
    return found


@contextmanager
def reading(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection; a RefusedError where another process writes to the file in place, or it is damaged.

    All that this program opens the file with is alike in its settings: DuckDB refuses a second connection otherwise.
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
    """Whether a block of the file has failed its checksum, or is behind the file's end."""
    return any(said in str(error) for said in ("Corrupt database file", "Could not read enough bytes from file"))


def unreadable(path: Path, error: duckdb.Error) -> str:
    """What to say when DuckDB cannot read a file; its message names the process that writes to it, if one does."""
    first = str(error).splitlines()[0]
    if LOCKED in first:
        way_out = "close the program that has it open for writing; it should open it with read_only=True"
    else:
        way_out = f"`ablate doctor --results {path.parent}` keeps it in {DAMAGED} and fills it anew from the journal"
    return f"cannot read {path}: {first}\n  = {way_out}"


def _writable_copy(path: Path, copy: Path) -> duckdb.DuckDBPyConnection:
    """A connection to a copy of `path`, or to an empty file if there is none."""
    if not path.exists():
        return duckdb.connect(copy.absolute())
    shutil.copyfile(path, copy)
    try:
        return duckdb.connect(copy.absolute())
    except duckdb.Error as error:
        raise UnusableError(path, error) from error


def is_ours(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a database was made by this schema."""
    try:
        return connection.execute("SELECT sql_digest FROM projection").fetchall() == [(SQL_DIGEST,)]
    except duckdb.CatalogException:
        return False
