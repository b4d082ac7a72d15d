"""The DuckDB file: filled from the journal by changing a copy and putting it in the place of the old one."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb

from ablate.errors import RefusedError
from ablate.store import changes as changed
from ablate.store.changes import Changes, Journal, Stored
from ablate.store.durable import UNFINISHED, put_in_place, writing

DATABASE = "ablate.duckdb"
TABLES = resources.files("ablate.store").joinpath("tables.sql").read_text(encoding="utf-8")
VIEWS = resources.files("ablate.store").joinpath("views.sql").read_text(encoding="utf-8")
SQL_DIGEST = hashlib.sha256((TABLES + VIEWS).encode()).hexdigest()[:16]

FILES_AT_ONCE = 500

KEYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(["spaces", "variants", "memberships", "comparisons", "definitions"], ("space", "spaces")),
    **dict.fromkeys(["trials", "metrics", "timings"], ("trial_id", "trials")),
    "versions": ("versions_id", "versions"),
}
"""For each table the key by which its rows are replaced, and the table that has every changed key."""

Say = Callable[[str], None]


def refresh(folder: Path, journal: Journal, say: Say) -> bool:
    """Bring the DuckDB file up to date with the journal; whether there was anything to do.

    Costs a copy of the file, so call it when trials have ended, not after every row. Readers are never in the way: they
    keep the file they have open, and the next one to open it sees the new.
    """
    path = folder / DATABASE
    if not (todo := changed.changes(folder, journal, read_stored(path))):
        return False
    unfinished = path.with_name(path.name + UNFINISHED)
    with writing(path):
        with _writable_copy(path, unfinished, say) as connection:
            if _sql_digest(connection) != SQL_DIGEST:
                connection.execute(TABLES)
                connection.execute(VIEWS)
                connection.execute("INSERT INTO projection VALUES (?)", [SQL_DIGEST])
                todo = changed.changes(folder, journal, Stored({}, {}))
            connection.begin()
            load(connection, todo)
            connection.commit()
            connection.execute("CHECKPOINT")
        # A write-ahead log beside the file belongs to the file that goes now, and must not be applied to the new one.
        path.with_name(path.name + ".wal").unlink(missing_ok=True)
        put_in_place(unfinished, path)
    return True


def load(connection: duckdb.DuckDBPyConnection, changes: Changes) -> None:
    """Replace, in the current schema, all rows of the spaces and trials that changed."""
    for name, (key, owner) in KEYS.items():
        connection.register("owners", changes.tables[owner])
        connection.execute(f"DELETE FROM {name} WHERE {key} IN (SELECT {key} FROM owners)")
    connection.unregister("owners")
    for name, table in changes.tables.items():
        connection.register("incoming", table)
        connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM incoming")
        connection.unregister("incoming")
    for start in range(0, len(changes.files), FILES_AT_ONCE):
        _load_sealed(connection, changes.files[start : start + FILES_AT_ONCE])


def read_stored(path: Path) -> Stored:
    """What a DuckDB file knows; nothing if it is not there, is of another schema, or cannot be read."""
    if not path.exists():
        return Stored({}, {})
    try:
        with duckdb.connect(path, read_only=True) as connection:
            return _stored_in(connection)
    except duckdb.Error:
        # Another process has it open for writing, or it is damaged: then it is written anew, and `refresh` says so.
        return Stored({}, {})


def _stored_in(connection: duckdb.DuckDBPyConnection) -> Stored:
    if _sql_digest(connection) != SQL_DIGEST:
        return Stored({}, {})
    plans = connection.execute("SELECT space, plan_digest FROM spaces").fetchall()
    trials = connection.execute("SELECT trial_id, status, attempt, digest FROM trials").fetchall()
    return Stored(dict(plans), {trial_id: (status, attempt, rows) for trial_id, status, attempt, rows in trials})


def finals(folder: Path, trial_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """For each known trial its end and final numbers: {"status", "step", "versions", "metrics": {name: value}}.

    Names are those of the view `summaries`. A trial that has not ended is not in it.
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
            "SELECT trial_id, name, value FROM summaries WHERE trial_id IN (SELECT unnest(?)) ORDER BY ALL", wanted
        ).fetchall()
    found: dict[str, dict[str, Any]] = {
        trial_id: {"status": status, "step": step, "metrics": {}, "versions": versions}
        for trial_id, status, step, versions in sorted(ended)
    }
    for trial_id, name, value in numbers:
        if trial_id in found:
            found[trial_id]["metrics"][name] = value
    return found


def reading(path: Path, config: Mapping[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
    """A read-only connection; a RefusedError that says who has the file if another process writes to it in place."""
    try:
        return duckdb.connect(path, read_only=True, config=dict(config or {}))
    except duckdb.IOException as error:
        raise RefusedError(in_use(path, error)) from error


def in_use(path: Path, error: duckdb.Error) -> str:
    """What to say when DuckDB cannot open a file for reading; its message names the process."""
    return (
        f"cannot read {path}: {str(error).splitlines()[0]}\n"
        "  = close the program that has it open for writing; it should open it with read_only=True"
    )


def _load_sealed(connection: duckdb.DuckDBPyConnection, files: tuple[Path, ...]) -> None:
    paths = [str(file) for file in files]
    try:
        for table, name, value, kind in (
            ("metrics", "metric", "value", "row"),
            ("timings", "name", "seconds", "timing"),
        ):
            address = "address, " if table == "metrics" else ""
            connection.execute(
                f"INSERT INTO {table} (trial_id, step, {name}, {address}{value}) "
                f"SELECT trial_id, step, metric, {address}value FROM read_parquet(?) WHERE kind = '{kind}'",
                [paths],
            )
    except duckdb.Error as error:
        raise RefusedError(
            f"cannot read a sealed trial: {error}\n"
            "  = delete the damaged file under trials/; the trial is then trained again"
        ) from error


def _writable_copy(path: Path, copy: Path, say: Say) -> duckdb.DuckDBPyConnection:
    """A connection to a copy of `path`, or to an empty file if there is none or it cannot be used."""
    copy.unlink(missing_ok=True)
    copy.with_name(copy.name + ".wal").unlink(missing_ok=True)
    if path.exists():
        shutil.copyfile(path, copy)
        try:
            return duckdb.connect(copy)
        except duckdb.Error as error:
            say(f"{path} cannot be used ({str(error).splitlines()[0]}); it is filled anew from the journal")
            copy.unlink(missing_ok=True)
    return duckdb.connect(copy)


def _sql_digest(connection: duckdb.DuckDBPyConnection) -> str | None:
    try:
        row = connection.execute("SELECT sql_digest FROM projection").fetchone()
    except duckdb.CatalogException:
        return None
    return str(row[0]) if row else None
