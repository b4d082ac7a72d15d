"""What a damaged folder can recover from its own DuckDB file, each thing verified by its recorded digest.

The DuckDB file is a copy of the journal, so it still has most of what a damaged file has lost. Nothing is used
unverified: rows must have the digest that the index lists, a plan the digest that it was kept under.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow

from ablate.errors import RefusedError
from ablate.store import ledger, sealed
from ablate.store.ending import Ending
from ablate.store.projection import DATABASE, reading
from ablate.store.serialise import digest

CONTENT = """
    SELECT trial_id, 'row' AS kind, step, metric, address, value FROM metrics WHERE trial_id = $1
    UNION ALL
    SELECT trial_id, 'timing', step, name, '', seconds FROM timings
    WHERE trial_id = $1 AND name NOT IN ('began', 'ended')
    ORDER BY kind, step, metric, address
"""


def content(folder: Path, ending: Ending) -> pyarrow.Table | None:
    """Return the rows and timings of an ended trial as they were sealed; None unless they have the recorded digest."""
    try:
        with reading(folder / DATABASE) as connection:
            rows = connection.sql(CONTENT, params=[ending.trial_id]).to_arrow_table().cast(sealed.SCHEMA)
    except (RefusedError, duckdb.Error):
        return None
    return rows if sealed.digest(rows) == ending.digest else None


def trial(folder: Path, ending: Ending) -> Ending | None:
    """Seal an ended trial again from its rows; None if they are not available."""
    rows = content(folder, ending)
    return None if rows is None else sealed.put(folder, ending, rows)


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan as the database has it; `document` is None where its digest is wrong."""

    space: str
    id: str
    digest: str
    document: Mapping[str, Any] | None

    def record(self) -> list[Any]:
        """Return its line; ValueError where it has no document."""
        if self.document is None:
            raise ValueError(f"plan {self.id} is not as it was kept")
        return ledger.plan_record(self.digest, self.document)


def records(folder: Path, trials: Collection[str], spaces: Collection[str]) -> list[list[Any]]:
    """Return the lines of these specifications and of all plans of these spaces, as far as available."""
    whole = [plan for plan in plans(folder, spaces) if plan.document is not None]
    return [*specifications(folder, trials), *(plan.record() for plan in whole)]


def specifications(folder: Path, trials: Collection[str]) -> list[list[Any]]:
    """Return the lines of these specifications, as far as available."""
    if not trials:
        return []
    try:
        with reading(folder / DATABASE) as connection:
            return list(_specifications(connection, trials))
    except (RefusedError, duckdb.Error):
        return []


def plans(folder: Path, spaces: Collection[str]) -> list[StoredPlan]:
    """Return all plans of these spaces, the current one of a space after the others."""
    if not spaces:
        return []
    try:
        with reading(folder / DATABASE) as connection:
            return list(_plans(connection, spaces))
    except (RefusedError, duckdb.Error):
        return []


def _specifications(connection: duckdb.DuckDBPyConnection, trials: Collection[str]) -> Iterator[list[Any]]:
    rows = connection.execute(
        "SELECT specification FROM trials WHERE trial_id IN (SELECT unnest(?)) AND specification IS NOT NULL"
        " ORDER BY trial_id",
        [list(trials)],
    )
    for (specification,) in rows.fetchall():
        yield ledger.trial_record(json.loads(specification))


def _plans(connection: duckdb.DuckDBPyConnection, spaces: Collection[str]) -> Iterator[StoredPlan]:
    rows = connection.execute(
        "SELECT space, plan, plan_digest, document FROM plans WHERE space IN (SELECT unnest(?))"
        " ORDER BY space, current, first_seen NULLS FIRST, plan",
        [list(spaces)],
    )
    for space, id, kept, written in rows.fetchall():
        document = json.loads(written)
        yield StoredPlan(space, id, kept, document if digest(document) == kept else None)
