"""What a damaged folder gets back from its own DuckDB file, each thing proven by the digest that was recorded of it.

The DuckDB file is a copy of the journal, so most of what one damaged file has lost is there once more. Nothing is
believed for being there: rows must have the digest that the index lists, a plan the digest it was kept under.
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
    """The rows and timings of an ended trial as they were sealed; None unless their digest is the recorded one."""
    try:
        with reading(folder / DATABASE) as connection:
            found = connection.sql(CONTENT, params=[ending.trial_id]).to_arrow_table().cast(sealed.SCHEMA)
    except (RefusedError, duckdb.Error):
        return None
    return found if sealed.digest(found) == ending.digest else None


def trial(folder: Path, ending: Ending) -> Ending | None:
    """Seal an ended trial once more from its rows; None if they are not to be had."""
    found = content(folder, ending)
    return None if found is None else sealed.put(folder, ending, found)


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan as the database has it; no `document` where that is not the one it was kept as."""

    space: str
    id: str
    digest: str
    document: Mapping[str, Any] | None

    def record(self) -> list[Any]:
        """Its line; ValueError where it has no document."""
        if self.document is None:
            raise ValueError(f"plan {self.id} is not as it was kept")
        return ledger.plan_record(self.digest, self.document)


def records(folder: Path, trials: Collection[str], spaces: Collection[str]) -> list[list[Any]]:
    """The lines of these specifications and of all plans of these spaces, as far as they are to be had."""
    whole = [plan for plan in plans(folder, spaces) if plan.document is not None]
    return [*specifications(folder, trials), *(plan.record() for plan in whole)]


def specifications(folder: Path, trials: Collection[str]) -> list[list[Any]]:
    """The lines of these specifications, as far as they are to be had."""
    if not trials:
        return []
    try:
        with reading(folder / DATABASE) as connection:
            return list(_specifications(connection, trials))
    except (RefusedError, duckdb.Error):
        return []


def plans(folder: Path, spaces: Collection[str]) -> list[StoredPlan]:
    """All plans of these spaces, the one that a space was last asked as behind the others."""
    if not spaces:
        return []
    try:
        with reading(folder / DATABASE) as connection:
            return list(_plans(connection, spaces))
    except (RefusedError, duckdb.Error):
        return []


def _specifications(connection: duckdb.DuckDBPyConnection, trials: Collection[str]) -> Iterator[list[Any]]:
    found = connection.execute(
        "SELECT specification FROM trials WHERE trial_id IN (SELECT unnest(?)) AND specification IS NOT NULL"
        " ORDER BY trial_id",
        [list(trials)],
    )
    for (specification,) in found.fetchall():
        yield ledger.trial_record(json.loads(specification))


def _plans(connection: duckdb.DuckDBPyConnection, spaces: Collection[str]) -> Iterator[StoredPlan]:
    found = connection.execute(
        "SELECT space, plan, plan_digest, document FROM plans WHERE space IN (SELECT unnest(?))"
        " ORDER BY space, current, first_seen NULLS FIRST, plan",
        [list(spaces)],
    )
    for space, id, kept, written in found.fetchall():
        document = json.loads(written)
        yield StoredPlan(space, id, kept, document if digest(document) == kept else None)
