"""Ray driver: both sides of a trial on Ray Tune: the driver that hands it out and hears of it, and its worker.

All of Tune's side runs on the thread that called `run`. Tune swallows or wraps exceptions, and waits for its workers
before it raises them; so errors of the controller bypass it as an `Escape`.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune import Callback, Stopper, Trainable
from ray.tune.experiment import Trial
from ray.tune.search import Searcher
from ray.tune.stopper import NoopStopper

from ablate.errors import RefusedError
from ablate.execute.executor import (
    NO_STEP,
    REFUSED,
    STARTS_ALLOWED,
    STOP_WITHIN,
    UNTOUCHED,
    Emit,
    Message,
    NextTask,
    ShouldStop,
    Task,
    began_at,
    did_not_stop,
    outcome_of,
)
from ablate.execute.gpu import UNSEEN, give_back, spoils, unseen, with_share
from ablate.execute.worker import messages, timed_out, watched
from ablate.train.events import Outcome

GPUS = "gpus"


class Escape(BaseException):
    """Carries an exception (its cause) out of Tune."""


@contextmanager
def escaping() -> Iterator[None]:
    """Turn any exception inside into an `Escape`, so that Tune does not handle it."""
    try:
        yield
    except Exception as error:
        raise Escape from error


@dataclass
class _RayTrial:
    """A trial that was handed to Tune and has not ended. `worker` is None until a worker has started for it, `begun` is
    that worker's answer to receiving the task, `place` is empty until its first message, `first` is the step that it
    began at, and `dropped` says why its worker was killed when the run was asked to stop."""

    task: Task
    gpus: float
    began: float
    worker: ActorHandle[Any] | None = None
    begun: ray.ObjectRef[None] | None = None
    place: str = ""
    step: int = 0
    first: int = 0
    dropped: str = ""

    def drop(self, why: str) -> None:
        assert self.worker is not None
        self.dropped = why
        ray.kill(self.worker)


class Conductor:
    """The running trials, by Tune's names for them. `gpus` gives the GPUs of a task, `sharing` is how many trials share
    one at most, `stop_within` how many seconds they have to save when the run is asked to stop, and `say` receives
    notices about the workers for the user."""

    def __init__(
        self,
        next_task: NextTask,
        handle: Emit,
        should_stop: ShouldStop,
        slots: Callable[[], int],
        gpus: Callable[[Task], float],
        over: Callable[[Task, Message], None] = lambda task, message: None,
        *,
        sharing: int = 1,
        stop_within: float = STOP_WITHIN,
        say: Callable[[str], None] = warnings.warn,
    ):
        self.running: dict[str, _RayTrial] = {}
        self.over = False
        self._stopping: float | None = None
        self._stop_within = stop_within
        self._next_task, self._handle, self._should_stop, self._slots = next_task, handle, should_stop, slots
        self._gpus, self._over, self._sharing, self._say = gpus, over, sharing, say
        self._warned: set[str] = set()
        self._failed_starts = 0

    def take(self, name: str) -> tuple[Task, float] | None:
        """A task and its GPUs; None if there is no free worker or no task. `over` is set once there will be none."""
        self.look()
        with escaping():
            if not self.stopping and (len(self.running) >= self._slots() or self._one_waits_for_more()):
                return None
            task = None if self.stopping else self._next_task()
            self.over = task is None and not self.running
            if task is None:
                return None
            gpus = self._gpus(task)
        trial = self.running[name] = _RayTrial(_with_memory_share(task, gpus, self._sharing), gpus, time.monotonic())
        trial.step = trial.first = task.start
        return task, gpus

    def _one_waits_for_more(self) -> bool:
        """Smaller trials would overtake one that waits for more GPUs forever."""
        least = min((trial.gpus for trial in self.running.values()), default=0.0)
        return any(trial.worker is None and trial.gpus > least for trial in self.running.values())

    @property
    def stopping(self) -> bool:
        return self._stopping is not None

    def look(self) -> None:
        """Check whether the run was asked to stop, pass that on to the workers, and drop those that do not stop."""
        with escaping():
            if self._stopping is None and self._should_stop():
                self._stopping = time.monotonic()
                for trial in self.running.values():
                    self._stop(trial)
            if self._stopping is not None and time.monotonic() - self._stopping > self._stop_within:
                self._drop_all()

    def _stop(self, trial: _RayTrial) -> None:
        if trial.worker is not None and trial.step > trial.first:
            trial.worker.stop_soon.remote()
        elif trial.worker is not None:
            trial.drop(NO_STEP)

    def _drop_all(self) -> None:
        """Drop the trials that did not stop in time, and end them: Ray may not hear of the end of a hung worker."""
        for name, trial in tuple(self.running.items()):
            if trial.worker is not None:
                if not trial.dropped:
                    trial.drop(did_not_stop(f"a worker ({trial.place})", self._stop_within))
                    self._say(trial.dropped)
                self._end(name, Outcome("interrupted", trial.step, {"error": trial.dropped}))

    def started(self, name: str, worker: ActorHandle[Any]) -> None:
        """Send a trial's task to its worker, which Tune will tell to step right after this."""
        running = self.running[name]
        running.worker, running.began = worker, time.monotonic()
        running.begun = worker.begin.remote(_with_absolute_paths(running.task))
        if self.stopping:
            running.drop(NO_STEP)

    def received(self, name: str, message: Message, place: str) -> None:
        if (running := self.running.get(name)) is None:
            return  # it was dropped, so nothing more may be recorded for it
        running.step, running.place = message.step, place
        running.first = began_at(message, running.first)
        self._failed_starts = 0
        with escaping():
            if outcome_of(message) is not None:
                del self.running[name]
                self._over(running.task, message)
            self._handle(with_share(message, running.task.memory))

    def warned(self, text: str) -> None:
        if text and text not in self._warned:
            self._warned.add(text)
            with escaping():
                self._say(text)

    def lost(self, name: str, error: Exception) -> None:
        """Handle the loss of a trial's worker. If no worker ever starts a trial, the run stops."""
        if (running := self.running.get(name)) is None:
            return
        outcome = _outcome_of(running, error)
        self._end(name, outcome)
        if UNTOUCHED in outcome.detail:
            self._failed_starts += 1
            if self._failed_starts >= STARTS_ALLOWED and not any(trial.place for trial in self.running.values()):
                with escaping():
                    raise RefusedError(
                        f"no worker can be started: {self._failed_starts} in a row were lost before they began a "
                        f"trial, the last: {error}\n"
                        "  = what was trained is kept; once it is fixed, continue with: ablate resume"
                    )

    def end_waiting(self) -> None:
        """End the trials that never had a worker because the run was stopped first."""
        for name in tuple(self.running):
            self._end(name, Outcome("interrupted", self.running[name].step, {"error": NO_STEP}))

    def _end(self, name: str, outcome: Outcome) -> None:
        running = self.running.pop(name)
        with escaping():
            message = Message(running.task.trial.id, (outcome,), running.step)
            self._handle(with_share(message, running.task.memory))


def _with_memory_share(task: Task, gpus: float, sharing: int) -> Task:
    part = 0 < gpus < 1
    return replace(task, memory=gpus if part else None, contexts=sharing if part else 0)


def _with_absolute_paths(task: Task) -> Task:
    """For a process with another working folder."""
    return replace(
        task,
        trial=replace(task.trial, work=replace(task.trial.work, folder=str(Path(task.trial.work.folder).resolve()))),
        folder=task.folder.resolve(),
        plugins=tuple(plugin.resolve() for plugin in task.plugins),
    )


def _outcome_of(running: _RayTrial, error: Exception) -> Outcome:
    limit, trial_id = running.task.limit, running.task.trial.id
    if running.dropped:
        return Outcome("interrupted", running.step, {"error": running.dropped})
    if isinstance(error, RayTaskError) and isinstance(error.cause, RefusedError):
        return Outcome("interrupted", running.step, {"error": str(error.cause), REFUSED: str(error.cause)})
    if isinstance(error, RayTaskError):  # an error around the trial, which reports its own errors itself
        detail = {"error": f"its worker failed: {error.cause!r}", "trace": str(error)}
        return Outcome("interrupted", running.step, detail)
    if limit is not None and running.worker is not None and time.monotonic() - running.began > limit:
        return timed_out(running.task.folder, trial_id, running.step, limit)
    why = "its node was preempted" if isinstance(error, RayActorError) and error.preempted else "its worker was lost"
    detail = {"error": why + (f" ({running.place})" if running.place else ""), "ray": str(error)}
    untouched = {} if running.place or _answered(running.begun) else {UNTOUCHED: True}
    return Outcome("interrupted", running.step, detail | untouched)


def _answered(begun: ray.ObjectRef[None] | None) -> bool:
    if begun is None:
        return False
    try:
        ray.get(begun, timeout=0)
    except RayTaskError:
        return True
    except RayError:
        return False
    return True


class Tasks(Searcher):
    def __init__(self, conductor: Conductor):
        super().__init__()
        self._conductor = conductor

    def suggest(self, trial_id: str) -> dict[str, str | float] | str | None:  # type: ignore[override]  # Tune's own type is wrong
        """A trial to run now; None if there is none at the moment; `FINISHED` once nothing runs either."""
        taken = self._conductor.take(trial_id)
        if taken is not None:
            # The task itself is sent to the worker: Tune would send its configuration back with each result.
            return {"trial": taken[0].trial.id, GPUS: taken[1]}
        return Searcher.FINISHED if self._conductor.over else None

    # Nothing to do: trials report their outcomes themselves, and the journal records what was done.
    def on_trial_complete(self, trial_id: str, *_: object, **__: object) -> None: ...

    def save(self, checkpoint_path: str) -> None: ...

    def restore(self, checkpoint_path: str) -> None: ...


class Ear(Callback):
    """Receives Tune's events about each trial. `staging` is the folder that Tune makes on this machine."""

    def __init__(self, conductor: Conductor):
        self._conductor = conductor
        self.staging: Path | None = None

    def on_step_begin(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        """Called ten times a second, and with each event."""
        self._conductor.look()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self.staging = Path(trial.local_experiment_path).parent
        assert trial.temporary_state.ray_actor is not None
        self._conductor.started(trial.trial_id, trial.temporary_state.ray_actor)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        """The message is taken out of the result so that Tune does not keep it."""
        place = f"process {result['pid']} on {result['hostname']}"
        self._conductor.warned(result.pop(WARNING))
        self._conductor.received(trial.trial_id, result.pop(MESSAGE), place)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        _tidy(trial)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        with escaping():
            error = _error_of(trial)
        _tidy(trial)
        self._conductor.lost(trial.trial_id, error)


def _tidy(trial: Trial) -> None:
    """Tune makes a folder for each trial on this machine: deleting thousands at the end takes seconds."""
    assert trial.local_path is not None
    shutil.rmtree(trial.local_path, ignore_errors=True)


def _error_of(trial: Trial) -> Exception:
    """Read from Tune's files, its only report of it, why a trial lost its worker."""
    if trial.pickled_error_file is not None:
        error = pickle.loads(Path(trial.pickled_error_file).read_bytes())
        assert isinstance(error, Exception)
        return error
    assert trial.error_file is not None
    return RuntimeError(Path(trial.error_file).read_text(encoding="utf-8"))


class StopWaiting(Stopper):
    """Ends the run once it was asked to stop and every worker has: trials that wait for a place would keep waiting."""

    def __init__(self, conductor: Conductor):
        self._conductor = conductor

    def __call__(self, *_: object, **__: object) -> bool:
        return False  # single trials are never stopped this way

    def stop_all(self) -> bool:
        """True if the run is stopping and no trial is left that will report an outcome."""
        running = self._conductor.running.values()
        return self._conductor.stopping and all(trial.worker is None for trial in running)

    def __reduce__(self) -> tuple[type[Stopper], tuple[()]]:
        """Pickle as a no-op: Tune saves its experiment with its stoppers at the end, and nobody reads it."""
        return NoopStopper, ()


# The process on a Ray cluster that carries trials out, one after another.

MESSAGE, WARNING = "message", "warning"  # keys of a result of Tune


class RayWorker(Trainable):
    """A Trainable whose steps are messages. Ray calls an actor's methods in the order they were sent, so what the
    driver sends between two steps, a task or a request to stop, arrives before the next."""

    def setup(self, *_: object, **__: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
        signal.signal(signal.SIGTERM, self._preempt)
        self._warning = ""
        if not ray.get_gpu_ids():
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves GPUs visible that were not requested
        elif unseen():
            self._warning = f"{socket.gethostname()}: {UNSEEN}"
        self._stop = self._preempted = self._said_all = False
        self._messages: Iterator[Message] = iter(())

    def reset_config(self, *_: object, **__: object) -> bool:
        return True  # this process is reused for the next trial

    def begin(self, task: Task) -> None:
        """Take a task; the next step begins it. Sent as a separate call, since Tune sends a trial's configuration back
        with each result."""
        self._messages = _watched_messages(task, lambda: self._stop or self._preempted)

    def stop_soon(self) -> None:
        """End this trial, and any later one of this process, as interrupted at its next step."""
        self._stop = True

    def step(self) -> dict[str, Message | str | bool]:
        """Continue until the next message. A process that was preempted, or whose GPU may be unusable, is not reused:
        it does not report that it is done, and exits when it is told to continue."""
        if self._said_all:
            os._exit(0)
        message = next(self._messages)
        if (outcome := outcome_of(message)) is not None:
            for _ in self._messages:
                raise AssertionError("a trial has spoken after its outcome")
            shutil.rmtree(self.logdir, ignore_errors=True)  # Tune makes one for each trial, which stays empty
            lost = not give_back() or spoils(outcome)
            self._said_all = self._preempted or lost
        return {MESSAGE: message, WARNING: self._warning, "done": outcome is not None and not self._said_all}

    def _preempt(self, *_: object) -> None:
        """SIGTERM: the machine or process is reclaimed; the trial saves its state and resumes elsewhere."""
        self._preempted = True


def _watched_messages(task: Task, should_stop: ShouldStop) -> Iterator[Message]:
    # A node that does not see the results folder reports that itself, with its first message.
    with watched(task, exit=True) if task.folder.is_dir() else nullcontext():
        yield from messages(task, should_stop)
