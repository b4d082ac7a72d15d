"""Local: the executors of this machine, in worker processes or in this process, and the choice of a run's executor.

`Local` starts its worker processes once and reuses them (see `supervisor`). A worker that dies ends its trial as
interrupted, and is replaced; one that gets SIGTERM (its machine is being reclaimed) saves the state of its trial. When
the run is asked to stop, trials save their state; those that have no step to save, and those that do not answer in
time, lose their workers. With GPUs, a task waits until there is room on one of them (see `gpu`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.execute import gpu
from ablate.execute.executor import (
    GRACE,
    NO_STEP,
    STOP_WITHIN,
    UNTOUCHED,
    Emit,
    Executor,
    ExecutorOptions,
    Message,
    NextTask,
    ShouldStop,
    Task,
    began_at,
    default_workers,
    did_not_stop,
    outcome_of,
)
from ablate.execute.gpu import MemoryForecast, Packer, with_share
from ablate.execute.ray import RayTune
from ablate.execute.supervisor import Supervisor, WorkerProcess
from ablate.execute.worker import messages, timed_out
from ablate.plan.plan import Trial
from ablate.train.events import Outcome

LISTEN_FOR = 0.1  # seconds to wait for a message before checking whether workers are alive and more work is available


class Local:
    """An executor of `workers` processes; a `packer` assigns each trial a GPU and its share of that. Trials have
    `stop_within` seconds to save when the run is asked to stop; `say` receives notices for the user."""

    def __init__(
        self,
        workers: int,
        packer: Packer | None = None,
        *,
        stop_within: float = STOP_WITHIN,
        say: Callable[[str], None] = warnings.warn,
    ) -> None:
        self.workers, self._packer, self._stop_within, self._say = workers, packer, stop_within, say

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """RefusedError if no worker can be started."""
        with Supervisor(self._say) as supervisor:
            driver = _Driver(supervisor, self.workers, handle, self._packer, self._stop_within, self._say)
            driver.drive(next_task, should_stop)


@dataclass
class _LocalTrial:
    """A trial that was handed out and has not sent its outcome. `first` is the step that it began at. `overdue`: its
    worker was killed at the limit; `dropped`: it was killed when the run was asked to stop, and why."""

    task: Task
    worker: WorkerProcess
    began: float
    step: int
    first: int
    overdue: bool = False
    dropped: str = ""

    def drop(self, why: str) -> None:
        self.dropped = why
        self.worker.process.kill()


class _Driver:
    def __init__(
        self,
        supervisor: Supervisor,
        workers: int,
        handle: Emit,
        packer: Packer | None,
        stop_within: float,
        say: Callable[[str], None],
    ):
        self.supervisor, self.workers, self.handle, self.packer, self.say = supervisor, workers, handle, packer, say
        self.stop_within = stop_within
        self.running: dict[str, _LocalTrial] = {}
        self.waiting: Task | None = None
        self.more = True
        self.stopping: float | None = None

    def drive(self, next_task: NextTask, should_stop: ShouldStop) -> None:
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
        self.stopping = time.monotonic()
        for state in self.running.values():
            if state.step > state.first:
                state.worker.stop()
            else:
                state.drop(NO_STEP)
        if self.waiting is not None:
            task, self.waiting = self.waiting, None
            self.handle(Message(task.trial.id, (Outcome("interrupted", task.start, {"error": NO_STEP}),), task.start))

    def _hand_out(self, next_task: NextTask) -> None:
        """Give tasks to free workers. A task without a worker or a place waits, and later ones wait behind it. No task
        is requested before the first worker is ready: until then no trial may begin."""
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
            self.running[task.trial.id] = _LocalTrial(task, worker, time.monotonic(), task.start, task.start)
            if not given:
                worker.leaving = True
                detail = {"error": f"its worker was gone (process {worker.process.pid})", UNTOUCHED: True}
                self._hear(Message(task.trial.id, (Outcome("interrupted", task.start, detail),), task.start))

    def _lose(self, worker: WorkerProcess) -> None:
        state = next((state for state in self.running.values() if state.worker is worker), None)
        if state is None and not worker.leaving and self.stopping is None:
            self.say(f"a worker that had no trial was lost ({worker.how})")
        if state is not None:
            self._hear(Message(state.task.trial.id, (_outcome(state, worker),), state.step))

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for state in self.running.values():
            limit = state.task.limit
            if not state.overdue and limit is not None and now - state.began > limit + GRACE:
                state.overdue = True
                state.worker.process.kill()
            elif self.stopping is not None and not state.dropped and now - self.stopping > self.stop_within:
                state.drop(did_not_stop(f"the worker in process {state.worker.process.pid}", self.stop_within))
                self.say(state.dropped)

    def _hear(self, message: Message) -> None:
        state = self.running.get(message.trial_id)
        if state is None:
            return  # its trial has already ended, so nothing more may be recorded for it
        state.step = message.step
        state.first = began_at(message, state.first)
        if outcome_of(message) is not None:
            del self.running[message.trial_id]
            state.worker.task = None
            if self.packer is not None:
                self.packer.over(state.task, message)
                message = with_share(message, self.packer.share(state.task))
        self.handle(message)


def _outcome(state: _LocalTrial, worker: WorkerProcess) -> Outcome:
    task = state.task
    if state.overdue and task.limit is not None:
        return timed_out(task.folder, task.trial.id, state.step, task.limit)
    if state.dropped:
        return Outcome("interrupted", state.step, {"error": state.dropped})
    printed = {"stderr": worker.printed} if worker.printed else {}
    return Outcome("interrupted", state.step, {"error": f"its worker was lost ({worker.how})"} | printed)


class Inline:
    """One worker: this process, for debugging and tests. A trial that hangs in a kernel cannot be stopped here."""

    workers = 1

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        while not should_stop() and (task := next_task()) is not None:
            for message in messages(task, should_stop):
                handle(message)


# The executor that the options of a run name: in this process, in workers on this machine, or on Ray.


def build_executor(
    options: ExecutorOptions,
    threads: int,
    say: Callable[[str], None],
    *,
    plugins: tuple[Path, ...] = (),
    known: Iterable[tuple[Trial, Outcome]] = (),
) -> Executor:
    """Build the executor for trials of `threads` threads, with the components that trials are planned with. `say`
    receives notices for the user; `known` are trials of earlier runs, whose measured memory is used for similar ones.
    InputError if this machine has fewer GPUs than a trial has processes."""
    if options.executor == "inline":
        return Inline()
    if options.executor == "local":
        return _build_local(options, threads, say, declarations(plugins), known)
    return RayTune(
        options.workers,
        address=options.address,
        cpus=float(threads) * options.processes if options.cpus is None else options.cpus,
        gpus=options.gpus,
        ranks=options.processes,
        pack=options.pack,
        forecast=None if options.pack is None else MemoryForecast(declarations(plugins), known),
        stop_within=options.patience,
        say=say,
    )


def _build_local(
    options: ExecutorOptions,
    threads: int,
    say: Callable[[str], None],
    catalogue: Catalogue,
    known: Iterable[tuple[Trial, Outcome]],
) -> Executor:
    there, ranks, pack = gpu.gpus(), options.processes, options.pack
    workers = options.workers or default_workers(threads, [gpu.memory for gpu in there], ranks, pack)
    stop_within = options.patience
    if not there:
        if pack is not None:
            say(f"--pack {pack} has no effect: this machine has no GPU")
        return Local(workers, stop_within=stop_within, say=say)
    if ranks > 1 and len(there) < ranks:
        raise InputError(
            f"--ranks {ranks}: each process needs a GPU of its own, and this machine has {len(there)}\n"
            f"  = use --ranks {len(there)}, or Ray with a machine that has more"
        )
    if pack is None and options.workers:
        pack = -(-workers // len(there))
    packer = Packer(there, catalogue, workers=workers, pack=pack, ranks=ranks, known=known)
    if options.workers and packer.slots < options.workers:
        say(f"the GPUs can run {packer.slots} trials at a time, of the {options.workers} requested")
    return Local(min(workers, packer.slots), packer, stop_within=stop_within, say=say)
