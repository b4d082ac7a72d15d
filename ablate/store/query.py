"""SQL over a results folder: read-only by default, and also while a run is writing.

What the DuckDB file lacks so far (running trials, trials just sealed, a new plan) is laid over it in memory, under the
same names. After that the connection can reach no file, load no extension and change no setting; nor can a writable
one, except for the copy of the DuckDB file that it changes.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from ablate.errors import InputError, RefusedError
from ablate.source.excerpt import drawn
from ablate.source.problems import quote
from ablate.store import comments
from ablate.store import pending_rows as changed
from ablate.store.durable import UNFINISHED, check_folder, put_in_place
from ablate.store.loading import KEYS, OF_ROWS, load, replaces
from ablate.store.lock import Lock
from ablate.store.pending_rows import Changes
from ablate.store.projection import (
    CLOSED,
    DATABASE,
    SQL_DIGEST,
    VIEWS,
    Say,
    changing,
    is_damage,
    read_stored,
    reading,
    refresh,
    say_damaged,
    unreadable,
)
from ablate.store.schema import DDL, quoted

READING = ("SELECT", "EXPLAIN", "PRAGMA", "CALL", "MULTI")
"""The kinds of statement that only read; PIVOT is parsed as MULTI."""


WORD = re.compile(r"\w+")

ALONE = "`ablate sql` works on these results alone; open ablate.duckdb with DuckDB itself to join it with other files"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A table: the names of its columns and its rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def query(
    folder: Path,
    sql: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    writable: bool = False,
    say: Say = warnings.warn,
) -> QueryResult:
    """Return the result of `sql`, with values for its `$names` in `parameters`; of several statements, of the last one.

    `writable` lets it change the DuckDB file, which needs the folder's lock: the user's own tables and views are kept
    when the file is refreshed, changes to ours last until the trial or space is written again. An error in the SQL is
    an InputError with DuckDB's message, and so is a folder without results. `say` is told of trials that are left out.
    """
    _refuse_broken(sql, *(str(value) for value in (parameters or {}).values()))
    _refuse_nothing(folder)
    if writable:
        return _write(folder, sql, parameters, say)
    with _reading(folder, say) as connection:
        answer = _read(connection, sql, parameters, folder)
        _say_plans(connection, sql, say)
        return answer


Ask = Callable[[str, Mapping[str, Any]], QueryResult]
"""Returns the result of SQL, with values for its `$names`."""


@contextmanager
def asking(folder: Path, *, say: Say = warnings.warn) -> Iterator[Ask]:
    """Open results for several queries on one consistent state, each answered as by `query`."""
    _refuse_nothing(folder)
    with _reading(folder, say) as connection:
        yield lambda sql, parameters: _read(connection, sql, parameters, folder)


def _say_plans(connection: duckdb.DuckDBPyConnection, sql: str, say: Say) -> None:
    """Name the spaces with several plans, where the SQL reads the rows of all without telling them apart."""
    words = {word.lower() for word in WORD.findall(sql)}
    if words & {"plan", "plans", "current"}:
        return
    views = connection.execute(
        "SELECT table_name FROM duckdb_columns() WHERE schema_name = 'main' AND column_name IN ('plan', 'current')"
        " GROUP BY ALL HAVING count(DISTINCT column_name) = 2"
    ).fetchall()
    if not words & {name.lower() for (name,) in views}:
        return
    several = "SELECT space, count(*) FROM plans GROUP BY space HAVING count(*) > 1 ORDER BY space"
    for space, plans in connection.execute(several).fetchall():
        say(
            f"space {drawn(space)} has {plans} plans, each with its own rows here: `plan` tells them apart, "
            "`WHERE current` keeps those of the current one (ablate sql @plans)"
        )


def _refuse_nothing(folder: Path) -> None:
    check_folder(folder)
    if not (folder / DATABASE).exists() and not (folder / "plans.jsonl").exists():
        raise InputError(f"no results in {folder}\n  = run a space first, or name another folder with --results")


@contextmanager
def _reading(folder: Path, say: Say) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the DuckDB file with what it lacks so far laid over it."""
    stored = read_stored(folder / DATABASE)  # first, so that the journal has all that it has
    journal, live = changed.read_journal(folder)
    changes = changed.changes(folder, journal, stored, live)
    say_damaged(folder, changes, say)
    attached = folder / DATABASE if stored.plans or stored.trials else None
    with _overlay(changes, attached, say) if changes or not attached else _open(attached) as connection:
        yield connection


def _read(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None, folder: Path
) -> QueryResult:
    for kind in _kinds(connection, sql):
        if kind not in READING:
            raise InputError(f"{kind} is not allowed in read-only SQL\n  = allow it with --write")
    return _execute(connection, sql, parameters, folder / DATABASE)


def _write(folder: Path, sql: str, parameters: Mapping[str, Any] | None, say: Say) -> QueryResult:
    with Lock(folder):
        refresh(folder, changed.read_journal(folder)[0], say)
        path = folder / DATABASE
        unfinished = path.with_name(path.name + UNFINISHED)
        with changing(path, unfinished):
            shutil.copyfile(path, unfinished)
            with duckdb.connect(unfinished.absolute(), config=dict(CLOSED)) as connection:
                answer = _execute(connection, sql, parameters, path)
                connection.execute("CHECKPOINT")
            put_in_place(unfinished, path)
    return answer


def _open(path: Path) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    return reading(path)


def _overlay(changes: Changes, attached: Path | None, say: Say) -> duckdb.DuckDBPyConnection:
    """Create a database in memory with the tables of the attached file and the changes laid over them."""
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE SCHEMA fresh; SET schema = 'fresh'")
    connection.execute(DDL)
    connection.execute("INSERT INTO projection VALUES (?)", [SQL_DIGEST])
    load(connection, changes, "fresh")
    connection.execute("SET schema = 'main'")
    replaced = False
    if attached:
        _attach(connection, attached)
        replaced = replaces(connection, changes, "stored")
    for name, (key, owner) in KEYS.items():
        # Do not join hundreds of millions of rows with the few trials that changed if those have no rows there.
        rest = f" ANTI JOIN fresh.{owner} USING ({key})" if name not in OF_ROWS or replaced else ""
        stored = f" UNION ALL BY NAME FROM stored.{name}{rest}" if attached else ""
        connection.execute(f"CREATE VIEW main.{name} AS FROM fresh.{name}{stored}")
    connection.execute("CREATE VIEW main.projection AS FROM fresh.projection")
    _copy_comments(connection)
    connection.execute(VIEWS)
    comments.inherit(connection, VIEWS)
    # Before the views of the file, which may be somebody else's: creating a view opens the files that it names.
    for setting, value in CLOSED.items():
        connection.execute(f"SET {setting} = {value}")
    if attached:
        _copy_own(connection, say)
    return connection


def _attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        connection.execute(f"ATTACH {quoted(str(path.absolute()))} AS stored (READ_ONLY)")
    except duckdb.Error as error:
        raise RefusedError(unreadable(path, error)) from error


def _copy_comments(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the views that stand for tables the comments of those tables."""
    comments_of = connection.execute(
        """
        SELECT 'VIEW main.' || table_name, comment FROM duckdb_tables() WHERE schema_name = 'fresh'
        UNION ALL
        SELECT 'COLUMN main.' || table_name || '.' || column_name, comment
        FROM duckdb_columns() WHERE schema_name = 'fresh'
        """
    ).fetchall()
    for place, comment in comments_of:
        connection.execute(f"COMMENT ON {place} IS {quoted(comment)}")


def _copy_own(connection: duckdb.DuckDBPyConnection, say: Say) -> None:
    """Show the tables and views that the user has added to the file.

    `say` is told of views that are left out: those of tables that are no longer there, and of files.
    """
    ours = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
    added = connection.execute(
        """
        SELECT table_oid AS oid, table_name AS name, NULL AS sql FROM duckdb_tables() WHERE database_name = 'stored'
        UNION ALL
        SELECT view_oid, view_name, sql FROM duckdb_views() WHERE database_name = 'stored' AND NOT internal
        ORDER BY oid
        """
    ).fetchall()
    left = {name: definition or _view_of(name) for _, name, definition in added if name not in ours}
    # A file renumbers its views when it is opened, so a view may come before another that it is built on.
    while left:
        faults = {name: fault for name in left if (fault := _fault(connection, left[name]))}
        if len(faults) == len(left):
            for name, fault in faults.items():
                say(f"the view {quote(name)} of these results is left out: {fault}")
            return
        left = {name: left[name] for name in faults}


def _view_of(name: str) -> str:
    its = name.replace('"', '""')
    return f'CREATE VIEW main."{its}" AS FROM stored."{its}"'


def _fault(connection: duckdb.DuckDBPyConnection, definition: str) -> str:
    """Create a view; return DuckDB's objection in one line, empty if there is none."""
    try:
        connection.execute(definition)
    except duckdb.Error as error:
        return drawn(str(error).splitlines()[0])
    return ""


def _kinds(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    statements = _statements(connection, sql)
    if not statements:
        raise InputError("there is no SQL statement here")
    return [_kind(statement) for statement in statements]


def _statements(connection: duckdb.DuckDBPyConnection, sql: str) -> list[duckdb.Statement]:
    try:
        return connection.extract_statements(sql)
    except duckdb.Error as error:
        raise InputError(_in_duckdbs_words(error)) from None


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # DuckDB's Python API has no name for some kinds: UPDATE EXTENSIONS
        return statement.query.split()[0].upper()


def _in_duckdbs_words(error: duckdb.Error) -> str:
    """Return DuckDB's message without control characters, since it repeats parts of the SQL."""
    message = "\n".join(drawn(line) for line in f"SQL: {error}".splitlines())
    return f"{message}\n  = {ALONE}" if isinstance(error, duckdb.PermissionException) else message


def _execute(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None, path: Path
) -> QueryResult:
    if parameters:
        statements = _statements(connection, sql)
        _refuse_unknown(parameters, {name for statement in statements for name in statement.named_parameters})
    try:
        result = connection.execute(sql, dict(parameters) if parameters else None)
        columns = tuple(column[0] for column in result.description or ())
        return QueryResult(columns, tuple(result.fetchall()) if columns else ())
    except duckdb.Error as error:
        if is_damage(error):
            raise RefusedError(unreadable(path, error)) from error
        raise InputError(_in_duckdbs_words(error)) from None


def _refuse_broken(*texts: str) -> None:
    """Refuse text that is not UTF-8: Python holds such bytes of the command line as lone surrogates."""
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"this SQL is not UTF-8: character {error.start + 1} of {quote(text)}") from None


def _refuse_unknown(given: Iterable[str], there: set[str]) -> None:
    """Refuse values for `$names` that the SQL does not have; DuckDB ignores case."""
    known = {name.lower() for name in there}
    for name in given:
        if name.lower() not in known:
            has = ", ".join(f"${name}" for name in sorted(there))
            raise InputError(f"this SQL has no ${drawn(name)}\n  = {f'it has {has}' if has else 'leave the value out'}")
