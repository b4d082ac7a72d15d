"""Durable files: complete or absent, lines with checksums, one writer at a time; and the errors of a full disk."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import shutil
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from ablate.errors import InputError, RefusedError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = "Mapping[str, JsonValue]"

UNFINISHED = ".new"
"""Marks the name of a file that is not complete. Whoever holds the lock may delete leftover ones."""

DAMAGED = "damaged"  # the folder, within a results folder, for damaged files: nothing of the user's is deleted


UNREADABLE = {"?": "options", "\\": "another path separator"}
"""Characters that the path of a results folder may not have, and what DuckDB takes them for."""


def check_folder(folder: Path) -> None:
    """Raise InputError for a results folder whose path DuckDB would misread, RefusedError if it cannot be read."""
    for letter, taken_for in UNREADABLE.items():
        if letter in str(folder.absolute()):
            raise InputError(
                f"the path of a results folder cannot contain {letter}: {folder.absolute()}\n"
                f"  = DuckDB, which keeps the tables, takes it for {taken_for}: choose another folder with --results"
            )
    try:
        os.scandir(folder).close()
        (folder / DAMAGED).stat()  # raises another error than that it is not there if the folder may not be entered
    except FileNotFoundError:
        return
    except OSError as error:
        raise RefusedError(
            f"cannot use {folder} as a results folder: {error.strerror}\n  = choose another folder with --results"
        ) from None


@contextmanager
def writing(path: Path, option: str = "--results") -> Iterator[None]:
    """Turn errors of the system into a RefusedError that names `path`, and `option`, which names another folder."""
    try:
        yield
    except OSError as error:
        raise RefusedError(
            f"cannot write {path}: {error.strerror or error}\n"
            f"  = free space or permission there, or choose another folder with {option}"
        ) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Do the same for reading; a missing file is left to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RefusedError(
            f"cannot read {path}: {error.strerror or error}\n"
            "  = give permission to read it, check that disk, or name another folder with --results"
        ) from error


def write_whole(path: Path, content: bytes, option: str = "--results") -> None:
    """Write `content` to `path` so that a crash at any moment leaves the old file or the new one."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with writing(path, option):
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            put_in_place(unfinished, path)
        except OSError:
            unfinished.unlink(missing_ok=True)  # half a file is useless, and the disk may be full
            raise


def put_in_place(unfinished: Path, path: Path) -> None:
    """Rename over `path` atomically; processes that have the old file open keep it."""
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unfinished_in(folder: Path) -> list[Path]:
    """Return the unfinished files that a dead writer left, DuckDB's folders for spilled rows included."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if UNFINISHED in entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove(path: Path) -> None:
    with writing(path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def set_aside(folder: Path, path: Path) -> Path:
    """Move a damaged file of the results folder `folder` to `<folder>/damaged/`, under a free name."""
    place = _free_place(folder, path)
    with writing(place):
        path.rename(place)
        sync_folder(place.parent)
        sync_folder(path.parent)
    return place


def copy_aside(folder: Path, path: Path) -> Path:
    place = _free_place(folder, path)
    write_whole(place, path.read_bytes())
    return place


def _free_place(folder: Path, path: Path) -> Path:
    with writing(folder / DAMAGED):
        (folder / DAMAGED).mkdir(exist_ok=True)
    place, number = folder / DAMAGED / path.name, 1
    while place.exists():
        number += 1
        place = folder / DAMAGED / f"{path.stem}.{number}{path.suffix}"
    return place


# Text lines with a checksum: eight hex digits of CRC-32, a space, compact JSON, a newline
#
# Lines are appended and never changed. What follows the last whole line is a torn tail: the writer was killed while
# writing it, and it is cut off. A line that fails its checksum *before* a whole one was damaged later, and is
# reported. JSON has no NaN or infinities: they are written as the strings "NaN", "Infinity" and "-Infinity".


@dataclass(frozen=True)
class Lines:
    """The whole lines of a file: the JSON text of each in `bodies`, and the offset where each `ends`.

    `torn` counts the bytes behind the last whole line, `damaged` are the numbers (from 1) of broken lines before it,
    and up to the offset `sound` every line is whole.
    """

    bodies: tuple[bytes, ...] = ()
    ends: tuple[int, ...] = ()
    torn: int = 0
    damaged: tuple[int, ...] = ()
    sound: int = 0
    path: Path = Path()

    @cached_property
    def records(self) -> tuple[Any, ...]:
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


def json_number(value: Any) -> Any:
    """Convert NaN and infinities, which JSON holds as text, back."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def encoded_line(record: Any) -> bytes:
    """Return the line of a record.

    >>> encoded_line([1, "a"])
    b'86efd9f5 [1,"a"]\\n'
    """
    body = compact(record).encode()
    return b"%08x %b\n" % (zlib.crc32(body), body)


def read_lines(path: Path) -> Lines:
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
        return Lines(path=path)
    torn = length - (ends[-1] if ends else 0)
    return Lines(tuple(bodies), tuple(ends), torn, tuple(damaged), sound, path)


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
        content = b"".join(map(encoded_line, records))
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


def truncate(path: Path, length: int) -> None:
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


# One driver at a time: an exclusive lock of the operating system on `<folder>/lock`
#
# The lock dies with its process, however that ends, and is not inherited by workers, so it cannot be stale. The file's
# text says who holds it, for people only; nothing depends on it, so a stale text does no harm.

LOCK_PATIENCE = 0.2
"""Seconds to wait for a lock: a reader holds it for a moment, and a new holder writes its text within that."""

_held: set[Path] = set()
_guard = threading.Lock()


class Lock:
    """A folder's lock, held from `acquire` (or entering) to `release`; a RefusedError names any other holder."""

    def __init__(self, folder: Path):
        self.path = folder.resolve() / "lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, creating the folder if needed. InputError for a folder whose path cannot be used."""
        check_folder(self.path.parent)
        with _guard:
            # A POSIX lock does not exclude its own process, and closing any descriptor of the file would drop it.
            if self.path in _held:
                raise RefusedError(f"cannot write to {self.path.parent}: this process already has it open")
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                self._lock(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
            _held.add(self.path)

    def release(self) -> None:
        with _guard:
            if self._descriptor is None:
                return
            with suppress(OSError):  # the text is for people; on a disk that became read-only it remains
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self.path)

    def _lock(self, descriptor: int) -> None:
        give_up = time.monotonic() + LOCK_PATIENCE
        while not _take_lock(descriptor, fcntl.LOCK_EX, self.path):
            if time.monotonic() > give_up:
                raise RefusedError(
                    f"cannot write to {self.path.parent}: another run is using it ({_holder_text(descriptor)})\n"
                    "  = wait for it or stop it, or choose another folder with --results; it can still be read"
                )
            time.sleep(LOCK_PATIENCE / 10)
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # on a full disk the lock holds without it, so that leftovers can be deleted
            os.pwrite(descriptor, json.dumps(me).encode(), 0)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def lock_holder(folder: Path) -> str | None:
    """Describe who is writing to `folder` now; None if nobody is. Needs no permission to write."""
    path = folder.resolve() / "lock"
    return _of_lock(
        path,
        f"process {os.getpid()}, this one",
        lambda lock: None if _take_lock(lock, fcntl.LOCK_SH, path) else _holder_text(lock),
    )


def killed_holder(folder: Path) -> str | None:
    """Describe who wrote to `folder` last and was killed before releasing the lock; None while somebody holds it."""
    return _of_lock(
        folder.resolve() / "lock", None, lambda lock: _holder_text(lock) if os.fstat(lock).st_size else None
    )


def _of_lock(path: Path, own: str | None, read: Callable[[int], str | None]) -> str | None:
    """Read the file of a lock by its descriptor; `own` where this process holds it, None where there is no file."""
    with _guard:
        if path in _held:
            return own
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return read(descriptor)
        finally:
            os.close(descriptor)


def _take_lock(descriptor: int, kind: int, path: Path) -> bool:
    """Lock at once; return False if another process holds it."""
    try:
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB)
        return True
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise RefusedError(
            f"cannot lock {path}: {error.strerror}\n"
            "  = choose a folder with --results on a file system that supports locks"
        ) from error


def _holder_text(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "it has not identified itself yet"
