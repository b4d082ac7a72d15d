"""One driver at a time: an exclusive lock of the operating system on `<folder>/lock`.

The lock dies with its process, however that ends, and is not inherited by workers, so it cannot be stale. The file's
text says who holds it, for people only; nothing depends on it, so a stale text does no harm.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from ablate.errors import RefusedError
from ablate.store.durable import check_folder, writing

PATIENCE = 0.2
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
        give_up = time.monotonic() + PATIENCE
        while not _take(descriptor, fcntl.LOCK_EX, self.path):
            if time.monotonic() > give_up:
                raise RefusedError(
                    f"cannot write to {self.path.parent}: another run is using it ({_holder_text(descriptor)})\n"
                    "  = wait for it or stop it, or choose another folder with --results; it can still be read"
                )
            time.sleep(PATIENCE / 10)
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def holder(folder: Path) -> str | None:
    """Describe who is writing to `folder` now; None if nobody is. Needs no permission to write."""
    path = folder.resolve() / "lock"
    with _guard:
        if path in _held:
            return f"process {os.getpid()}, this one"
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return None if _take(descriptor, fcntl.LOCK_SH, path) else _holder_text(descriptor)
        finally:
            os.close(descriptor)


def left(folder: Path) -> str | None:
    """Describe who wrote to `folder` last and was killed before releasing the lock; None while somebody holds it."""
    path = folder.resolve() / "lock"
    with _guard:
        if path in _held:
            return None
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return _holder_text(descriptor) if os.fstat(descriptor).st_size else None
        finally:
            os.close(descriptor)


def _take(descriptor: int, kind: int, path: Path) -> bool:
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
