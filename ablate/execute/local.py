"""Worker processes on this machine (see `supervisor`), started once and reused.

A task is handed out only when a worker is there for it. One that dies ends its one trial as interrupted, and is
replaced; one that is sent SIGTERM (its machine is wanted back) saves its trial where it is.

Where there are GPUs a task also waits until a place on one of them is free (see `packing`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from ablate.execute.packer import Packer, with_share
from ablate.execute.policy import GRACE, UNTOUCHED
from ablate.execute.supervisor import Supervisor, WorkerProcess
from ablate.execute.task import Emit, Message, NextTask, ShouldStop, Task, outcome_of
from ablate.execute.watchdog import timed_out
from ablate.train.events import Outcome

LISTEN_FOR = 0.1
"""Seconds to wait for a message before looking whether workers are alive and more is to do."""

STOP_WITHIN = 300.0
"""Seconds that a trial which was asked to stop has to come to its next step and save; then its worker is killed."""


class Local:
    """`workers` processes; with a `packer`, each trial on the GPU and the share of it that it gives.

    `say` is told what a person should know of the workers.
    """

    def __init__(
        self, workers: int, packer: Packer | None = None, *, say: Callable[[str], None] = warnings.warn
    ) -> None:
        self.workers, self._packer, self._say = workers, packer, say

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Carry out all tasks in the workers; see `Executor.run`. RefusedError where none can be started."""
        with Supervisor(self._say) as supervisor:
            _Driver(supervisor, self.workers, handle, self._packer, self._say).drive(next_task, should_stop)


@dataclass
class _LocalTrial:
    """A trial that was handed out and has not sent its outcome. `overdue`: its worker was killed for the limit."""

    task: Task
    worker: WorkerProcess
    began: float
    step: int
    overdue: bool = False


class _Driver:
    """What is handed out to which worker, while a run lasts."""

    def __init__(
        self,
        supervisor: Supervisor,
        workers: int,
        handle: Emit,
        packer: Packer | None,
        say: Callable[[str], None],
    ):
        self.supervisor, self.workers, self.handle, self.packer, self.say = supervisor, workers, handle, packer, say
        self.running: dict[str, _LocalTrial] = {}
        self.waiting: Task | None = None
        self.more = True
        self.stopping: float | None = None

    def drive(self, next_task: NextTask, should_stop: ShouldStop) -> None:
        """Hand out and listen until there is nothing left, or the run was asked to stop and all have."""
        while True:
            if self.stopping is None and should_stop():
                self._stop()
            if self.stopping is None:
                self._hand_out(next_task)
            over = self.stopping is not None or not (self.more or self.waiting)
            if over and not self.running:
                return
            self.supervisor.tend(0 if over else self.workers)
            for worker, message in self.supervisor.hear(LISTEN_FOR):
                if message is None:
                    self._lose(worker)
                else:
                    self._hear(message)
            self._end_overdue()

    def _stop(self) -> None:
        """The run was asked to stop: so is each trial, and what waits ends."""
        self.stopping = time.monotonic()
        for state in self.running.values():
            state.worker.stop()
        if self.waiting is not None:
            task, self.waiting = self.waiting, None
            step, detail = _begun(task), {"error": "asked to stop before it began"}
            self.handle(Message(task.trial.id, (Outcome("interrupted", step, detail),), step))

    def _hand_out(self, next_task: NextTask) -> None:
        """Give tasks to workers that are there. One that finds no worker or no place waits until it does, and others
        behind it. Nothing is asked for before the first worker is there: till then no trial may be begun."""
        while self.supervisor.met and len(self.running) < self.workers:
            self.waiting = self.waiting or next_task()
            self.more = self.waiting is not None
            worker = self.supervisor.idle()
            if self.waiting is None or worker is None:
                return
            task = self.waiting if self.packer is None else self.packer.placed(self.waiting)
            if task is None:
                return
            self.waiting = None
            given = worker.give(task)
            self.running[task.trial.id] = _LocalTrial(task, worker, time.monotonic(), _begun(task))
            if not given:
                worker.leaving = True
                detail = {"error": f"its worker was gone (process {worker.process.pid})", UNTOUCHED: True}
                self._hear(Message(task.trial.id, (Outcome("interrupted", _begun(task), detail),), _begun(task)))

    def _lose(self, worker: WorkerProcess) -> None:
        """A worker has ended. Its trial, if it had one and has not said how that ended, is interrupted."""
        state = next((state for state in self.running.values() if state.worker is worker), None)
        if state is None and not worker.leaving:
            self.say(f"a worker that had no trial was lost ({worker.how})")
        if state is not None:
            self._hear(Message(state.task.trial.id, (_outcome(state, worker),), state.step))

    def _end_overdue(self) -> None:
        """Kill workers whose trials are over their hard limit, or have not stopped when they were asked to."""
        now = time.monotonic()
        for state in self.running.values():
            limit = state.task.limit
            if not state.overdue and limit is not None and now - state.began > limit + GRACE:
                state.overdue = True
                state.worker.process.kill()
            elif self.stopping is not None and now - self.stopping > STOP_WITHIN:
                state.worker.process.kill()

    def _hear(self, message: Message) -> None:
        state = self.running.get(message.trial_id)
        if state is None:
            return  # its trial was given up already, and may not be written to any more
        state.step = message.step
        if outcome_of(message) is not None:
            del self.running[message.trial_id]
            state.worker.task = None
            if self.packer is not None:
                self.packer.over(state.task, message)
                message = with_share(message, self.packer.share(state.task))
        self.handle(message)


def _begun(task: Task) -> int:
    """The step that a task goes on from."""
    return task.resume.step if task.resume else 0


def _outcome(state: _LocalTrial, worker: WorkerProcess) -> Outcome:
    """How a trial ended whose worker is gone and has not said how."""
    task = state.task
    if state.overdue and task.limit is not None:
        return timed_out(task.folder, task.trial.id, state.step, task.limit)
    printed = {"stderr": worker.printed} if worker.printed else {}
    return Outcome("interrupted", state.step, {"error": f"its worker was lost ({worker.how})"} | printed)
