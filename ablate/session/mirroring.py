"""Trials sent to MLflow while others train, in a separate process, and the rest when the run has its answer.

MLflow is a copy of the results folder: a failure there costs no result and delays no trial. What was not sent is sent
at the end, or by the next run. MLflow takes tens of milliseconds of Python for a run, and seconds to import: in the
driver that would delay trials that train there, and the messages of workers. So `main` runs in a process that ends with
its driver. A request to it is a function of `store.mirror` with its arguments; the answer is its result or an
exception.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, BinaryIO, TypeAlias

from ablate.errors import RefusedError, warn
from ablate.execute.controller import Watcher
from ablate.execute.supervisor import launch
from ablate.output.words import plural
from ablate.store.mirror import Experiments, Mirrored, Reports, mirror, mirror_ended, rebuild
from ablate.store.mlflow_client import POOL, STORE
from ablate.store.results import Results
from ablate.train.events import GOES_ON

SHARE = 0.1  # the largest share of the time that sending takes while trials run
PATIENCE = 1.0  # seconds that sending may take at the end before a message says what is being waited for
LISTENING = 0.1
FAREWELL = 2.0
"""Seconds that a killed process may take to exit; one that hangs in its file system is left to the system."""
LESS_URGENT = 10  # niceness added to the process so that trials have priority

Request: TypeAlias = partial[Mirrored]
Say: TypeAlias = Callable[[str], None]


class MirrorError(Exception):
    """An unexpected failure of MLflow, or of the process that sends to it."""


class Mirroring:
    """The sender of a space's trials as they end: a context manager, to `finish` when the run has its answer.

    `uri` is a tracking server, None the results folder's own store. Nothing is started before a trial has ended. `say`
    tells of a deleted store and, if a run stops without `finish`, of what was not sent; `command` sends that later.
    """

    def __init__(self, store: Results, space: str, uri: str | None, *, say: Say = warn, command: str = "ablate run"):
        self._store, self._space, self._uri = store, space, uri
        self._path = store.folder / STORE
        self._say, self._command = say, command
        self._ended: list[str] = []
        self._news = threading.Condition()
        self._over = self._stopped = self._finishing = False
        self._sent = 0
        self._is_there = False
        self._file: BinaryIO | None = None
        self._process: _Process | None = None
        self._sender = threading.Thread(target=self._send_always, name="mirror", daemon=True)

    def __enter__(self) -> Mirroring:
        self._is_there = self._uri is None and self._path.exists()
        self._sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop at once, whatever is being sent: an interrupted batch is completed by the next run. Wait only for a
        write of the DuckDB file, if one is under way: that needs the folder's lock."""
        with self._news:
            self._over = self._stopped = True
            self._news.notify()
            if self._process is not None:
                self._process.kill()  # which also ends a pending request
        with _announced_after(PATIENCE, self._say, "waiting until ablate.duckdb is written…"):
            self._sender.join()
        self._close()
        if self._ended:
            count = plural(len(self._ended), "trial")
            self._say(f"not yet, or not completely, in MLflow: {count}; to send what is missing: {self._command}")
        elif self._finishing:
            self._say(f"the page of {self._space} in MLflow is not up to date; to complete it: {self._command}")

    def ended(self, trial_id: str) -> None:
        with self._news:
            self._ended.append(trial_id)
            self._news.notify()

    def finish(self, reports: Reports, say: Say) -> Mirrored:
        """Send the rest, with reports; `say` tells of a wait. Raises as `mirror` does, and MirrorError."""
        with self._news:
            self._finishing, left = True, len(self._ended)
        what = f"sending {plural(left, 'trial')} to MLflow" if left else "bringing MLflow up to date"
        what = f"results are final; {what}… (Ctrl-C is safe: the next run sends the rest; --no-mlflow skips this)"
        with _announced_after(PATIENCE, say, what):
            with self._news:
                self._over = True
                self._news.notify()
            self._sender.join()
            try:
                done = self._ask(partial(mirror, self._store.folder, uri=self._uri, reports=reports))
            except Exception:
                self._ended, self._finishing = [], False  # the caller reports what went wrong
                raise
        self._ended, self._finishing = [], False
        return replace(done, sent=self._sent + done.sent)

    def send_now(self, trials: Sequence[str]) -> bool:
        """Send these trials and return True; False if the run is over, when all is sent. Raises as `finish`."""
        self._store.refresh()
        if self._over:
            return False
        self._sent += self._ask(partial(mirror_ended, self._store.folder, self._space, trials, uri=self._uri)).sent
        return True

    def _ask(self, request: Request) -> Mirrored:
        """Have the process answer a request; this one does at the end of a run in which no trial has ended.

        Where the store is lost, a new process fills it again: the old one still writes to the file that is gone.
        """
        try:
            if not self._is_lost():
                if self._process is None and not self._sender.is_alive():
                    return request()
                done = self._running().ask(request)
                self._hold()
                if not self._is_lost():
                    return done
        except (RefusedError, MirrorError):
            if not self._is_lost():
                raise
        self._say(f"{self._path} was deleted or replaced during this run; it is filled again from the results")
        self._close()
        return self._running().ask(partial(rebuild, self._store.folder, reports=request.keywords.get("reports")))

    def _close(self) -> None:
        with self._news:
            process, file = self._process, self._file
            self._process, self._file, self._is_there = None, None, False
        if process is not None:
            process.close()
        if file is not None:
            file.close()

    def _running(self) -> _Process:
        """The process that sends, started if there is none; MirrorError if the run has stopped."""
        with self._news:
            if self._stopped:
                raise MirrorError("the run has stopped")
            self._process = self._process or _Process()
            return self._process

    def _hold(self) -> None:
        """Keep the store's file open, which is there once something was sent: no later one can be mistaken for it."""
        if self._uri is None and self._file is None:
            self._is_there = True
            with suppress(FileNotFoundError):
                self._file = self._path.open("rb")

    def _is_lost(self) -> bool:
        """True if the results folder's own store was there, and was deleted or replaced."""
        if not self._is_there:
            return False
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return True
        return self._file is not None and not os.path.samestat(os.fstat(self._file.fileno()), there)

    def _send_always(self) -> None:
        """Send in batches, with pauses between them. After a failure, try again only at the end."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or self._over)
                if self._over:
                    return
                trials = list(self._ended)
            began, before = time.monotonic(), self._process
            try:
                if not self.send_now(trials):
                    return
            except (RefusedError, MirrorError, OSError):
                return  # it is tried once more at the end, and reported then
            with self._news:
                del self._ended[: len(trials)]
                started = self._process is not before  # a cost paid once, or again if the store is gone
                rest = 0.0 if started else (time.monotonic() - began) * (1 / SHARE - 1)
                self._news.wait_for(lambda: self._over, timeout=rest)


class _Process:
    """The process that sends, and the requests to it, one at a time."""

    def __init__(self) -> None:
        self._killed = False
        self._pipe, its = Pipe()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
        with its:
            self._process = launch(
                "ablate.session.mirroring",
                its.fileno(),
                pass_fds=(its.fileno(),),
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,
            )

    def ask(self, request: Request) -> Mirrored:
        """Its answer to a request; RefusedError if MLflow refuses, MirrorError if anything else goes wrong."""
        message = pickle.dumps(request)  # which makes the texts of reports
        try:
            self._pipe.send_bytes(message)
            while not self._pipe.poll(LISTENING):
                if self._killed:
                    raise MirrorError("it was killed before it answered")
            answer: Mirrored | Exception = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise MirrorError(self._last_words()) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        self._killed = True
        self._process.kill()

    def close(self) -> None:
        """Kill it if it is still running, and close its pipe; no request may be pending."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=FAREWELL)
        self._pipe.close()
        self._stderr.close()

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=FAREWELL)
        except subprocess.TimeoutExpired:
            return "its process neither answers nor ends"
        self._stderr.seek(0)
        lines = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        return f"its process ended with {code}" + (f": {lines[-1]}" if lines else "")


def main() -> None:
    # A kept connection has the tables loaded, and this process ends before the store's file is replaced.
    os.environ.setdefault(POOL, "QueuePool")
    driver = Connection(int(sys.argv[1]))
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(driver, requests), name="requests", daemon=True).start()
    os.nice(LESS_URGENT)
    known: Experiments = {}
    answer: Mirrored | Exception
    while True:
        request = requests.get()
        try:
            answer = request(known=known)
        except Exception as error:  # noqa: BLE001  MLflow and its database raise many kinds; the driver reports it
            known.clear()  # what was already done is queried again
            kind = RefusedError if isinstance(error, RefusedError) else MirrorError
            answer = kind(str(error) or type(error).__name__)
        driver.send(answer)


def _listen(driver: Connection, requests: queue.SimpleQueue[Request]) -> None:
    """Pass on the driver's requests; once it is gone nothing more is sent, not even the rest of this batch:
    the next driver may already be there."""
    while True:
        try:
            requests.put(driver.recv())
        except (EOFError, OSError):
            os._exit(0)


class EndsTold:
    def __init__(self, watcher: Watcher, mirroring: Mirroring | None):
        self._watcher, self._mirroring = watcher, mirroring

    def started(self, trial_id: str, label: str, steps: int) -> None:
        self._watcher.started(trial_id, label, steps)

    def step(self, trial_id: str, step: int, loss: float) -> None:
        self._watcher.step(trial_id, step, loss)

    def ended(self, trial_id: str, outcome_kind: str, step: int) -> None:
        self._watcher.ended(trial_id, outcome_kind, step)
        if self._mirroring is not None and outcome_kind not in GOES_ON:
            self._mirroring.ended(trial_id)


@contextmanager
def _announced_after(seconds: float, say: Say, what: str) -> Iterator[None]:
    timer = threading.Timer(seconds, say, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
