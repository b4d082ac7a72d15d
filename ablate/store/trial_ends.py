"""How trials ended, and with which numbers, according to the journal at this moment: read without a lock."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from ablate.store.query import query

STATEMENT = """
    SELECT t.trial_id, t.status, t.ended_step, t.versions_id, s.name, s.value
    FROM trials t LEFT JOIN numbers s USING (trial_id)
    WHERE t.trial_id IN (SELECT unnest($trials)) AND t.digest IS NOT NULL ORDER BY t.trial_id, s.name
"""


def ends_now(folder: Path, trial_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return what `projection.finals` does, including what the DuckDB file lacks, such as after a killed driver."""
    ends: dict[str, dict[str, Any]] = {}
    for trial_id, status, step, versions, name, value in query(
        folder, STATEMENT, parameters={"trials": sorted(trial_ids)}
    ).rows:
        end = ends.setdefault(trial_id, {"status": status, "step": step, "metrics": {}, "versions": versions})
        if name is not None:
            end["metrics"][name] = value
    return ends
