"""The results folder's own store: a SQLite file, made beside and put in place whole, and the files of its runs."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from ablate.store.durable import UNFINISHED, put_in_place, writing
from ablate.store.mlflow.connection import ARTIFACTS, STORE, Destination, connected, sqlite_uri

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


@contextmanager
def unsynced() -> Iterator[None]:
    """Let SQLite not wait for the disk at each of six transactions for a run: a file in the making may be lost."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def relax(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relax)
    try:
        yield
    finally:
        event.remove(Engine, "connect", relax)


def sweep(folder: Path, runs: Collection[str]) -> None:
    """Delete the files of all runs but these."""
    for run in (folder / ARTIFACTS).glob("*"):
        if run.is_dir() and run.name not in runs:
            shutil.rmtree(run)
