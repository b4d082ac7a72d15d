"""Changes put into the tables of a database, the file's or those laid over it: old rows out, new rows in.

Rows are seen as a table `incoming`, a few million at a time, and go from there into `metrics`, `timings` and
`summaries`. Within a batch one metric follows the other, so that DuckDB, which knows the range of each block of a
column, reads a tenth of `metrics` for one of ten. Each batch is its own transaction: one around all of them would keep
them in memory, and who reads sees the whole anyway, since it is a copy that is changed.
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
"""What in the name of a file to read DuckDB takes for any letters; within brackets it is itself."""

FILES_AT_ONCE = 500
BYTES_AT_ONCE = 16 * 2**20
"""Of sealed files: some two million rows, which are some ten times as much in memory."""

KEYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(OF_PLANS, ("space", "plans")),
    **dict.fromkeys(["trials", "metrics", "summaries", "timings"], ("trial_id", "trials")),
    "versions": ("versions_id", "versions"),
}
"""For each table the key by which its rows are replaced, and the table that has every changed key."""

OF_ROWS = ("metrics", "summaries", "timings")
"""The large tables: most trials that change have nothing in them yet, and then they are not searched for it."""

WITH_ROWS = "SELECT DISTINCT trial_id FROM {schema}.timings WHERE name = 'began'"
"""The trials whose rows a database has: whoever has ended has begun."""


def load(connection: duckdb.DuckDBPyConnection, changes: Changes, schema: str = "main") -> None:
    """Replace, in a schema that is the current one, all rows of the spaces and trials that changed."""
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
    """Whether one of the trials that changed has rows in a schema already."""
    connection.register("owners", changes.tables["trials"])
    found = connection.execute(f"FROM owners SEMI JOIN ({WITH_ROWS.format(schema=schema)}) USING (trial_id) LIMIT 1")
    replaced = bool(found.fetchall())
    connection.unregister("owners")
    return replaced


def _batches(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The files in their order, so many at a time."""
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
        # Every byte was as sealed a moment ago: somebody has moved a file, or the disk does not give it back.
        raise RefusedError(
            f"cannot read a sealed trial: {error}\n  = `ablate doctor` finds it; run it first"
        ) from error
    connection.execute("DROP VIEW incoming")


def _live_rows(live: Mapping[str, Segment]) -> pyarrow.Table:
    rows = [
        row
        for trial_id, found in live.items()
        for row in (
            *((trial_id, "row", step, metric, address, value) for step, metric, address, value in found.rows),
            *((trial_id, "timing", step, name, "", seconds) for step, name, seconds in found.timings),
        )
    ]
    return table_of(sealed.SCHEMA, rows)


def _spread(connection: duckdb.DuckDBPyConnection) -> None:
    """Put what is in `incoming` where it belongs."""
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
