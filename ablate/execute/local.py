"""A pool of worker processes on this machine.

Workers are started once and reused; a task is handed out only when a worker is free. Each worker sends its messages
through a connection of its own, so that one that dies in mid-sentence garbles nobody else's: it ends its one trial as
interrupted, and is replaced. One that is sent SIGTERM (its machine is wanted back) saves its trial where it is.

Where there are GPUs a task also waits until a place on one of them is free (see `packing`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener, wait
from multiprocessing.synchronize import Event as StopEvent

from pebble import ProcessExpired, ProcessPool

from ablate.errors import RefusedError
from ablate.execute.gpu import give_back, spoils
from ablate.execute.lifeline import follow_parent
from ablate.execute.packer import Packer, with_share
from ablate.execute.policy import GRACE, REFUSED
from ablate.execute.task import Emit, Message, NextTask, ShouldStop, Task, outcome_of
from ablate.execute.watchdog import timed_out, watched
from ablate.execute.worker import messages
from ablate.train.events import Outcome

LISTEN_FOR = 0.1
"""Seconds to wait for a message before looking whether workers are alive and more is to do."""

_outbox: Connection | None = None
_stop: StopEvent | None = None
_preempted = False


def _begin_worker(parent: int, address: str, key: bytes, stop: StopEvent) -> None:
    global _outbox, _stop
    follow_parent(parent)
    signal.signal(signal.SIGTERM, _preempt)
    _outbox, _stop = Client(address, authkey=key), stop


def _preempt(*_: object) -> None:
    global _preempted
    _preempted = True


def _work(task: Task) -> None:
    """Carry out a task. A worker that was preempted, or whose GPU may be lost to it, does no other: it makes room for a
    new one. The outcome is said last: the driver then gives the trial's memory to others."""
    assert _outbox is not None and _stop is not None
    stop, last = _stop, None
    with watched(task, exit=False):
        for message in messages(task, lambda: _preempted or stop.is_set()):
            if outcome_of(message) is None:
                _outbox.send(message)
            else:
                last = message
    assert last is not None
    outcome = outcome_of(last)
    lost = not give_back() or (outcome is not None and spoils(outcome))
    _outbox.send(last)
    if _preempted or lost:
        os._exit(0)


@dataclass
class _Running:
    """A trial that was handed out and has not sent its outcome."""

    task: Task
    future: Future[None]
    began: float
    step: int = 0


class Local:
    """`workers` processes; with a `packer`, each trial on the GPU and the share of it that it gives."""

    def __init__(self, workers: int, packer: Packer | None = None):
        self.workers, self._packer = workers, packer

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Carry out all tasks on the pool; see `Executor.run`."""
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        with _Inbox() as inbox:

            def new_pool() -> ProcessPool:
                return ProcessPool(
                    max_workers=self.workers,
                    context=context,
                    initializer=_begin_worker,
                    initargs=(os.getpid(), inbox.address, inbox.key, stop),
                )

            driver = _Driver(new_pool, inbox, stop, self.workers, handle, self._packer)
            try:
                driver.drive(next_task, should_stop)
                driver.pool.close()  # type: ignore[no-untyped-call]
            finally:
                driver.pool.stop()  # type: ignore[no-untyped-call]
                driver.pool.join()


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
                time.sleep(LISTEN_FOR)  # what is wrong may last, as when no file can be opened any more


class _Driver:
    """The driver's side of the pool while it runs."""

    def __init__(
        self,
        new_pool: Callable[[], ProcessPool],
        inbox: _Inbox,
        stop: StopEvent,
        workers: int,
        handle: Emit,
        packer: Packer | None = None,
    ):
        self.new_pool, self.pool = new_pool, new_pool()
        self.inbox, self.stop, self.workers, self.handle, self.packer = inbox, stop, workers, handle, packer
        self.running: dict[str, _Running] = {}
        self.waiting: Task | None = None

    def drive(self, next_task: NextTask, should_stop: ShouldStop) -> None:
        while True:
            if should_stop():
                self.stop.set()
                self._give_up_waiting()
            # A worker that has sent its outcome is as good as free: the next task waits for it, not it for the task.
            while not self.stop.is_set() and len(self.running) < self.workers and (task := self._next(next_task)):
                self.running[task.trial.id] = _Running(task, self._schedule(task), time.monotonic())
            if not self.running:
                return
            # Looked at before listening: a worker sends its last message before its task is done, so whatever one
            # that is done by now has said is here, and is read first.
            done = [state for state in self.running.values() if state.future.done()]
            for message in self.inbox.read(LISTEN_FOR):
                self._hear(message)
            for state in done:
                if self.running.get(state.task.trial.id) is state:
                    trial_id = state.task.trial.id
                    self._hear(Message(trial_id, (_outcome(state),), state.step))

    def _next(self, next_task: NextTask) -> Task | None:
        """The next task there is a place for. One that finds none waits until it does, and others behind it."""
        task = self.waiting or next_task()
        if task is None or self.packer is None:
            return task
        placed = self.packer.placed(task)
        self.waiting = task if placed is None else None
        return placed

    def _give_up_waiting(self) -> None:
        if self.waiting is not None:
            trial_id, step = self.waiting.trial.id, self.waiting.resume.step if self.waiting.resume else 0
            self.waiting = None
            detail = {"error": "asked to stop before it began"}
            self.handle(Message(trial_id, (Outcome("interrupted", step, detail),), step))

    def _schedule(self, task: Task) -> Future[None]:
        hard = None if task.limit is None else task.limit + GRACE
        try:
            return self.pool.schedule(_work, args=(task,), timeout=hard)
        except RuntimeError:
            # pebble gives a pool up when a worker dies while none of them has a task.
            self.pool = self.new_pool()
            return self.pool.schedule(_work, args=(task,), timeout=hard)

    def _hear(self, message: Message) -> None:
        state = self.running.get(message.trial_id)
        if state is None:
            return  # its trial was given up already, and may not be written to any more
        state.step = message.step
        if outcome_of(message) is not None:
            del self.running[message.trial_id]
            if self.packer is not None:
                self.packer.over(state.task, message)
                message = with_share(message, self.packer.share(state.task))
        self.handle(message)


def _outcome(state: _Running) -> Outcome:
    """How a trial ended whose worker is done with it and has not said how."""
    error, task, seconds = state.future.exception(), state.task, time.monotonic() - state.began
    # pebble goes by a clock that can be set; a trial that was ended because it was has not timed out.
    if isinstance(error, TimeoutError) and task.limit is not None and seconds > task.limit:
        return timed_out(task.folder, task.trial.id, state.step, task.limit)
    if isinstance(error, RefusedError):
        return Outcome("interrupted", state.step, {"error": str(error), REFUSED: str(error)})
    detail = {"error": f"the worker ended without an outcome: {error!r}"}
    return Outcome("interrupted" if isinstance(error, ProcessExpired | TimeoutError) else "bug", state.step, detail)
