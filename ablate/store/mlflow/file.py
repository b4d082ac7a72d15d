"""The results folder's own store: a SQLite file, moved into place when it is complete, and the files of its runs."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from ablate.store.durable import UNFINISHED, put_in_place, write_whole, writing
from ablate.store.mlflow.connection import ARTIFACTS, STORE, Destination, connected, sqlite_uri

MARK = f"{STORE}.unsynced"
"""The file that is beside a store while it is written in place."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
SIDECARS = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a file; leftovers must not be applied to the file that replaces it."""


@contextmanager
def new_store(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Yield MLflow and a client of an empty store, which replaces `mlflow.db` on success.

    MLflow creates its tables in many steps; a process killed between them leaves a file that it cannot open again.
    """
    for left in folder.glob(f"{STORE}.*{UNFINISHED}*"):
        left.unlink()
    # A unique name: MLflow remembers by name that the tables exist.
    path = folder / f"{STORE}.{uuid4().hex[:8]}{UNFINISHED}"
    with unsynced(), connected(Destination(folder, sqlite_uri(path))) as (mlflow, client):
        client.search_experiments(max_results=1)
        yield mlflow, client
    with writing(folder / STORE):
        with path.open("rb") as whole:
            os.fsync(whole.fileno())
        for suffix in SIDECARS:
            (folder / (STORE + suffix)).unlink(missing_ok=True)
        put_in_place(path, folder / STORE)
        (folder / MARK).unlink(missing_ok=True)


@contextmanager
def unsynced() -> Iterator[None]:
    """Keep SQLite from waiting for the disk at each of the six transactions per run.

    A killed process loses nothing: the system has what it wrote. Only if the machine itself stops may the file be
    damaged, so it is either not in place yet, or `in_place` keeps a mark beside it.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def relax(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relax)
    try:
        yield
    finally:
        event.remove(Engine, "connect", relax)


@contextmanager
def in_place(destination: Destination) -> Iterator[None]:
    """Write to the existing store; the results folder's own is synced once, at the end.

    Until then a mark beside it identifies the boot of the machine, to detect that the machine stopped in between.
    """
    if not destination.embedded:
        yield
        return
    mark = destination.folder / MARK
    with writing(mark):
        write_whole(mark, _machine_start().encode())
    with unsynced():
        yield
    store = destination.folder / STORE
    if store.exists():  # unless somebody has deleted it meanwhile
        with writing(store), store.open("rb") as whole:
            os.fsync(whole.fileno())
    mark.unlink(missing_ok=True)


class StoreFile:
    """The store's file that a process writes to, held open, so that no later file can be mistaken for it.

    `was_there` says that there was one before this process started.
    """

    def __init__(self, folder: Path, was_there: bool):
        self._path = folder / STORE
        self._needed = was_there
        self._held: BinaryIO | None = None

    def hold(self, *, needed: bool) -> None:
        """Open the file at the first call where it exists; where it is `needed` and missing, it counts as gone."""
        if self._held is None and self._path.exists():
            self._held = self._path.open("rb")
        self._needed |= needed

    def is_gone(self) -> bool:
        """Return whether the file was deleted or replaced."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return self._needed or self._held is not None
        return self._held is not None and not os.path.samestat(os.fstat(self._held.fileno()), there)


def may_be_damaged(folder: Path) -> bool:
    """Return whether the machine stopped while the store was written and not synced."""
    mark = folder / MARK
    try:
        return mark.read_text(encoding="utf-8") != _machine_start()
    except FileNotFoundError:
        return False


def _machine_start() -> str:
    """Return a text that differs after each boot of the machine or, where that is unknown, for each process."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return f"unknown to process {os.getpid()}"


def sweep(folder: Path, runs: Collection[str]) -> None:
    """Delete the files of all runs except these."""
    for run in (folder / ARTIFACTS).glob("*"):
        if run.is_dir() and run.name not in runs:
            shutil.rmtree(run)
