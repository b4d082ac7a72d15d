"""The mirror in a process of its own: it sends trials while others train, and goes when its driver goes.

What MLflow does for a run is some tens of milliseconds of Python, and importing it seconds: in the driver they would
hold up whatever trains there, and the messages of workers. `main` is run by `session.mirroring`, which asks:

    ("ended", space, trials)     send these trials of a space; the answer is how many were sent
    ("whole", reports)           bring everything up to date; the answer is what `mirror` gives
    ("anew", reports)            fill the results folder's own store anew; the answer is what `rebuild` gives

An answer is `("done", it)`, `("refused", text)` for a RefusedError, `("failed", text)`, or `("gone", text)` where the
store's file is not the one any more that this process writes to: then all that it has sent since is lost, and what it
is asked next would be.
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
"""Added to the niceness while trials run: they come first."""


def main() -> None:
    """Answer one request after the other until the driver has none, or is gone."""
    folder, uri, was_there = pickle.load(sys.stdin.buffer)
    # A connection that is kept knows the tables; this process ends before the store's file is replaced.
    os.environ.setdefault(POOL, "QueuePool")
    asked = Connection(int(sys.argv[1]))
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked, requests), name="requests", daemon=True).start()
    os.nice(LESS_URGENT)
    known: dict[str, MlflowExperiment] = {}
    file = StoreFile(folder, was_there) if uri is None else None
    while True:
        asked.send(_answer_of(file, requests.get(), folder, uri, known))


def _listen(asked: Connection, requests: queue.SimpleQueue[Any]) -> None:
    """Hand on what is asked. Where the driver is gone nothing more may be sent, not even the rest of this batch: the
    next driver may be there already.
    """
    while True:
        try:
            requests.put(asked.recv())
        except (EOFError, OSError):
            os._exit(0)


def _answer_of(
    file: StoreFile | None, request: Any, folder: Path, uri: str | None, known: dict[str, MlflowExperiment]
) -> tuple[str, Any]:
    """The answer, if the store was there all the time."""
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
        raise ValueError(f"not asked for in a way that is known: {request!r}")
    except RefusedError as error:
        known.clear()  # what was done of it is asked for anew
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001  MLflow and its database raise many kinds; the driver says so
        known.clear()
        return "failed", str(error) or type(error).__name__


def _reports(drawn: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]) -> dict[str, Mapping[str, str]]:
    """Reports whose texts have all been drawn: by space what stands for them, and the others."""
    return {space: Texts(told, lambda rest=rest: rest) for space, (told, rest) in drawn.items()}  # type: ignore[misc]
