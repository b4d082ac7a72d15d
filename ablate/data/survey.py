"""The files of a source by name, size and time, and the stamp that shows that nothing changed since they were read."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SETTLED_AFTER_NS = 2_000_000_000
"""A file younger than this could change again without a change of its size or time (file systems have coarse clocks),
so it gets no stamp yet. Git treats its index likewise."""


@dataclass(frozen=True, slots=True, order=True)
class FoundFile:
    """A file: its name within the corpus, its path, its size in bytes and its modification time in nanoseconds.

    A file without a status (a dangling link) has size and time -1.
    """

    name: str
    path: Path
    size: int
    changed: int


def look_at(name: str, path: Path) -> FoundFile:
    """Return the file at `path`, following links."""
    try:
        status = path.stat()
    except OSError:
        return FoundFile(name, path, -1, -1)
    return FoundFile(name, path, status.st_size, status.st_mtime_ns)


def stamp_of(files: Iterable[FoundFile]) -> str | None:
    """Hash names, sizes and times; None while a file is too young to be trusted."""
    known = sorted(files)
    youngest = max((file.changed for file in known), default=0)
    if youngest > time.time_ns() - SETTLED_AFTER_NS:
        return None
    described = json.dumps([(file.name, file.size, file.changed) for file in known])
    return hashlib.sha256(described.encode()).hexdigest()
