"""One driver at a time: an exclusive lock of the operating system on `<folder>/lock`.

The lock dies with its process, however that ends, and is not inherited by workers, so a stale one cannot exist. The
file's text says who holds it and is there for people; nothing is decided by it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from ablate.errors import RefusedError
from ablate.store.durable import writing

_held: set[Path] = set()
_guard = threading.Lock()


class Lock:
    """Held from `acquire` (or entering) to `release`; a RefusedError names the holder if there is another."""

    def __init__(self, folder: Path):
        self.path = folder.resolve() / "lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; the folder is made if it is not there."""
        with _guard:
            # A POSIX lock does not bar its own process, and closing any descriptor of the file would drop it.
            if self.path in _held:
                raise RefusedError(f"cannot write to {self.path.parent}: this process has it open already")
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
        """Let go; doing it twice is once."""
        with _guard:
            if self._descriptor is None:
                return
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self.path)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise RefusedError(
                    f"cannot write to {self.path.parent}: another run is using it ({_holder(descriptor)})\n"
                    "  = wait for it or stop it, or choose another folder with --results; reading is possible meanwhile"
                ) from None
            raise RefusedError(
                f"cannot lock {self.path}: {error.strerror}\n"
                "  = choose a folder on a file system that has locks with --results"
            ) from error
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with writing(self.path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(me).encode(), 0)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (ValueError, KeyError):
        return "it has not yet said who it is"
