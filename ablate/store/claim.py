"""Who trains a trial: `running/<trial>`, locked by its worker for as long as it lives.

The lock is the operating system's and dies with the process, so two workers never have the same trial, not even when a
driver was killed and its worker, on another node, has not noticed yet. The text says who the worker is and how far it
has come; the time of the last change is its heartbeat. A file without a lock was left by a worker that died.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ablate.errors import RefusedError
from ablate.store.durable import writing

FOLDER = "running"
TRACE = ".trace"  # suffix of the file that says where a trial hangs, beside the trial's claim

PATIENCE = 10.0  # seconds to wait for another worker to let go: one that has lost its driver is gone long before

RETRY_EVERY = 0.1
BEAT_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class Holder:
    """The content of a claim's file: the process, its start, its step, its last heartbeat, and whether it is alive.

    `heard` is seconds since 1970; `since` is ISO 8601, UTC.
    """

    trial_id: str
    pid: int
    host: str
    since: str
    step: int
    heard: float
    alive: bool


class Claim:
    """A worker's hold on a trial, from entering to leaving. RefusedError if another worker keeps it, or if the results
    folder cannot be reached from here."""

    def __init__(self, folder: Path, trial_id: str, *, step: int = 0, patience: float = PATIENCE):
        self.trial_id = trial_id
        self.path = folder / FOLDER / trial_id
        self._patience = patience
        self._step = step
        self._descriptor = -1
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._beat = 0.0

    def __enter__(self) -> Claim:
        if not self.path.parent.parent.is_dir():
            raise RefusedError(
                f"the results folder {self.path.parent.parent} cannot be reached from {socket.gethostname()}\n"
                "  = put it on a file system that all nodes share, under the same path, and name it with --results"
            )
        give_up = time.monotonic() + self._patience
        with writing(self.path):
            self.path.parent.mkdir(exist_ok=True)
            while not self._locked():
                if time.monotonic() > give_up:
                    raise RefusedError(self._taken())
                time.sleep(RETRY_EVERY)
            self._write()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            # The lock ends with the descriptor, so a file that cannot be deleted blocks nobody.
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        finally:
            os.close(self._descriptor)

    def beat(self, step: int) -> None:
        """Record that the worker is alive and has reached `step`; rarely enough to cost nothing."""
        if step != self._step and time.monotonic() - self._beat > BEAT_EVERY:
            self._step = step
            with writing(self.path):
                self._write()

    def _locked(self) -> bool:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if _take(descriptor):
            self._descriptor = descriptor
            return True
        os.close(descriptor)
        return False

    def _write(self) -> None:
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": self._since, "step": self._step}
        # A fixed length and a single write: a reader never sees half of it.
        os.pwrite(self._descriptor, f"{json.dumps(who):<256}\n".encode(), 0)
        self._beat = time.monotonic()

    def _taken(self) -> str:
        holder = read(self.path)
        who = f"process {holder.pid} on {holder.host}, since {holder.since}" if holder else "an unknown process"
        return (
            f"trial {self.trial_id} is already being trained by {who}\n"
            "  = it may have lost its driver: wait for it to notice or stop it, and run again"
        )


def holders(folder: Path) -> dict[str, Holder]:
    """Return the holder of every trial that a worker has, or had when it died."""
    claims = (read(path) for path in sorted((folder / FOLDER).glob("*")) if not path.suffix)
    return {holder.trial_id: holder for holder in claims if holder}


def read(path: Path) -> Holder | None:
    """Read a claim's file; None if it is gone, still empty, or not as this version writes it."""
    try:
        with path.open("rb") as file:
            match json.loads(file.read()):
                case {"pid": int(pid), "host": str(host), "since": str(since), "step": int(step)}:
                    heard = os.fstat(file.fileno()).st_mtime
                    return Holder(path.name, pid, host, since, step, heard, _held(file.fileno()))
    except (OSError, ValueError, RecursionError):
        return None
    return None


def silent(folder: Path) -> tuple[Path, ...]:
    """Return the claim files that do not say who holds them, or not as this version writes it."""
    return tuple(path for path in sorted((folder / FOLDER).glob("*")) if not path.suffix and read(path) is None)


def trace_of(folder: Path, trial_id: str) -> Path:
    return folder / FOLDER / f"{trial_id}{TRACE}"


def forget(folder: Path, trial_id: str) -> None:
    """Delete the claim of a dead worker, its trace included; the claim of a living one is not touched."""
    path, trace = folder / FOLDER / trial_id, trace_of(folder, trial_id)
    with writing(path):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            trace.unlink(missing_ok=True)
            return
        try:
            if _take(descriptor):
                trace.unlink(missing_ok=True)
                path.unlink()
        finally:
            os.close(descriptor)


def _take(descriptor: int) -> bool:
    # Its holder may have deleted it between our opening and locking it: then another file has the name now.
    return _lock(descriptor, fcntl.LOCK_EX) and os.fstat(descriptor).st_nlink > 0


def _held(descriptor: int) -> bool:
    return not _lock(descriptor, fcntl.LOCK_SH)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
