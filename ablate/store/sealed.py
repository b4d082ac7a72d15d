"""A trial that has ended: `trials/<trial>.parquet`, its rows and timings, with its `Ending` in the file's metadata.

Columns: trial_id, kind (`row` or `timing`), step, metric (or the timing's name), address, value (or seconds); sorted by
kind, step, metric and address, so that the same numbers give the same file in whatever order they came.

The index has the length and the CRC-32 of each file, so that any changed byte is noticed before a number is used.
Where the index is lost the file verifies itself: its metadata by a checksum, its rows by the digest in the metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from ablate.errors import RefusedError
from ablate.store.checksummed_lines import compact
from ablate.store.durable import set_aside, write_whole, writing
from ablate.store.ending import Ending
from ablate.store.open_trial import Segment
from ablate.store.records import EndedRecord, ForeignError, understood

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
ORDER = tuple((name, "ascending") for name in ("kind", "step", "metric", "address"))
METADATA_KEY, CHECKSUM_KEY = b"ablate", b"ablate.crc32"
GONE = "is gone"


class DamagedError(RefusedError):
    """A sealed file has changed since it was sealed. The text says what is wrong with it and the way out."""

    def __init__(self, folder: Path, trial_id: str, fault: str):
        super().__init__(
            f"the sealed file {path_of(folder, trial_id)} {fault}\n"
            f"  = `ablate doctor --results {folder}` puts it aside and recovers what it can"
        )
        self.trial_id = trial_id


@dataclass(frozen=True, slots=True)
class Examined:
    """The result of examining a sealed file: how its trial ended, with the file's checksum, or what is wrong."""

    ending: Ending | None
    fault: str = ""


def path_of(folder: Path, trial_id: str) -> Path:
    """Return the path of an ended trial."""
    return folder / FOLDER / f"{trial_id}.parquet"


def sizes(folder: Path) -> dict[str, int]:
    """Return the trials that have a sealed file, and its length in bytes."""
    try:
        with os.scandir(folder / FOLDER) as entries:
            return {e.name[: -len(".parquet")]: e.stat().st_size for e in entries if e.name.endswith(".parquet")}
    except FileNotFoundError:
        return {}


def table(segment: Segment) -> pyarrow.Table:
    """Return the rows and timings of a segment as a sorted table; ValueError for duplicate (step, metric, address)."""
    rows, timings = segment.rows, segment.timings
    columns = {
        "trial_id": [segment.beginning.trial_id] * (len(rows) + len(timings)),
        "kind": ["row"] * len(rows) + ["timing"] * len(timings),
        "step": [row[0] for row in rows] + [timing[0] for timing in timings],
        "metric": [row[1] for row in rows] + [timing[1] for timing in timings],
        "address": [row[2] for row in rows] + [""] * len(timings),
        "value": [row[3] for row in rows] + [timing[2] for timing in timings],
    }
    if key := double(segment):
        raise ValueError(f"trial {segment.beginning.trial_id} yielded two rows of step, metric, address {key}")
    return pyarrow.table(columns, schema=SCHEMA).sort_by(list(ORDER))


def double(segment: Segment) -> tuple[int, str, str] | None:
    """Return a (step, metric, address) that a segment has two rows of; None if there is none."""
    keys = Counter(row[:3] for row in segment.rows)
    return keys.most_common(1)[0][0] if len(keys) < len(segment.rows) else None


def write(folder: Path, segment: Segment) -> Ending:
    """Write the file of a segment that has an outcome, and return how it ended.

    RefusedError if a line of the segment was damaged after it was written: rows would be missing.
    """
    if segment.outcome is None or segment.ended is None:
        raise ValueError(f"trial {segment.beginning.trial_id} has not ended")
    if segment.damaged:
        raise RefusedError(
            f"the journal of trial {segment.beginning.trial_id} was damaged while it was being written, in line "
            f"{', '.join(map(str, segment.damaged))}\n"
            "  = run again: the trial continues from where its journal is whole; and check that disk"
        )
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
    return put(folder, ending, content)


def put(folder: Path, ending: Ending, content: pyarrow.Table) -> Ending:
    """Write the file of an ended trial from its sorted rows and timings; return the ending with the file's checksum."""
    text = compact(replace(ending, file=None).document()).encode()
    metadata = {METADATA_KEY: text, CHECKSUM_KEY: b"%08x" % zlib.crc32(text)}
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(content.replace_schema_metadata(metadata), buffer, compression="zstd")
    written = buffer.getvalue().to_pybytes()
    path = path_of(folder, ending.trial_id)
    with writing(path.parent):
        path.parent.mkdir(exist_ok=True)
    write_whole(path, written)
    return replace(ending, file=_sum(written))


def is_whole(folder: Path, ending: Ending) -> bool:
    """Return whether the file has the bytes that were sealed; one so old that no checksum was kept is read through."""
    path = path_of(folder, ending.trial_id)
    if ending.file is None:
        return examine(path, ending).ending is not None
    try:
        return _sum(path.read_bytes()) == ending.file
    except OSError:
        return False


def whole(folder: Path, ending: Ending) -> Path:
    """Return the verified file of an ended trial; a DamagedError if it is damaged."""
    if not is_whole(folder, ending):
        path = path_of(folder, ending.trial_id)
        examined = examine(path, ending)
        if examined.ending is None:
            raise DamagedError(folder, ending.trial_id, examined.fault)
    return path_of(folder, ending.trial_id)


def examine(path: Path, listed: Ending | None) -> Examined:
    """Read a sealed file through and verify it against the ending that the index lists.

    A file of a later attempt than the listed one is whole if it verifies itself.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Examined(None, GONE)
    except OSError as error:
        return Examined(None, f"cannot be read: {error.strerror}")
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        ending = _ending(file.schema_arrow.metadata or {}, path)
        same = listed is not None and listed.file in (None, _sum(content)) and ending == replace(listed, file=None)
        later = listed is None or ending.attempt > listed.attempt
        if not (same or later):
            return Examined(None, "is not as it was sealed: some of its bytes have changed")
        return _rows_fault(file, path, ending) or Examined(replace(ending, file=_sum(content)))
    except (pyarrow.ArrowException, OSError, KeyError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        return Examined(None, f"cannot be read: {reason[:200]}" if content else "is empty")


def quarantine(folder: Path, trial_id: str) -> Path:
    """Move a sealed file to `damaged/` and return its new path. Its trial is then no longer known."""
    return set_aside(folder, path_of(folder, trial_id))


def digest(content: pyarrow.Table) -> str:
    """Return the SHA-256 over the rows in order, timings excluded."""
    rows = content.filter(pyarrow.compute.equal(content["kind"], "row"))
    total = hashlib.sha256()
    total.update(numpy.asarray(rows["step"], dtype="<i8").tobytes())
    for name in ("metric", "address"):
        total.update("\0".join(rows[name].to_pylist()).encode())
    total.update(numpy.asarray(rows["value"], dtype="<f8").tobytes())
    return total.hexdigest()


def _rows_fault(file: pyarrow.parquet.ParquetFile, path: Path, ending: Ending) -> Examined | None:
    content = file.read(use_threads=False)
    if not content.schema.equals(SCHEMA):
        return Examined(None, "has other columns than a sealed trial")
    if {ending.trial_id} != {path.stem, *content["trial_id"].unique().to_pylist()}:
        return Examined(None, f"is of another trial, {ending.trial_id}")
    if digest(content) != ending.digest:
        return Examined(None, "has other numbers than were sealed")
    return None


def _ending(metadata: dict[bytes, bytes], path: Path) -> Ending:
    """Return how the trial of a sealed file ended, by its metadata; ValueError or KeyError if that is damaged."""
    text = metadata[METADATA_KEY]
    if CHECKSUM_KEY in metadata and metadata[CHECKSUM_KEY] != b"%08x" % zlib.crc32(text):
        raise ValueError("the record of its trial's end has changed since it was sealed")
    try:
        return Ending.of(understood(EndedRecord, json.loads(text), path))
    except ForeignError as error:
        if CHECKSUM_KEY in metadata:
            raise
        raise ValueError(str(error).partition("\n")[0]) from None  # it may be damaged or from another version


def _sum(content: bytes) -> tuple[int, int]:
    return len(content), zlib.crc32(content)
