"""MLflow itself, imported late, without its messages or its telemetry, and the results folder's own store of runs.

The only place that knows how a destination of runs is written (a URI) and which part of it may be shown. A results
folder's own store is a SQLite file, moved into place when it is complete, with the files of its runs beside it.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from ablate.errors import InputError, RefusedError
from ablate.store.durable import UNFINISHED, put_in_place, write_whole, writing

STORE, ARTIFACTS = "mlflow.db", "mlruns"
MARK = f"{STORE}.unsynced"
"""The file that is beside a store while it is written in place."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
SIDECARS = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a file; leftovers must not be applied to the file that replaces it."""
POOL = "MLFLOW_SQLALCHEMYSTORE_POOLCLASS"
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_AGENT_HINT": "true",
    # A new connection for each transaction: a kept one would continue to write to a file that has been replaced.
    POOL: "NullPool",
    # A server that is down costs seconds, not a quarter of an hour (MLflow's default of seven tries of two minutes).
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}


@dataclass(frozen=True, slots=True)
class Destination:
    """Where runs go: a results folder's own SQLite file (`uri` None), or any URI that MLflow knows."""

    folder: Path
    uri: str | None = None

    def __post_init__(self) -> None:
        if self.uri is not None and not re.match(r"[a-z][a-z0-9+.-]*://|databricks|file:", self.uri):
            raise InputError(
                f"{without_secrets(self.uri)!r} is not an MLflow tracking URI\n"
                "  = give one such as http://127.0.0.1:5000, or none for the results folder's own"
            )

    @property
    def embedded(self) -> bool:
        return self.uri is None

    @property
    def tracking(self) -> str:
        """The URI for MLflow, with its secrets."""
        return self.uri or sqlite_uri(self.folder / STORE)

    @property
    def shown(self) -> str:
        return str(self.folder / STORE) if self.uri is None else without_secrets(self.uri)

    @property
    def artifacts(self) -> str | None:
        """The URI for files of runs; None where a tracking server decides that."""
        if urlsplit(self.tracking).scheme in ("http", "https", "databricks"):
            return None
        return (self.folder / ARTIFACTS).resolve().as_uri()


def sqlite_uri(path: Path) -> str:
    """Return the URI of a SQLite file; SQLAlchemy decodes %20 in it, and takes all other characters literally."""
    return f"sqlite:///{str(path.resolve()).replace('%', '%25')}"


def without_secrets(uri: str) -> str:
    """Return a URI without user, password and query.

    >>> without_secrets("https://me:secret@host:5000/x?token=1")
    'https://host:5000/x'
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "the URI"
    if "://" not in uri:
        return uri.rpartition("@")[2].partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")


@contextmanager
def connected(destination: Destination) -> Iterator[Any]:
    """Yield MLflow's client of a destination; any failure there is a RefusedError of one line without secrets."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import mlflow
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        if destination.embedded:
            _check_database(destination.folder / STORE)
        yield mlflow.MlflowClient(tracking_uri=destination.tracking)
    except (MlflowException, RequestException, SQLAlchemyError, sqlite3.Error, OSError, ImportError) as error:
        way_out = "check that the server runs and can be reached from here"
        if destination.embedded:
            way_out = f"if it happens again, delete {destination.shown}: it is rebuilt from the results"
        if isinstance(error, ImportError):
            way_out = "install the driver for that kind of database"
        raise RefusedError(
            f"MLflow at {destination.shown} was not brought up to date: {_reason(error, destination)}\n"
            f"  = {way_out}; the results are safe, and what is missing is sent the next time"
        ) from error


def _check_database(path: Path) -> None:
    """Raise sqlite3.DatabaseError for a file that is no database, which MLflow would try to open for 100 seconds.

    A database that is locked may be free again when MLflow opens it, and is left to it.
    """
    if path.exists():
        with closing(sqlite3.connect(path)) as connection:
            try:
                connection.execute("SELECT count(*) FROM sqlite_master")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise


def _reason(error: Exception, destination: Destination) -> str:
    """Return the first line of an error, short, and without user and password wherever they occur."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (lines[0] if lines else type(error).__name__).partition(" Response body:")[0]
    if destination.uri is not None:
        parts = urlsplit(destination.uri)
        text = text.replace(destination.uri, without_secrets(destination.uri))
        text = text.replace(f"{parts.netloc.rpartition('@')[0]}@", "") if "@" in parts.netloc else text
        for secret in (parts.password, parts.query):
            text = text.replace(secret, "…") if secret else text
    if "Connection refused" in text:
        return "nothing answers there (connection refused)"
    if "timed out" in text:
        return "it does not answer (timed out)"
    return text if len(text) <= 300 else text[:299] + "…"


@contextmanager
def new_store(folder: Path) -> Iterator[Any]:
    """Yield MLflow's client of an empty store, which replaces `mlflow.db` on success.

    MLflow creates its tables in many steps; a process killed between them leaves a file that it cannot open again.
    """
    for left in folder.glob(f"{STORE}.*{UNFINISHED}*"):
        left.unlink()
    # A unique name: MLflow remembers by name that the tables exist.
    path = folder / f"{STORE}.{uuid4().hex[:8]}{UNFINISHED}"
    with unsynced(), connected(Destination(folder, sqlite_uri(path))) as client:
        client.search_experiments(max_results=1)
        yield client
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


def may_be_damaged(folder: Path) -> bool:
    """Return whether the machine stopped while the store was written and not synced."""
    try:
        return (folder / MARK).read_text(encoding="utf-8") != _machine_start()
    except FileNotFoundError:
        return False


def _machine_start() -> str:
    """Return a text that differs after each boot of the machine or, where that is unknown, for each process."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return f"unknown to process {os.getpid()}"
