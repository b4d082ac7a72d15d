"""Trials sent to MLflow while others train, in a separate process, and the rest when the run has its answer.

MLflow is a copy of the results folder: a failure there costs no result and delays no trial. What was not sent is sent
at the end, and what could not be sent then, by the next run.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any

from ablate.errors import RefusedError
from ablate.execute.controller import Watcher
from ablate.execute.launch import launch
from ablate.output.words import plural
from ablate.store.mirror import Mirrored, Report, mirror
from ablate.store.mlflow.connection import STORE
from ablate.store.mlflow.sent import Texts
from ablate.store.results import Results
from ablate.train.events import GOES_ON

SHARE = 0.1
"""The largest share of the time that sending takes while trials run."""
PATIENCE = 1.0
"""Seconds that sending may take at the end before a message says what is being waited for."""


LISTENING = 0.1
"""Seconds between checks whether a process that should answer has been killed."""
FAREWELL = 2.0
"""Seconds that a killed process may take to exit; one that hangs in its file system is left to the system."""


class MirrorError(Exception):
    """An unexpected failure of MLflow, or of the process that sends to it."""


class GoneError(MirrorError):
    """The results folder's own store was deleted or replaced while it was written to."""


class Mirroring:
    """The sender of a space's trials as they end: a context manager, to `finish` when the run has its answer.

    `uri` is a tracking server, None the results folder's own store. Nothing is started before a trial has ended. `say`
    prints that the store was deleted meanwhile and, if a run stops without `finish`, what was not sent; `command` sends
    that later.
    """

    def __init__(
        self,
        store: Results,
        space: str,
        uri: str | None,
        *,
        say: Callable[[str], None] = warnings.warn,
        command: str = "ablate run",
    ):
        self._store, self._space, self._uri = store, space, uri
        self._say, self._command = say, command
        self._ended: list[str] = []
        self._news = threading.Condition()
        self._over = self._stopped = False
        self._finishing = False
        self._sent = 0
        self._store_was_there = False
        self._told_of_loss = False
        self._process: _Process | None = None
        self._sender = threading.Thread(target=self._send_always, name="mirror", daemon=True)

    def __enter__(self) -> Mirroring:
        self._store_was_there = self._uri is None and (self._store.folder / STORE).exists()
        self._sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop at once, whatever is being sent: an interrupted batch is completed by the next run.

        Wait only for a write of the DuckDB file, if one is under way: that needs the folder's lock.
        """
        with self._news:
            self._over = self._stopped = True
            self._news.notify()
            if self._process is not None:
                self._process.kill()  # which also ends a pending request
        with _announced_after(PATIENCE, self._say, "waiting until ablate.duckdb is written…"):
            self._sender.join()
        if self._process is not None:
            self._process.close()
        if self._ended:
            count = plural(len(self._ended), "trial")
            self._say(f"not yet, or not completely, in MLflow: {count}; to send what is missing: {self._command}")
        elif self._finishing:
            self._say(f"the page of {self._space} in MLflow is not up to date; to complete it: {self._command}")

    def ended(self, trial_id: str) -> None:
        """Note that a trial has ended, and that its numbers are in the store."""
        with self._news:
            self._ended.append(trial_id)
            self._news.notify()

    def finish(self, reports: Mapping[str, Report], say: Callable[[str], None]) -> Mirrored:
        """Send what is left, with the reports of spaces; `say` prints what is being waited for, if that takes a while.

        Raises what `mirror` raises, and MirrorError.
        """
        self._finishing = True
        with self._news:
            left = len(self._ended)
        what = f"sending {plural(left, 'trial')} to MLflow" if left else "bringing MLflow up to date"
        what = f"results are final; {what}… (Ctrl-C is safe: the next run sends the rest; --no-mlflow skips this)"
        with _announced_after(PATIENCE, say, what):
            with self._news:
                self._over = True
                self._news.notify()
            self._sender.join()
            try:
                done = self._send_whole(reports)
            except Exception:
                self._settle()  # the caller reports what went wrong
                raise
        self._settle()
        return done

    def send_now(self, trials: Sequence[str]) -> bool:
        """Send these trials, unless the run is over, when everything is sent anyway; return whether they were sent.
        Raises what `finish` raises.
        """
        self._store.refresh()
        if self._over or not (process := self._running()):
            return False
        try:
            self._sent += process.ask(("ended", self._space, trials))
        except GoneError:
            self._sent += self._fill_anew({}).sent
        return True

    def _send_whole(self, reports: Mapping[str, Report]) -> Mirrored:
        if self._process is None:
            if self._store_was_there and not (self._store.folder / STORE).exists():
                self._say_gone()
            return mirror(self._store.folder, uri=self._uri, reports=reports)
        try:
            drawn = {space: _drawn(report) for space, report in reports.items()}
            rest: Mirrored = self._process.ask(("whole", drawn))
        except GoneError:
            rest = self._fill_anew(reports)
        return replace(rest, sent=self._sent + rest.sent)

    def _settle(self) -> None:
        """Clear what is left, so that nothing is reported about it."""
        with self._news:
            self._ended.clear()
            self._finishing = False

    def _running(self) -> _Process | None:
        """Return the process that sends, started if there is none; None if the run has stopped."""
        with self._news:
            if self._stopped:
                return None
            if self._process is None:
                self._process = _Process(self._store, self._uri, self._store_was_there)
            return self._process

    def _fill_anew(self, reports: Mapping[str, Report]) -> Mirrored:
        """Have a new process refill the store: the old one still writes to the file that is gone."""
        self._say_gone()
        with self._news:
            gone, self._process, self._store_was_there = self._process, None, False
        if gone is not None:
            gone.close()
        if not (process := self._running()):
            raise MirrorError("the run has stopped")
        anew: Mirrored = process.ask(("anew", {space: _drawn(report) for space, report in reports.items()}))
        return anew

    def _say_gone(self) -> None:
        if not self._told_of_loss:
            self._told_of_loss = True
            path = self._store.folder / STORE
            self._say(f"{path} was deleted or replaced during this run; it is filled again from the results")

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

    def __init__(self, store: Results, uri: str | None, store_was_there: bool):
        self._killed = False
        ours, its = Pipe()
        self._pipe: Connection = ours
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
        with its:
            self._process = launch(
                "ablate.store.mlflow.process",
                its.fileno(),
                told=[(store.folder, uri, store_was_there)],
                pass_fds=(its.fileno(),),
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,
            )

    def ask(self, request: tuple[Any, ...]) -> Any:
        """Return its answer to a request; RefusedError if MLflow refuses, MirrorError if anything else goes wrong."""
        try:
            self._pipe.send(request)
            while not self._pipe.poll(LISTENING):
                if self._killed:
                    raise MirrorError("it was killed before it answered")
            kind, answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise MirrorError(self._last_words()) from error
        if kind == "gone":
            raise GoneError(answer)
        if kind == "refused":
            raise RefusedError(answer)
        if kind == "failed":
            raise MirrorError(answer)
        return answer

    def kill(self) -> None:
        """Kill it, whatever it is doing."""
        self._killed = True
        self._process.kill()

    def close(self) -> None:
        """Kill it if it is still running, and close its pipe; no request may be pending."""
        self.kill()
        self._code()
        self._pipe.close()
        self._stderr.close()

    def _code(self) -> int | None:
        """Return its exit code; None if it does not exit in time."""
        try:
            return self._process.wait(timeout=FAREWELL)
        except subprocess.TimeoutExpired:
            return None

    def _last_words(self) -> str:
        if (code := self._code()) is None:
            return "its process neither answers nor ends"
        self._stderr.seek(0)
        lines = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        return f"its process ended with {code}" + (f": {lines[-1]}" if lines else "")


class EndsTold:
    """A watcher that also notifies a mirror of trials that have ended."""

    def __init__(self, watcher: Watcher, mirroring: Mirroring | None):
        self._watcher, self._mirroring = watcher, mirroring

    def started(self, trial_id: str, label: str, steps: int) -> None:
        """Note that a trial of `steps` steps is running."""
        self._watcher.started(trial_id, label, steps)

    def step(self, trial_id: str, step: int, loss: float) -> None:
        """Note that a trial has reached `step`; `loss` is the last one measured."""
        self._watcher.step(trial_id, step, loss)

    def ended(self, trial_id: str, outcome_kind: str, step: int) -> None:
        """Note that a trial has ended, or paused, after `step` steps."""
        self._watcher.ended(trial_id, outcome_kind, step)
        if self._mirroring is not None and outcome_kind not in GOES_ON:
            self._mirroring.ended(trial_id)


def _drawn(report: Report) -> tuple[dict[str, str], dict[str, str]]:
    """Split a report into the texts that are needed at once, and those that are drawn only when it is sent."""
    told = dict(report.told) if isinstance(report, Texts) else dict(report)
    return told, {name: text for name, text in report.items() if name not in told}


@contextmanager
def _announced_after(seconds: float, say: Callable[[str], None], what: str) -> Iterator[None]:
    """Say what is being waited for, if it takes longer than `seconds`."""
    timer = threading.Timer(seconds, say, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
