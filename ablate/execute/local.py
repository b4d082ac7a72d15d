"""A pool of worker processes on this machine.

Workers are started once and reused. Each sends its messages through one queue, which keeps their order; a task is
handed out only when a worker is free. A worker that dies ends its one trial as interrupted, and is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.synchronize import Event as StopEvent
from typing import Any

from pebble import ProcessExpired, ProcessPool

from ablate.execute.cores import available_cores
from ablate.execute.lifeline import follow_parent
from ablate.execute.task import Emit, Message, NextTask, ShouldStop, Task
from ablate.execute.work import carry_out
from ablate.train.events import Outcome, OutcomeKind

LISTEN_FOR = 0.1
GRACE = 5.0
"""Seconds for the last messages of a worker that is done to come through the queue."""

_outbox: Any = None
_stop: StopEvent | None = None


def _begin_worker(parent: int, outbox: Any, stop: StopEvent) -> None:
    global _outbox, _stop
    follow_parent(parent)
    _outbox, _stop = outbox, stop


def _work(task: Task) -> None:
    assert _stop is not None
    carry_out(task, _outbox.put, _stop.is_set)


@dataclass
class _Running:
    future: Future[None]
    step: int = 0
    ended: bool = False
    done_at: float | None = None


class Local:
    """`workers` processes; by default one for each core that this process may use."""

    def __init__(self, workers: int | None = None):
        self.workers = workers or available_cores()

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Carry out all tasks on the pool; see `Executor.run`."""
        context = multiprocessing.get_context("spawn")
        outbox: Any = context.Queue()
        stop = context.Event()
        pool = ProcessPool(
            max_workers=self.workers, context=context, initializer=_begin_worker, initargs=(os.getpid(), outbox, stop)
        )
        try:
            _Driver(pool, outbox, stop, self.workers, handle).drive(next_task, should_stop)
            pool.close()  # type: ignore[no-untyped-call]
        finally:
            pool.stop()  # type: ignore[no-untyped-call]
            pool.join()
            outbox.close()


class _Driver:
    """The driver's side of the pool while it runs."""

    def __init__(self, pool: ProcessPool, outbox: Any, stop: StopEvent, workers: int, handle: Emit):
        self.pool, self.outbox, self.stop, self.workers, self.handle = pool, outbox, stop, workers, handle
        self.running: dict[str, _Running] = {}

    def drive(self, next_task: NextTask, should_stop: ShouldStop) -> None:
        while True:
            if should_stop():
                self.stop.set()
            while not self.stop.is_set() and len(self.running) < self.workers and (task := next_task()) is not None:
                self.running[task.trial.id] = _Running(self.pool.schedule(_work, args=(task,)))
            if not self.running:
                return
            self._listen()
            for trial_id, state in list(self.running.items()):
                self._look_after(trial_id, state)

    def _listen(self) -> None:
        """Hand over all that has come, waiting a moment for the first."""
        wait = LISTEN_FOR
        while True:
            try:
                message: Message = self.outbox.get(timeout=wait) if wait else self.outbox.get_nowait()
            except queue.Empty:
                return
            wait = 0.0
            self.handle(message)
            state = self.running[message.trial_id]
            state.step = message.step
            state.ended |= any(isinstance(event, Outcome) for event in message.events)

    def _look_after(self, trial_id: str, state: _Running) -> None:
        """Forget a trial that has ended; end one whose worker died; do not wait for ever for a message in the queue."""
        if not state.future.done():
            return
        if not state.ended:
            state.done_at = state.done_at or time.monotonic()
            error = state.future.exception()
            if error is None and time.monotonic() - state.done_at < GRACE:
                return
            # A worker killed in mid-sentence may have said more; what is in the queue by now belongs to the trial.
            self._listen()
            if not state.ended:
                detail = {"error": f"the worker ended without an outcome: {error!r}"}
                kind: OutcomeKind = "interrupted" if isinstance(error, ProcessExpired) else "bug"
                self.handle(Message(trial_id, (Outcome(kind, state.step, detail),), state.step))
        del self.running[trial_id]
