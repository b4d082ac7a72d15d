"""The DuckDB file: a cache of the kept files, filled by changing a copy and renaming it over the old one."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import duckdb
import pyarrow

from ablate.errors import RefusedError
from ablate.store import sealed
from ablate.store.durable import DAMAGED, UNFINISHED, put_in_place, remove, set_aside, unfinished_in, writing
from ablate.store.files import TRIALS
from ablate.store.pending_rows import OF_SPACES, Changes, State, Stored, changes
from ablate.store.schema import DDL, inherit_comments, quoted
from ablate.store.snapshot import Snapshot

DATABASE = "ablate.duckdb"
SUMMARIES = resources.files("ablate.store").joinpath("summaries.sql").read_text(encoding="utf-8")
VIEWS = resources.files("ablate.store").joinpath("views.sql").read_text(encoding="utf-8")
SQL_DIGEST = hashlib.sha256((DDL + SUMMARIES + VIEWS).encode()).hexdigest()[:16]

CREATED = re.compile(r"CREATE OR REPLACE (TABLE|VIEW) (\w+)")

PATTERN = re.compile(r"([*?[])")
"""Characters that DuckDB takes for wildcards in a file name; brackets around one escape it."""

FILES_AT_ONCE = 500
BYTES_AT_ONCE = 16 * 2**20
"""Bytes of sealed files loaded at once: about two million rows, which take about ten times as much in memory."""

KEYS: Mapping[str, str] = {
    **dict.fromkeys(OF_SPACES, "space"),
    **dict.fromkeys(["trials", "metrics", "summaries", "timings"], "trial_id"),
    "versions": "versions_id",
}

OF_ROWS = ("metrics", "summaries", "timings")
"""The large tables: most changed trials have no rows in them yet, and then they are not searched."""

WITH_ROWS = "SELECT DISTINCT trial_id FROM timings WHERE name = 'began'"
"""SQL for the trials whose rows a database has: every ended trial has a `began`."""

MOST_NAMED = 5

LOCKED = "Could not set lock on file"  # DuckDB's message when another process has a file open for writing

Say = Callable[[str], None]

CLOSED: Mapping[str, str] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
"""No file, no network, no foreign code, and no setting that could allow them again. The last one must come last."""


def refresh(folder: Path, say: Say) -> bool:
    """Bring the DuckDB file up to date with the kept files; return whether there was anything to do. It costs a copy of
    the file; readers never block it: they keep the file they have open."""
    path, snapshot = folder / DATABASE, Snapshot(folder)
    stored = read_stored(path, say)
    if stored.mark == snapshot.mark:
        return False
    todo = changes(snapshot, stored)
    say_lost(folder, {**snapshot.lost, **todo.lost}, say)
    if not todo:
        return False
    try:
        _replace(snapshot, todo)
    except UnusableError as unusable:
        kept = set_aside(folder, path)
        say(f"{path} cannot be used ({unusable.fault}); it is kept as {kept} and filled again")
        _replace(snapshot, changes(snapshot, Stored()))
    return True


class UnusableError(RefusedError):
    """The file is not a DuckDB file, or is damaged; `fault` is DuckDB's message."""

    def __init__(self, path: Path, error: duckdb.Error):
        super().__init__(unreadable(path, error))
        self.fault = str(error).splitlines()[0]


def _replace(snapshot: Snapshot, todo: Changes) -> None:
    path = snapshot.folder / DATABASE
    unfinished = path.with_name(path.name + UNFINISHED)
    with changing(path, unfinished):
        with writable_copy(path if path.exists() else None, unfinished, snapshot.folder) as connection:
            fill(connection, snapshot, todo)
            connection.execute("CHECKPOINT")
        # A write-ahead log beside the file belongs to the old file and must not be applied to the new one.
        path.with_name(path.name + ".wal").unlink(missing_ok=True)
        put_in_place(unfinished, path)


def fill(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, todo: Changes | None = None) -> None:
    """Load what a database lacks of a snapshot; all of it where nothing is given. Tables that are not ours are made."""
    todo = changes(snapshot, Stored()) if todo is None else todo
    if not is_ours(connection):
        _create(connection)
    load(connection, todo)
    # Where a file was found damaged on loading, its trial is looked at again by all that come.
    mark = snapshot.mark if todo.lost.keys() <= snapshot.lost.keys() else None
    connection.execute("UPDATE projection SET listing = ?", [mark])


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    """Recreate all of our tables and views, empty, in one transaction; what the user has added is kept."""
    there = "SELECT table_name, 'TABLE' FROM duckdb_tables() UNION ALL SELECT view_name, 'VIEW' FROM duckdb_views()"
    made = {name: kind for kind, name in CREATED.findall(DDL + VIEWS)}
    connection.begin()
    for name, kind in connection.execute(there).fetchall():
        if made.get(name, kind) != kind:  # an older schema had a view where there is a table now
            connection.execute(f"DROP {kind} {name}")
    connection.execute(DDL)
    connection.execute(VIEWS)
    inherit_comments(connection, VIEWS)
    connection.execute("INSERT INTO projection VALUES (?, NULL)", [SQL_DIGEST])
    connection.commit()


@functools.cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory(prefix="ablate-") as aside:
        path = Path(aside) / DATABASE
        with duckdb.connect(path) as connection:
            _create(connection)
        return path.read_bytes()


def put_damaged_aside(folder: Path, say: Say) -> bool:
    """Read every block of the DuckDB file and put the file aside if one is damaged; return whether it was.

    DuckDB verifies a block only when reading it: copying the file copies a damaged one unnoticed.
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
        say(f"{path} is damaged ({str(error).splitlines()[0]}); it is kept as {kept} and filled again")
        return True
    return False


def say_lost(folder: Path, lost: Mapping[str, str], say: Say) -> None:
    """Report files that are gone or damaged, so that answers lack their content: some by name, all by number."""
    for name, fault in list(lost.items())[:MOST_NAMED]:
        say(f"lost: {name} {fault}; `ablate doctor --results {folder}` recovers what it can")
    if (more := len(lost) - MOST_NAMED) > 0:
        say(f"lost: {more} more of the kept files; `ablate doctor --results {folder}` lists them")


@contextmanager
def changing(path: Path, unfinished: Path, option: str = "--results") -> Iterator[None]:
    """Turn DuckDB's write errors into a RefusedError that names `option`, and delete the copy `unfinished`."""
    try:
        with writing(path, option):
            yield
    except duckdb.Error as error:
        if is_damage(error):
            raise UnusableError(path, error) from error
        if not isinstance(error, duckdb.IOException | duckdb.TransactionException | duckdb.FatalException):
            raise
        reason = str(error).splitlines()[0].rpartition('": ')[2]  # after the file's name, the system's message
        raise RefusedError(
            f"cannot write {path}: {reason}\n  = free space or permission there, or choose another folder with {option}"
        ) from error
    finally:
        for leftover in unfinished_in(unfinished.parent):
            if leftover.name.startswith(unfinished.name):
                remove(leftover)


def read_stored(path: Path, say: Say | None = None) -> Stored:
    """Read the state of a DuckDB file; nothing if it is missing, has another schema, or cannot be read.

    `say` is told of a program that has it open for writing: its changes will be lost.
    """
    if not path.exists():
        return Stored()
    try:
        return stored_at(path)
    except duckdb.Error as error:
        # Another process has it open for writing, or it is damaged: then it is rebuilt, and `refresh` reports that.
        if say and LOCKED in (first := str(error).splitlines()[0]):
            say(f"{path} is open for writing elsewhere and is replaced, without the changes made there ({first})")
        return Stored()


def stored_at(path: Path) -> Stored:
    """Read the state of an existing DuckDB file; nothing if it has another schema. Raises the errors of DuckDB."""
    with duckdb.connect(path.absolute(), read_only=True, config=dict(CLOSED)) as connection:
        if not is_ours(connection):
            return Stored()
        ((mark,),) = connection.execute("SELECT listing FROM projection").fetchall()
        names = connection.execute("SELECT space, list(name) FROM files GROUP BY space").fetchall()
        trials = connection.execute("SELECT trial_id, status, attempt, digest FROM trials").fetchall()
        bare = connection.execute("SELECT trial_id FROM trials WHERE specification IS NULL").fetchall()
    of_space = {space: frozenset(of) for space, of in names}
    states: dict[str, State] = {trial: (status, attempt, digest) for trial, status, attempt, digest in trials}
    return Stored(mark or "", of_space, states, frozenset(trial for (trial,) in bare))


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
        way_out = f"`ablate doctor --results {path.parent}` keeps it in {DAMAGED} and fills it again"
    return f"cannot read {path}: {first}\n  = {way_out}"


def writable_copy(path: Path | None, copy: Path, folder: Path) -> duckdb.DuckDBPyConnection:
    """Connect to a copy of a file, or to one without a row, to fill it: it reaches sealed files of `folder` alone."""
    if path is not None:
        shutil.copyfile(path, copy)
    else:
        copy.write_bytes(_empty())
    try:
        connection = duckdb.connect(copy.absolute())
    except duckdb.Error as error:
        raise UnusableError(path or copy, error) from error
    trials = folder / TRIALS
    # It asks for a pattern before the files that match.
    allowed = ", ".join({quoted(str(trials.absolute())), file_literal(trials)})
    connection.execute(f"SET allowed_directories = [{allowed}]")
    restrict(connection)
    return connection


def restrict(connection: duckdb.DuckDBPyConnection) -> None:
    """Apply the settings of `CLOSED`, for good."""
    for setting, value in CLOSED.items():
        connection.execute(f"SET {setting} = {value}")


def is_ours(connection: duckdb.DuckDBPyConnection, schema: str = "main") -> bool:
    try:
        return connection.execute(f"SELECT sql_digest FROM {schema}.projection").fetchall() == [(SQL_DIGEST,)]
    except duckdb.CatalogException:
        return False


# Changes loaded into its tables: rows are exposed as a table `incoming`, a few million at a time. A batch is ordered by
# metric, so that DuckDB, which knows the range of each block, reads a tenth of `metrics` for one of ten. Each batch is
# its own transaction: a single one would keep all in memory, and readers never see a part anyway.


def load(connection: duckdb.DuckDBPyConnection, changes: Changes) -> None:
    connection.register("owners", _owners(changes, "trial_id"))
    old = connection.execute(f"FROM owners SEMI JOIN ({WITH_ROWS}) USING (trial_id) LIMIT 1")
    replaced = bool(old.fetchall())
    connection.unregister("owners")
    connection.begin()
    for name, key in KEYS.items():
        if name not in OF_ROWS or replaced:
            connection.register("owners", _owners(changes, key))
            connection.execute(f"DELETE FROM {name} WHERE {key} IN (SELECT {key} FROM owners)")
            connection.unregister("owners")
    for name, table in changes.tables.items():
        connection.register("given", table)
        connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM given")
        connection.unregister("given")
    connection.commit()
    for files in _batches(changes.files):
        _take_in_files(connection, files)
    if changes.live:
        connection.register("incoming", pyarrow.concat_tables(map(sealed.rows_of, changes.live.values())))
        _spread(connection)
        connection.unregister("incoming")


def _owners(changes: Changes, key: str) -> pyarrow.Table:
    changed = {"space": changes.spaces, "trial_id": changes.trials}
    values = changed[key] if key in changed else changes.tables["versions"][key].to_pylist()
    return pyarrow.table({key: pyarrow.array(values, type=pyarrow.string())})


def _batches(files: Sequence[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    size = 0
    for file in files:
        length = file.stat().st_size if file.exists() else 0
        if batch and (size + length > BYTES_AT_ONCE or len(batch) == FILES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += length
    if batch:
        yield batch


def _take_in_files(connection: duckdb.DuckDBPyConnection, files: list[Path]) -> None:
    paths = ", ".join(map(file_literal, files))
    try:
        connection.execute(f"CREATE TEMP VIEW incoming AS SELECT * FROM read_parquet([{paths}])")
        _spread(connection)
    except duckdb.Error as error:
        if not any(str(file) in str(error) for file in files):
            raise
        # Every byte was verified a moment ago: somebody has moved a file, or the disk fails.
        raise RefusedError(
            f"cannot read a sealed trial: {error}\n  = `ablate doctor` finds the cause; run it first"
        ) from error
    connection.execute("DROP VIEW incoming")


def file_literal(path: Path) -> str:
    """Return a path as SQL in which no sign is a wildcard."""
    return quoted(PATTERN.sub(r"[\1]", str(path.absolute())))


def _spread(connection: duckdb.DuckDBPyConnection) -> None:
    connection.begin()
    connection.execute(
        """
        INSERT INTO metrics BY NAME
        SELECT trial_id, step, metric, address, value FROM incoming WHERE kind = 'row' ORDER BY metric
        """
    )
    connection.execute(
        """
        INSERT INTO timings BY NAME
        SELECT trial_id, step, metric AS name, value AS seconds FROM incoming WHERE kind = 'timing'
        """
    )
    connection.execute(f"INSERT INTO summaries BY NAME {SUMMARIES}")
    connection.commit()
