"""Text lines with a checksum: eight hex digits of CRC-32, a space, compact JSON, a newline.

Lines are appended and never changed. What follows the last whole line is a torn tail: the writer was killed while
writing it, and it is cut off. A line that fails its checksum *before* a whole one was damaged later, and is reported.

JSON has no NaN or infinities: they are written as the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ablate.errors import RefusedError
from ablate.store.durable import reading, sync_folder, writing


@dataclass(frozen=True)
class Reading:
    """The whole lines of a file: the JSON text of each in `bodies`, and the offset where each `ends`.

    `torn` counts the bytes after the last whole line; `damaged` are the numbers (from 1) of broken lines before it, and
    `sound` is the offset up to which every line is whole.
    """

    bodies: tuple[bytes, ...] = ()
    ends: tuple[int, ...] = ()
    torn: int = 0
    damaged: tuple[int, ...] = ()
    sound: int = 0
    path: Path = Path()

    @cached_property
    def records(self) -> tuple[Any, ...]:
        """The content of every line, parsed on first access."""
        try:
            return tuple(json.loads(b"[%b]" % b",".join(self.bodies)))  # one call is twice as fast as one per line
        except (ValueError, RecursionError) as error:
            raise RefusedError(
                f"{self.path} has a whole line that is not JSON ({error})\n"
                "  = no version of ablate writes that: remove the line, or choose another folder with --results"
            ) from None


def compact(value: Any) -> str:
    """Return one line of strict JSON, keys in the given order."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def number(value: Any) -> Any:
    """Convert NaN and infinities, which JSON holds as text, back."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def encode(record: Any) -> bytes:
    """Return the line of a record.

    >>> encode([1, "a"])
    b'86efd9f5 [1,"a"]\\n'
    """
    body = compact(record).encode()
    return b"%08x %b\n" % (zlib.crc32(body), body)


def read(path: Path) -> Reading:
    """Read every whole line of `path`; none if there is no file."""
    bodies: list[bytes] = []
    ends: list[int] = []
    broken: list[int] = []
    damaged: list[int] = []
    length = sound = 0
    try:
        with reading(path), path.open("rb") as file:
            for number, line in enumerate(file, 1):
                length += len(line)
                body = line[9:-1]
                if not (body and line.endswith(b"\n") and line.startswith(b"%08x " % zlib.crc32(body))):
                    broken.append(number)
                    continue
                damaged += broken  # only now is it known that they are not the torn tail
                broken.clear()
                bodies.append(body)
                ends.append(length)
                sound = sound if damaged else length
    except FileNotFoundError:
        return Reading(path=path)
    torn = length - (ends[-1] if ends else 0)
    return Reading(tuple(bodies), tuple(ends), torn, tuple(damaged), sound, path)


class Appender:
    """Appends to a file of lines. `write` hands lines to the system; `sync` makes them survive a loss of power."""

    def __init__(self, path: Path):
        self.path = path
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            sync_folder(path.parent)
        self._unsynced = False

    def write(self, records: Iterable[Any]) -> None:
        """Append every record or, if writing fails, none of them."""
        content = b"".join(map(encode, records))
        before = os.fstat(self._descriptor).st_size
        with writing(self.path):
            try:
                written = 0
                while written < len(content):
                    written += os.write(self._descriptor, content[written:])
            except OSError:
                os.ftruncate(self._descriptor, before)
                raise
        self._unsynced = True

    def sync(self) -> None:
        if self._unsynced:
            with writing(self.path):
                os.fsync(self._descriptor)
            self._unsynced = False

    def close(self) -> None:
        try:
            self.sync()
        finally:
            os.close(self._descriptor)


def cut(path: Path, length: int) -> None:
    """Truncate a file to its first `length` bytes, durably."""
    with writing(path), path.open("r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _finite(child) for key, child in value.items()}
        case list() | tuple():
            return [_finite(child) for child in value]
    return value
