"""A trial that has ended: `trials/<trial>.parquet`, its rows and timings, with its `Ending` in the file's metadata.

Columns: trial_id, kind (`row` or `timing`), step, metric (or the timing's name), address, value (or seconds); sorted by
kind, step, metric and address, so that the same numbers are the same file whatever order they came in.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from ablate.store.durable import UNFINISHED, put_in_place, writing
from ablate.store.ending import Ending
from ablate.store.lines import compact
from ablate.store.segment import Segment

FOLDER = "trials"
SCHEMA = pyarrow.schema(
    [
        ("trial_id", pyarrow.string()),
        ("kind", pyarrow.string()),
        ("step", pyarrow.int64()),
        ("metric", pyarrow.string()),
        ("address", pyarrow.string()),
        ("value", pyarrow.float64()),
    ]
)
METADATA_KEY = b"ablate"


def path_of(folder: Path, trial_id: str) -> Path:
    """Where an ended trial is."""
    return folder / FOLDER / f"{trial_id}.parquet"


def table(segment: Segment) -> pyarrow.Table:
    """The rows and timings of a segment as a sorted table; two rows of one (step, metric, address) are a ValueError."""
    rows, timings = segment.rows, segment.timings
    columns = {
        "trial_id": [segment.beginning.trial_id] * (len(rows) + len(timings)),
        "kind": ["row"] * len(rows) + ["timing"] * len(timings),
        "step": [row[0] for row in rows] + [timing[0] for timing in timings],
        "metric": [row[1] for row in rows] + [timing[1] for timing in timings],
        "address": [row[2] for row in rows] + [""] * len(timings),
        "value": [row[3] for row in rows] + [timing[2] for timing in timings],
    }
    keys = Counter(row[:3] for row in rows)
    if len(keys) < len(rows):
        (double, _), *_ = keys.most_common(1)
        raise ValueError(f"trial {segment.beginning.trial_id} yielded two rows of step, metric, address {double}")
    order = [(name, "ascending") for name in ("kind", "step", "metric", "address")]
    return pyarrow.table(columns, schema=SCHEMA).sort_by(order)


def write(folder: Path, segment: Segment) -> Ending:
    """Write the file of a segment that has an outcome; how it ended."""
    if segment.outcome is None or segment.ended is None:
        raise ValueError(f"trial {segment.beginning.trial_id} has not ended")
    content = table(segment)
    ending = Ending(
        trial_id=segment.beginning.trial_id,
        attempt=segment.beginning.attempt,
        outcome=segment.outcome,
        rows=len(segment.rows),
        digest=digest(content),
        began=segment.beginning.began,
        ended=segment.ended,
        versions=segment.beginning.versions,
    )
    path = path_of(folder, ending.trial_id)
    unfinished = path.with_name(path.name + UNFINISHED)
    with writing(path):
        path.parent.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(
            content.replace_schema_metadata({METADATA_KEY: compact(ending.document()).encode()}),
            unfinished,
            compression="zstd",
        )
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        put_in_place(unfinished, path)
    return ending


def read_ending(path: Path) -> Ending | None:
    """How the trial of a sealed file ended; None if the file cannot be read as one of ours."""
    try:
        metadata = pyarrow.parquet.read_schema(path).metadata or {}
        return Ending.of(json.loads(metadata[METADATA_KEY]))
    except (pyarrow.ArrowInvalid, KeyError, ValueError, OSError):
        return None


def digest(content: pyarrow.Table) -> str:
    """SHA-256 over the rows in order; timings have no part in it."""
    rows = content.filter(pyarrow.compute.equal(content["kind"], "row"))
    total = hashlib.sha256()
    total.update(numpy.asarray(rows["step"], dtype="<i8").tobytes())
    for name in ("metric", "address"):
        total.update("\0".join(rows[name].to_pylist()).encode())
    total.update(numpy.asarray(rows["value"], dtype="<f8").tobytes())
    return total.hexdigest()
