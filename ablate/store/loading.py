"""Load changes into the tables of a database, the file's or those laid over it: old rows out, new rows in.

Rows are exposed as a table `incoming`, a few million at a time, and go from there into `metrics`, `timings` and
`summaries`. A batch is ordered by metric, so that DuckDB, which knows the range of each block of a column, reads a
tenth of `metrics` for one of ten. Each batch is its own transaction: a single one would keep all of them in memory, and
readers never see a part anyway, since a copy is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path

import duckdb
import pyarrow

from ablate.errors import RefusedError
from ablate.store import sealed
from ablate.store.open_trial import Segment
from ablate.store.pending_rows import OF_PLANS, Changes, table_of
from ablate.store.schema import quoted

SUMMARIES = resources.files("ablate.store").joinpath("summaries.sql").read_text(encoding="utf-8")

PATTERN = re.compile(r"([*?[])")
"""Characters that DuckDB takes for wildcards in a file name; brackets around one escape it."""

FILES_AT_ONCE = 500
BYTES_AT_ONCE = 16 * 2**20
"""Bytes of sealed files loaded at once: about two million rows, which take about ten times as much in memory."""

KEYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(OF_PLANS, ("space", "plans")),
    **dict.fromkeys(["trials", "metrics", "summaries", "timings"], ("trial_id", "trials")),
    "versions": ("versions_id", "versions"),
}
"""For each table, the key by which its rows are replaced, and the table that has every changed key."""

OF_ROWS = ("metrics", "summaries", "timings")
"""The large tables: most changed trials have no rows in them yet, and then they are not searched."""

WITH_ROWS = "SELECT DISTINCT trial_id FROM {schema}.timings WHERE name = 'began'"
"""SQL for the trials whose rows a database has: every ended trial has a `began`."""


def load(connection: duckdb.DuckDBPyConnection, changes: Changes, schema: str = "main") -> None:
    """Replace, in `schema`, which must be the current one, all rows of the spaces and trials that changed."""
    replaced = replaces(connection, changes, schema)
    connection.begin()
    for name, (key, owner) in KEYS.items():
        if name not in OF_ROWS or replaced:
            connection.register("owners", changes.tables[owner])
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
        connection.register("incoming", _live_rows(changes.live))
        _spread(connection)
        connection.unregister("incoming")


def replaces(connection: duckdb.DuckDBPyConnection, changes: Changes, schema: str) -> bool:
    """Return whether any of the changed trials already has rows in a schema."""
    connection.register("owners", changes.tables["trials"])
    old = connection.execute(f"FROM owners SEMI JOIN ({WITH_ROWS.format(schema=schema)}) USING (trial_id) LIMIT 1")
    replaced = bool(old.fetchall())
    connection.unregister("owners")
    return replaced


def _batches(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the files in order, in batches of limited size."""
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
    paths = ", ".join(quoted(PATTERN.sub(r"[\1]", str(file.absolute()))) for file in files)
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


def _live_rows(live: Mapping[str, Segment]) -> pyarrow.Table:
    rows = [
        row
        for trial_id, segment in live.items()
        for row in (
            *((trial_id, "row", step, metric, address, value) for step, metric, address, value in segment.rows),
            *((trial_id, "timing", step, name, "", seconds) for step, name, seconds in segment.timings),
        )
    ]
    return table_of(sealed.SCHEMA, rows)


def _spread(connection: duckdb.DuckDBPyConnection) -> None:
    """Distribute the rows of `incoming` over the tables."""
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
