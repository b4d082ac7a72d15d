"""MLflow itself: imported late, without its messages or its telemetry, and with short timeouts.

The only place that knows how a destination of runs is written (a URI) and which part of it may be shown.
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

from ablate.errors import InputError, RefusedError

STORE, ARTIFACTS = "mlflow.db", "mlruns"
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
        """True if it is the results folder's own."""
        return self.uri is None

    @property
    def tracking(self) -> str:
        """The URI for MLflow, with its secrets."""
        return self.uri or sqlite_uri(self.folder / STORE)

    @property
    def key(self) -> str:
        """Its name in `mlflow.jsonl`: empty for the folder's own, so that the folder may be moved."""
        return "" if self.uri is None else without_secrets(self.uri)

    @property
    def shown(self) -> str:
        """Its name as shown to people."""
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
def connected(destination: Destination) -> Iterator[tuple[Any, Any]]:
    """Yield MLflow and a client of a destination; any failure there is a RefusedError of one line without secrets."""
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
        yield mlflow, mlflow.MlflowClient(tracking_uri=destination.tracking)
    except (MlflowException, RequestException, SQLAlchemyError, sqlite3.Error, OSError, ImportError) as error:
        raise RefusedError(
            f"MLflow at {destination.shown} was not brought up to date: {_reason(error, destination)}\n"
            f"  = {_way_out(destination, error)}; the results are safe, and what is missing is sent the next time"
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


def _way_out(destination: Destination, error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install the driver for that kind of database"
    if destination.embedded:
        return f"if it happens again, delete {destination.shown}: it is rebuilt from the results"
    return "check that the server runs and can be reached from here"


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
