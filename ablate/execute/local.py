"""A pool of worker processes on this machine.

Workers are started once and reused; a task is handed out only when a worker is free. Each worker sends its messages
through a connection of its own, so that one that dies in mid-sentence garbles nobody else's: it ends its one trial as
interrupted, and is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener, wait
from multiprocessing.synchronize import Event as StopEvent

from pebble import ProcessExpired, ProcessPool

from ablate.execute.lifeline import follow_parent
from ablate.execute.task import Emit, Message, NextTask, ShouldStop, Task
from ablate.execute.work import carry_out
from ablate.train.events import Outcome, OutcomeKind

LISTEN_FOR = 0.1
"""Seconds to wait for a message before looking whether workers are alive and more is to do."""

_outbox: Connection | None = None
_stop: StopEvent | None = None


def _begin_worker(parent: int, address: str, key: bytes, stop: StopEvent) -> None:
    global _outbox, _stop
    follow_parent(parent)
    _outbox, _stop = Client(address, authkey=key), stop


def _work(task: Task) -> None:
    assert _outbox is not None and _stop is not None
    carry_out(task, _outbox.send, _stop.is_set)


@dataclass
class _Running:
    future: Future[None]
    step: int = 0
    ended: bool = False


class Local:
    """`workers` processes."""

    def __init__(self, workers: int):
        self.workers = workers

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Carry out all tasks on the pool; see `Executor.run`."""
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        with _Inbox() as inbox:
            pool = ProcessPool(
                max_workers=self.workers,
                context=context,
                initializer=_begin_worker,
                initargs=(os.getpid(), inbox.address, inbox.key, stop),
            )
            try:
                _Driver(pool, inbox, stop, self.workers, handle).drive(next_task, should_stop)
                pool.close()  # type: ignore[no-untyped-call]
            finally:
                pool.stop()  # type: ignore[no-untyped-call]
                pool.join()


class _Inbox:
    """The driver's ends of the workers' connections; a thread takes in new workers as they report."""

    def __init__(self) -> None:
        self.key = os.urandom(32)
        self._listener = Listener(authkey=self.key)
        self.address = str(self._listener.address)
        self._open: list[Connection] = []
        self._closing = False

    def __enter__(self) -> _Inbox:
        threading.Thread(target=self._take_in, name="inbox", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._listener.close()
        for connection in self._open:
            connection.close()

    def read(self, seconds: float) -> list[Message]:
        """All messages that are here now, waiting up to `seconds` for the first; in order for each worker."""
        messages: list[Message] = []
        while ready := wait(list(self._open), 0.0 if messages else seconds):
            for connection in ready:
                assert isinstance(connection, Connection)
                try:
                    messages.append(connection.recv())
                except (EOFError, OSError):  # its worker is gone, perhaps in mid-sentence
                    self._open.remove(connection)
                    connection.close()
        return messages

    def _take_in(self) -> None:
        while not self._closing:
            try:
                self._open.append(self._listener.accept())
            except (OSError, EOFError, multiprocessing.AuthenticationError):
                if self._closing:
                    return


class _Driver:
    """The driver's side of the pool while it runs."""

    def __init__(self, pool: ProcessPool, inbox: _Inbox, stop: StopEvent, workers: int, handle: Emit):
        self.pool, self.inbox, self.stop, self.workers, self.handle = pool, inbox, stop, workers, handle
        self.running: dict[str, _Running] = {}

    def drive(self, next_task: NextTask, should_stop: ShouldStop) -> None:
        while True:
            if should_stop():
                self.stop.set()
            while not self.stop.is_set() and len(self.running) < self.workers and (task := next_task()) is not None:
                self.running[task.trial.id] = _Running(self.pool.schedule(_work, args=(task,)))
            if not self.running:
                return
            # Looked at before listening: a worker sends its last message before its task is done, so whatever one
            # that is done by now has said is here, and is read first.
            done = [trial_id for trial_id, state in self.running.items() if state.future.done()]
            self._listen()
            for trial_id in done:
                self._conclude(trial_id)

    def _listen(self) -> None:
        for message in self.inbox.read(LISTEN_FOR):
            self.handle(message)
            state = self.running[message.trial_id]
            state.step = message.step
            state.ended |= any(isinstance(event, Outcome) for event in message.events)

    def _conclude(self, trial_id: str) -> None:
        """Forget a trial that has ended; end one that its worker left without an outcome."""
        state = self.running[trial_id]
        if not state.ended:
            error = state.future.exception()
            detail = {"error": f"the worker ended without an outcome: {error!r}"}
            kind: OutcomeKind = "interrupted" if isinstance(error, ProcessExpired) else "bug"
            self.handle(Message(trial_id, (Outcome(kind, state.step, detail),), state.step))
        del self.running[trial_id]
