"""The mirror in a process of its own: it sends trials while others train, and ends with its driver.

MLflow takes tens of milliseconds of Python for a run, and seconds to import: in the driver that would delay whatever
trains there, and the messages of workers. `main` is run by `session.mirroring`, which sends the requests:

    ("ended", space, trials)     send these trials of a space; the answer is how many were sent
    ("whole", reports)           bring everything up to date; the answer is what `mirror` gives
    ("anew", reports)            recreate the results folder's own store; the answer is what `rebuild` gives

An answer is `("done", result)`, `("refused", text)` for a RefusedError, `("failed", text)`, or `("gone", text)` where
the store's file is no longer the one that this process writes to: then all that it has sent since is lost, and so would
be what is requested next.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ablate.errors import RefusedError
from ablate.store.mirror import mirror, mirror_ended, rebuild
from ablate.store.mlflow.connection import POOL, STORE
from ablate.store.mlflow.file import StoreFile
from ablate.store.mlflow.sent import Texts
from ablate.store.mlflow.sync import MlflowExperiment

LESS_URGENT = 10
"""Niceness added so that trials have priority."""


def main() -> None:
    """Answer requests until the driver has no more, or is gone."""
    folder, uri, was_there = pickle.load(sys.stdin.buffer)
    # A kept connection has the tables loaded, and this process ends before the store's file is replaced.
    os.environ.setdefault(POOL, "QueuePool")
    driver = Connection(int(sys.argv[1]))
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(driver, requests), name="requests", daemon=True).start()
    os.nice(LESS_URGENT)
    known: dict[str, MlflowExperiment] = {}
    file = StoreFile(folder, was_there) if uri is None else None
    while True:
        driver.send(_answer_of(file, requests.get(), folder, uri, known))


def _listen(driver: Connection, requests: queue.SimpleQueue[Any]) -> None:
    """Pass on the driver's requests. Once the driver is gone nothing more may be sent, not even the rest of this batch:
    the next driver may already be there.
    """
    while True:
        try:
            requests.put(driver.recv())
        except (EOFError, OSError):
            os._exit(0)


def _answer_of(
    file: StoreFile | None, request: Any, folder: Path, uri: str | None, known: dict[str, MlflowExperiment]
) -> tuple[str, Any]:
    """Answer a request, if the store was there all the time."""
    if file is None:
        return _answer(request, folder, uri, known)
    if not file.is_gone():
        answer = _answer(request, folder, uri, known)
        file.hold(needed=answer[0] == "done" and request[0] == "ended")
        if not file.is_gone():
            return answer
    return "gone", f"{folder / STORE} was deleted or replaced while it was written to"


def _answer(request: Any, folder: Path, uri: str | None, known: dict[str, MlflowExperiment]) -> tuple[str, Any]:
    try:
        match request:
            case ("ended", space, trials):
                return "done", mirror_ended(folder, space, trials, known, uri=uri)
            case ("whole", reports):
                return "done", mirror(folder, uri=uri, reports=_reports(reports), known=known)
            case ("anew", reports):
                return "done", rebuild(folder, reports=_reports(reports))
        raise ValueError(f"unknown request: {request!r}")
    except RefusedError as error:
        known.clear()  # what was already done is queried again
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001  MLflow and its database raise many kinds; the driver reports it
        known.clear()
        return "failed", str(error) or type(error).__name__


def _reports(drawn: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]) -> dict[str, Mapping[str, str]]:
    """Return reports whose texts are already made: by space, those that identify the report, and the others."""
    return {space: Texts(told, lambda rest=rest: rest) for space, (told, rest) in drawn.items()}  # type: ignore[misc]
