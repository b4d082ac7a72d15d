"""The results folder's own store: a SQLite file, made beside and put in place whole, and the files of its runs."""

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
"""Stands beside a store while it is written in place."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
SIDECARS = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a file; what is left of one must not be applied to the file that comes after it."""


@contextmanager
def new_store(folder: Path) -> Iterator[tuple[Any, Any]]:
    """MLflow and a client of an empty store, which takes the place of `mlflow.db` when all went well.

    MLflow makes its tables in many steps; whoever is killed between them leaves a file that it cannot open again.
    """
    for left in folder.glob(f"{STORE}.*{UNFINISHED}*"):
        left.unlink()
    # A name of its own: MLflow remembers for each name that the tables are there.
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
    """Let SQLite not wait for the disk at each of six transactions for a run.

    A killed process costs nothing by that: what it wrote is the system's. Only where the machine itself stops may the
    file be damaged, so it is one in the making, or `in_place` keeps a mark beside it.
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
    """Write to the store that is there; the results folder's own is synced once, at the end.

    Until then a mark beside it names the start of the machine, by which one is known that stopped in between.
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
    if store.exists():  # not one that somebody has deleted meanwhile
        with writing(store), store.open("rb") as whole:
            os.fsync(whole.fileno())
    mark.unlink(missing_ok=True)


class StoreFile:
    """The file of a store that one process writes to, held open, so that no later file can be taken for it.

    `was_there` says that there was one before this process began.
    """

    def __init__(self, folder: Path, was_there: bool):
        self._path = folder / STORE
        self._needed = was_there
        self._held: BinaryIO | None = None

    def hold(self, *, needed: bool) -> None:
        """Hold the file that is there, from the first time on; where it is `needed` and there is none, it is gone."""
        if self._held is None and self._path.exists():
            self._held = self._path.open("rb")
        self._needed |= needed

    def is_gone(self) -> bool:
        """Whether the file was deleted, or another stands in its place."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return self._needed or self._held is not None
        return self._held is not None and not os.path.samestat(os.fstat(self._held.fileno()), there)


def may_be_damaged(folder: Path) -> bool:
    """Whether the machine stopped while the store was written and not synced."""
    mark = folder / MARK
    try:
        return mark.read_text(encoding="utf-8") != _machine_start()
    except FileNotFoundError:
        return False


def _machine_start() -> str:
    """What is another text after each start of the machine; where that is not known, of each process."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return f"unknown to process {os.getpid()}"


def sweep(folder: Path, runs: Collection[str]) -> None:
    """Delete the files of all runs but these."""
    for run in (folder / ARTIFACTS).glob("*"):
        if run.is_dir() and run.name not in runs:
            shutil.rmtree(run)
