"""Text lines with a checksum: eight hex digits of CRC-32, a space, compact JSON.

Lines are appended and never changed. What follows the last whole line is a torn tail: the writer was killed while
writing it, and it is cut off. A line that fails its checksum *before* a whole one was damaged later, and is reported.
The checksum alone decides whether a line is whole: one whose newline is lost, at the end or before the next line, is
kept.

JSON has no NaN or infinities: they are written as the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ablate.errors import RefusedError
from ablate.store.durable import reading, sync_folder, writing

HEAD = re.compile(rb'[0-9a-f]{8} [\[{]"')
"""The beginning of a line. Nothing within a whole line matches: in JSON strings a quote has a backslash before it, and
outside of them there are no spaces.
"""

CLOSING = re.compile(rb"[\]}]")
"""The possible last byte of a line."""


@dataclass(frozen=True)
class Reading:
    """The whole lines of a file: the JSON text of each in `bodies`, the offset where each `ends`, and its number in the
    file (from 1), which two lines share if the newline between them is lost.

    `torn` counts the bytes after the last whole line, `rest` those of them that no newline follows; `damaged` are the
    numbers of broken lines before it, `behind` of terminated ones after it, `joined` of whole ones without a newline.
    """

    bodies: tuple[bytes, ...]
    ends: tuple[int, ...]
    torn: int
    damaged: tuple[int, ...]
    path: Path = Path()
    numbers: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    rest: int = 0
    joined: tuple[int, ...] = ()

    @cached_property
    def records(self) -> tuple[Any, ...]:
        """The content of every line, parsed on first access; where few of many lines are needed, use `bodies`."""
        try:
            return tuple(json.loads(b"[%b]" % b",".join(self.bodies)))  # one call is twice as fast as one per line
        except (ValueError, RecursionError) as error:
            raise RefusedError(
                f"{self.path} has a whole line that is not JSON ({error})\n"
                "  = no version of ablate writes that: remove the line, or choose another folder with --results"
            ) from None


NOTHING = Reading((), (), 0, ())


def compact(value: Any) -> str:
    """Return one line of strict JSON, keys in the given order."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode(record: Any) -> bytes:
    """Return the line of a record.

    >>> encode([1, "a"])
    b'86efd9f5 [1,"a"]\\n'
    """
    return framed(compact(record).encode())


def framed(body: bytes) -> bytes:
    """Return the line of a JSON text."""
    return b"%08x %b\n" % (zlib.crc32(body), body)


def read(path: Path) -> Reading:
    """Read every whole line of `path`; none if there is no file."""
    lines = _Lines()
    try:
        with reading(path), path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if (body := _body(line)) is None:
                    lines.add_broken(number, line)
                else:
                    lines.add(number, body, len(line))
    except FileNotFoundError:
        return NOTHING
    return lines.reading(path)


class _Lines:
    """The lines read from a file so far."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []
        self._damaged: list[int] = []
        self._behind: list[int] = []
        self._joined: list[int] = []
        self._length = self._rest = 0

    def add(self, number: int, body: bytes, length: int) -> None:
        """Add a whole line with its newline."""
        self._length += length
        self._add(number, body, self._length)

    def add_broken(self, number: int, line: bytes) -> None:
        """Add a line that is not whole, or several joined in one."""
        begin, after, lost_newline, harmed = self._length, 0, False, False
        for start, stop, body in _whole_within(line):
            between = start - after  # a single byte may be a damaged newline
            lost_newline |= bool(after) and between < 2
            harmed |= between > (1 if after else 0)
            self._add(number, body, begin + stop)
            after = stop
        self._length = begin + len(line)
        complete = line.endswith(b"\n")
        left = len(line) - after - complete
        if complete and after and not left:
            self._ends[-1] = self._length
        self._rest = 0 if complete else left
        if harmed:
            self._damaged.append(number)
        elif complete and left:
            self._behind.append(number)
        elif lost_newline or not (complete or left):
            self._joined.append(number)

    def reading(self, path: Path) -> Reading:
        """Return everything read so far."""
        return Reading(
            bodies=tuple(self._bodies),
            ends=tuple(self._ends),
            torn=self._length - (self._ends[-1] if self._ends else 0),
            damaged=tuple(self._damaged),
            path=path,
            numbers=tuple(self._numbers),
            behind=tuple(self._behind),
            rest=self._rest,
            joined=tuple(self._joined),
        )

    def _add(self, number: int, body: bytes, end: int) -> None:
        self._bodies.append(body)
        self._ends.append(end)
        self._numbers.append(number)
        self._damaged += self._behind
        self._behind.clear()


class Appender:
    """Appends to a file of lines. `write` hands lines to the system; `sync` makes them survive a loss of power.

    A last line without a newline gets one first, so that nothing is appended to that line.
    """

    def __init__(self, path: Path):
        self.path = path
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            sync_folder(path.parent)
        self._unsynced = False
        self._looked = False

    def write(self, records: Iterable[Any]) -> None:
        """Append every record or, if writing fails, none of them."""
        content = b"".join(map(encode, records))
        before = os.fstat(self._descriptor).st_size
        if not self._looked:
            content = (b"" if ends_complete(self.path) else b"\n") + content
            self._looked = True
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
        """Wait until everything written is on the disk."""
        if self._unsynced:
            with writing(self.path):
                os.fsync(self._descriptor)
            self._unsynced = False

    def close(self) -> None:
        """Sync and close."""
        try:
            self.sync()
        finally:
            os.close(self._descriptor)


def end_last(path: Path) -> None:
    """Add a newline to a last line that has none, durably."""
    if ends_complete(path):
        return
    with writing(path), path.open("ab") as file:
        file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())


def ends_complete(path: Path) -> bool:
    """Return whether a file is empty or ends with a newline."""
    with reading(path), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        return file.read(1) in (b"", b"\n")


def cut(path: Path, length: int) -> None:
    """Truncate a file to its first `length` bytes, durably."""
    with writing(path), path.open("r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def _body(line: bytes) -> bytes | None:
    """Return the JSON text of a line; None if it is not whole."""
    body = line[9:-1]
    whole = len(body) > 0 and line.endswith(b"\n") and line.startswith(b"%08x " % zlib.crc32(body))
    return body if whole else None


def _whole_within(line: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the start, end and JSON text of each whole line within something longer."""
    starts = [head.start() for head in HEAD.finditer(line)]
    for start, following in pairwise([*starts, len(line)]):
        checksum, computed, place = int(line[start : start + 8], 16), 0, start + 9
        for bracket in CLOSING.finditer(line, start + 9, following):
            computed = zlib.crc32(line[place : bracket.end()], computed)
            place = bracket.end()
            if computed == checksum and _is_json(line[start + 9 : place]):
                yield start, place, line[start + 9 : place]
                break


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _finite(child) for key, child in value.items()}
        case list() | tuple():
            return [_finite(child) for child in value]
    return value
