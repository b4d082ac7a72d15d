"""What a damaged folder gets back from its own DuckDB file, each thing proven by the digest that was recorded of it.

The DuckDB file is a copy of the journal, so most of what one damaged file has lost is there once more. Nothing is
believed for being there: rows must have the digest that the index lists, a plan the digest it was kept under.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow

from ablate.errors import RefusedError
from ablate.store import ledger, sealed
from ablate.store.describe import digest
from ablate.store.ending import Ending
from ablate.store.projection import DATABASE, reading

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


def records(folder: Path, trials: Collection[str], spaces: Collection[str]) -> list[list[Any]]:
    """The lines of these specifications and plans, as far as they are to be had."""
    if not trials and not spaces:
        return []
    try:
        with reading(folder / DATABASE) as connection:
            return [*_specifications(connection, trials), *_plans(connection, spaces)]
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


def _plans(connection: duckdb.DuckDBPyConnection, spaces: Collection[str]) -> Iterator[list[Any]]:
    for space in sorted(spaces):
        document = _plan(connection, space)
        (kept,) = connection.execute("SELECT plan_digest FROM spaces WHERE space = ?", [space]).fetchone() or ("",)
        if digest(document) == kept:
            yield ledger.plan_record(kept, document)


def _plan(connection: duckdb.DuckDBPyConnection, space: str) -> dict[str, Any]:
    """A plan as `describe.plan_document` made it; keys in that order, since the digest is of the text."""
    (head,) = _rows(
        connection,
        "SELECT space, question, design, baseline, seeds, notes, source, resolved, corpus, open, looks, factors"
        " FROM spaces",
        space,
    )
    variants = (
        "SELECT variant_id AS id, variant AS name, names, edits, parameters, flops, spared, block, terms, setting,"
        " breaks FROM variants"
    )
    comparisons = "SELECT kind, change, detail, before_id AS before, after_id AS after, weights, terms FROM comparisons"
    proposals = "SELECT k, derivation, variant_id AS variant, repeat, choices, random FROM proposals"
    memberships = _rows(connection, "SELECT trial_id, variant_id, seed FROM memberships", space, "rowid")
    return {
        **{name: head[name] for name in ("space", "question", "design", "baseline", "seeds", "notes")},
        "variants": [_given(row, "setting", "breaks") for row in _rows(connection, variants, space, "position")],
        "comparisons": [_given(row, "weights") for row in _rows(connection, comparisons, space, "position")],
        "trials": [list(row.values()) for row in memberships],
        "proposals": _rows(connection, proposals, space, "k"),
        "open": head["open"],
        **_given({name: head[name] for name in ("looks", "factors")}, "factors"),
        "source": head["source"],
        "resolved": json.loads(head["resolved"]),
        "definitions": _rows(connection, "SELECT metric, definition, source FROM definitions", space, "rowid"),
        "corpus": json.loads(head["corpus"]),
    }


def _given(row: Mapping[str, Any], *documents: str) -> dict[str, Any]:
    """What is there of a row, and of it some as documents."""
    there = {name: value for name, value in row.items() if value is not None}
    return {name: json.loads(value) if name in documents else value for name, value in there.items()}


def _rows(connection: duckdb.DuckDBPyConnection, select: str, space: str, order: str = "space") -> list[dict[str, Any]]:
    found = connection.execute(f"{select} WHERE space = ? ORDER BY {order}", [space])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
