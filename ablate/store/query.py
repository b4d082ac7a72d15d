"""Queries: SQL over a results folder, read-only by default, also while a run is writing; and those of the cookbook.

What the DuckDB file lacks so far (running trials, a new plan) is added to a temporary copy, which is read in its place.
No connection, also a writable one, can reach another file, load an extension or change a setting.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from ablate.errors import InputError, RefusedError, warn
from ablate.source.problems import drawn, quote, unknown
from ablate.store import files, projection
from ablate.store.durable import UNFINISHED, Lock, put_in_place
from ablate.store.pending_rows import changes
from ablate.store.projection import DATABASE, Say
from ablate.store.snapshot import Snapshot

READING = ("SELECT", "EXPLAIN", "PRAGMA", "CALL", "MULTI")
"""The kinds of statement that only read; PIVOT is parsed as MULTI."""
WRITING = (
    *("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "CREATE_FUNC", "ALTER", "DROP", "VACUUM", "ANALYZE"),
    *("TRANSACTION", "PREPARE", "EXECUTE"),
)
"""The kinds that need `writable`. Others reach files, load extensions or change settings, and are never allowed."""

WORD = re.compile(r"\w+")

ALONE = (
    "`ablate sql` works on these results alone; open ablate.duckdb with DuckDB itself "
    "for other files, extensions and settings"
)


Parameters: TypeAlias = Mapping[str, object]  # the values for the `$names` of SQL: whatever DuckDB converts


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A table: the names of its columns and its rows; `no_rows` is the meaning of one without rows, if it has any."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    no_rows: str = ""


def query(
    folder: Path,
    sql: str,
    *,
    parameters: Parameters | None = None,
    writable: bool = False,
    say: Say = warn,
) -> QueryResult:
    """Return the result of one statement, as `query_each` does; an InputError for several, before any is executed."""
    (answer,) = query_each(folder, sql, parameters=parameters, writable=writable, say=say, several=False)
    return answer


def query_each(
    folder: Path,
    sql: str,
    *,
    parameters: Parameters | None = None,
    writable: bool = False,
    say: Say = warn,
    several: bool = True,
) -> tuple[QueryResult, ...]:
    """The result of each statement of `sql`; without `several`, more than one is an InputError before any is executed.

    `writable` lets it change the DuckDB file, which needs the folder's lock: the user's own tables and views stay when
    the file is refreshed, changes to ours last until the trial or space is written again. An error in the SQL is an
    InputError with DuckDB's message, and so is a folder without results. `say` is told of trials that are left out.
    """
    _refuse_broken(sql, *(str(value) for value in (parameters or {}).values()))
    files.check_results(folder)
    if writable:
        return _write(folder, sql, parameters, say, several)
    with _reading(folder, say) as connection:
        answers = _execute(connection, sql, parameters, folder / DATABASE, READING, several)
        _say_plans(connection, sql, say)
        return answers


Ask: TypeAlias = Callable[[str, Parameters], QueryResult]  # returns the result of SQL, with values for its `$names`


@contextmanager
def asking(folder: Path, *, say: Say = warn) -> Iterator[Ask]:
    """Open results for several queries on one consistent state, each answered as by `query`."""
    files.check_results(folder)
    with _reading(folder, say) as connection:
        yield lambda sql, given: _execute(connection, sql, given, folder / DATABASE, READING, several=False)[0]


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


@contextmanager
def _reading(folder: Path, say: Say) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the DuckDB file, or where that lacks anything, a temporary copy of it with all that is kept now."""
    path = folder / DATABASE
    stored = projection.read_stored(path)  # first, so that the files have all that it has
    snapshot = Snapshot(folder)
    usable = bool(stored.trials or stored.names)
    same = usable and stored.mark == snapshot.mark and not snapshot.live
    lacking = None if same else changes(snapshot, stored, live=True)
    projection.say_lost(folder, {**snapshot.lost, **(lacking.lost if lacking else {})}, say)
    if usable and not lacking:
        with projection.reading(path) as connection:
            yield connection
        return
    with tempfile.TemporaryDirectory(prefix="ablate-") as aside:
        copy = Path(aside) / DATABASE
        with (
            projection.changing(copy, copy, "TMPDIR"),
            projection.writable_copy(path if usable else None, copy, folder) as connection,
        ):
            projection.fill(connection, snapshot, lacking)
        with projection.reading(copy) as connection:
            yield connection


def _write(folder: Path, sql: str, parameters: Parameters | None, say: Say, several: bool) -> tuple[QueryResult, ...]:
    with Lock(folder):
        projection.refresh(folder, say)
        path = folder / DATABASE
        unfinished = path.with_name(path.name + UNFINISHED)
        with projection.changing(path, unfinished):
            shutil.copyfile(path, unfinished)
            with duckdb.connect(unfinished.absolute(), config=dict(projection.CLOSED)) as connection:
                answers = _execute(connection, sql, parameters, path, (*READING, *WRITING), several)
                connection.execute("CHECKPOINT")
            put_in_place(unfinished, path)
    return answers


def check_number(statements: Sequence[duckdb.Statement], *, several: bool) -> None:
    if not statements:
        raise InputError("there is no SQL statement here")
    if len(statements) > 1 and not several:
        raise InputError(
            f"this SQL has {len(statements)} statements, and the answer is one table\n"
            "  = give one at a time; `ablate sql` shows the result of each, on the screen and with --json"
        )


def _refuse_kinds(statements: Sequence[duckdb.Statement], allowed: Sequence[str]) -> None:
    kinds = [_kind(statement) for statement in statements]
    for kind in kinds:
        if kind not in (*READING, *WRITING):
            raise InputError(f"{kind} is not allowed\n  = {ALONE}")
    for kind in kinds:
        if kind not in allowed:
            raise InputError(f"{kind} is not allowed in read-only SQL\n  = allow it with --write")


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # DuckDB's Python API has no name for some kinds: UPDATE EXTENSIONS
        return " ".join(statement.query.split()[:2]).upper()


def _in_duckdbs_words(error: duckdb.Error) -> str:
    """Return DuckDB's message without control characters, since it repeats parts of the SQL."""
    message = "\n".join(drawn(line) for line in f"SQL: {error}".splitlines())
    return f"{message}\n  = {ALONE}" if isinstance(error, duckdb.PermissionException) else message


def _execute(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Parameters | None,
    path: Path,
    allowed: Sequence[str],
    several: bool,
) -> tuple[QueryResult, ...]:
    given, answers = dict(parameters or {}), list[QueryResult]()
    try:
        statements = connection.extract_statements(sql)
        check_number(statements, several=several)
        _refuse_kinds(statements, allowed)
        _refuse_unknown(given, {name for statement in statements for name in statement.named_parameters})
        for statement in statements:
            names = {name.lower() for name in statement.named_parameters}
            values = {name: value for name, value in given.items() if name.lower() in names}
            result = connection.execute(statement, values or None)
            columns = tuple(column[0] for column in result.description or ())
            answers.append(QueryResult(columns, tuple(result.fetchall()) if columns else ()))
        return tuple(answers)
    except duckdb.Error as error:
        if projection.is_damage(error):
            raise RefusedError(projection.unreadable(path, error)) from error
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


# The cookbook: named queries that answer common questions about results, as `cookbook.sql` has them

QUERY_TITLE = re.compile(
    r"^-- @(?P<name>\w+): (?P<question>.+)\n(?:-- (?P<parameters>\$.*)\n)?(?:-- no rows: (?P<no_rows>.+)\n)?",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A named query. `parameters` maps its `$names` to their default values; None means no restriction. `no_rows` is
    the meaning of an answer without rows; empty where it has none of its own."""

    name: str
    question: str
    parameters: Mapping[str, str | None]
    sql: str
    no_rows: str = ""

    def given(self, values: Mapping[str, str]) -> dict[str, str | None]:
        for name in values:
            if name not in self.parameters:
                message = f"the query {self.name} has no parameter {quote(name)}"
                raise unknown(message, name, self.parameters, "its parameters are")
        return {**self.parameters, **values}


@cache
def cookbook_queries() -> tuple[Query, ...]:
    text = resources.files("ablate.store").joinpath("cookbook.sql").read_text(encoding="utf-8")
    titles = list(QUERY_TITLE.finditer(text))
    ends = [title.start() for title in titles[1:]] + [len(text)]
    return tuple(
        Query(
            title["name"],
            title["question"],
            _query_parameters(title["parameters"]),
            text[title.end() : end].strip(),
            title["no_rows"] or "",
        )
        for title, end in zip(titles, ends, strict=True)
    )


def cookbook_query(name: str) -> Query:
    known = {query.name: query for query in cookbook_queries()}
    if name not in known:
        message = f"the cookbook has no query {quote(name)}"
        raise unknown(message, name, known, "it has", command="ablate sql --cookbook")
    return known[name]


def _query_parameters(written: str | None) -> dict[str, str | None]:
    parts = [part.partition("=") for part in (written or "").split(",") if part]
    return {name.strip().removeprefix("$"): value.strip() or None for name, _, value in parts}
