"""A trial that has ended: `trials/<trial>.parquet`, its rows and timings, with its `Ending` in the file's metadata.

Columns: trial_id, kind (`row` or `timing`), step, metric (or the timing's name), address, value (or seconds); sorted by
kind, step, metric and address, so that the same numbers give the same file in whatever order they came.

A file is verified by the length and digest in the witness, else its metadata by a checksum and its rows by the digest.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from ablate.errors import RefusedError
from ablate.store.documents import Specification
from ablate.store.durable import compact
from ablate.store.files import GONE, Ending, ForeignError, Written, digest_of, ending_of, name_of, path_of, put_listed
from ablate.store.journal import Segment

TEXT, STEP, VALUE = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
SCHEMA = pyarrow.schema({"trial_id": TEXT, "kind": TEXT, "step": STEP, "metric": TEXT, "address": TEXT, "value": VALUE})
ORDER = tuple((name, "ascending") for name in ("kind", "step", "metric", "address"))
METADATA_KEY, CHECKSUM_KEY, SPECIFICATION_KEY = b"ablate", b"ablate.crc32", b"ablate.specification"


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
    """A sealed file as it is, or its fault; `specification` is None in files of earlier versions."""

    written: Written | None
    fault: str = ""
    specification: Specification | None = None

    @property
    def ending(self) -> Ending | None:
        return None if self.written is None else self.written.ending


def rows_of(segment: Segment) -> pyarrow.Table:
    rows, timings = segment.rows, segment.timings
    columns = {
        "trial_id": [segment.beginning.trial] * (len(rows) + len(timings)),
        "kind": ["row"] * len(rows) + ["timing"] * len(timings),
        "step": [row[0] for row in rows] + [timing[0] for timing in timings],
        "metric": [row[1] for row in rows] + [timing[1] for timing in timings],
        "address": [row[2] for row in rows] + [""] * len(timings),
        "value": [row[3] for row in rows] + [timing[2] for timing in timings],
    }
    return pyarrow.table(columns, schema=SCHEMA)


def table(segment: Segment) -> pyarrow.Table:
    """Return the same as a sorted table; ValueError for duplicate (step, metric, address)."""
    if key := double(segment):
        raise ValueError(f"trial {segment.beginning.trial} yielded two rows of step, metric, address {key}")
    return rows_of(segment).sort_by(list(ORDER))


def double(segment: Segment) -> tuple[int, str, str] | None:
    """Return a (step, metric, address) that a segment has two rows of; None if there is none."""
    keys = Counter(row[:3] for row in segment.rows)
    return keys.most_common(1)[0][0] if len(keys) < len(segment.rows) else None


def write(folder: Path, segment: Segment) -> Ending:
    """Write the file of a segment with an outcome, and return its ending; RefusedError if a line of it was damaged, so
    that rows would be missing."""
    beginning = segment.beginning
    if segment.outcome is None or segment.ended is None:
        raise ValueError(f"trial {beginning.trial} has not ended")
    if segment.damaged:
        raise RefusedError(
            f"the journal of trial {beginning.trial} was damaged while it was being written, in line "
            f"{', '.join(map(str, segment.damaged))}\n"
            "  = run again: the trial continues from where its journal is whole; and check that disk"
        )
    content = table(segment)
    ending = Ending(
        trial=beginning.trial,
        attempt=beginning.attempt,
        **asdict(segment.outcome),
        rows=len(segment.rows),
        digest=digest(content),
        began=beginning.began,
        ended=segment.ended,
        versions=beginning.versions,
    )
    put(folder, ending, content, beginning.specification)
    return ending


def put(folder: Path, ending: Ending, content: pyarrow.Table, specification: Specification | None) -> None:
    """Write the file of an ended trial from its sorted rows and timings, and let the witness list it."""
    put_listed(folder, name_of(ending.trial), encoded(ending, content, specification), ending=ending)


def encoded(ending: Ending, content: pyarrow.Table, specification: Specification | None) -> bytes:
    text = compact(asdict(ending)).encode()
    specified = compact(specification).encode() if specification else b""
    metadata = {METADATA_KEY: text, CHECKSUM_KEY: b"%08x" % zlib.crc32(text + specified)}
    metadata |= {SPECIFICATION_KEY: specified} if specified else {}
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(content.replace_schema_metadata(metadata), buffer, compression="zstd")
    return bytes(buffer.getvalue().to_pybytes())


def whole(folder: Path, trial_id: str, listed: Written | None) -> Path:
    """Return the verified file of an ended trial; a DamagedError if it is damaged."""
    examined = examine(folder, trial_id, listed)
    if examined.written is None:
        raise DamagedError(folder, trial_id, examined.fault)
    return path_of(folder, trial_id)


def examine(folder: Path, trial_id: str, listed: Written | None) -> Examined:
    """Verify every byte of a sealed file against the witness; if that lists none, or an earlier attempt, by itself."""
    path = path_of(folder, trial_id)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Examined(None, GONE)
    except OSError as error:
        return Examined(None, f"cannot be read: {error.strerror}")
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        metadata = file.schema_arrow.metadata or {}
        ending = _ending(metadata, path)
        written = Written(name_of(trial_id), len(content), digest_of(content), ending)
        specification = json.loads(metadata[SPECIFICATION_KEY]) if SPECIFICATION_KEY in metadata else None
        if listed is not None and listed.has(content):
            return Examined(written, "", specification)
        known = None if listed is None else listed.ending
        exact = listed is not None and bool(listed.digest)
        if known and ending.attempt <= known.attempt and (exact or ending != known):
            return Examined(None, "is not as it was sealed: some of its bytes have changed")
        return _rows_fault(file, path, ending) or Examined(written, "", specification)
    except (pyarrow.ArrowException, OSError, KeyError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        return Examined(None, f"cannot be read: {reason[:200]}" if content else "is empty")


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
    if {ending.trial} != {path.stem, *content["trial_id"].unique().to_pylist()}:
        return Examined(None, f"is of another trial, {ending.trial}")
    if digest(content) != ending.digest:
        return Examined(None, "has other numbers than were sealed")
    return None


def _ending(metadata: Mapping[bytes, bytes], path: Path) -> Ending:
    """Return how the trial of a sealed file ended, by its metadata; ValueError or KeyError if that is damaged."""
    text = metadata[METADATA_KEY]
    sealed = CHECKSUM_KEY in metadata
    if sealed and metadata[CHECKSUM_KEY] != b"%08x" % zlib.crc32(text + metadata.get(SPECIFICATION_KEY, b"")):
        raise ValueError("the record of its trial's end has changed since it was sealed")
    try:
        return ending_of(json.loads(text), path)
    except ForeignError as foreign:
        if sealed:
            raise
        raise ValueError(foreign.fault) from None  # damaged, or of another version
