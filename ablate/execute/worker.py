"""One trial carried out by a worker: claimed, computed, its states saved, and its events sent to the driver.

Every executor, and every test, gets its messages from here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ablate.execute.device import gpus
from ablate.execute.ending import ending_of
from ablate.execute.gpu import peak, take
from ablate.execute.kernel_fingerprint import device_and_kernels
from ablate.execute.rank_processes import trained
from ablate.execute.task import Message, ShouldStop, Task
from ablate.store import checkpoints, machines
from ablate.store.claim import Claim
from ablate.store.versions import ATTENTION, of_machine, same_bits
from ablate.train.events import Attending, Began, Checkpoint, Event, Outcome, Saved, Step, Training

SPEAK_EVERY = 0.25
"""Seconds between messages of a running trial, so that no event waits for as long as a second."""


def messages(task: Task, should_stop: ShouldStop) -> Iterator[Message]:
    """Train one trial and yield its events, several times a second. The last event is always its outcome.

    An error in the trial is an outcome of kind `bug` with the whole trace. An error around it (the disk, the corpus,
    another worker that has it) is `interrupted` with the reason under REFUSED: not the trial's fault.
    """
    outbox = _Outbox(task)
    try:
        with Claim(task.folder, task.trial.id, step=outbox.step) as claim:
            take(task.gpu, task.memory, task.contexts)
            trial = _ClaimedTrial(task, claim)
            try:
                events = trained(trial.task, lambda: trial.limit.is_reached() or should_stop())
                event = next(events, None)
            except (Exception, SystemExit):
                outbox.put(trial.began(None))
                yield outbox.message()
                outbox.empty()
                raise
            outbox.put(trial.began(event))
            yield outbox.message()
            outbox.empty()
            while event is not None:
                told = trial.told(event)
                if told is not None and outbox.put(told):
                    yield outbox.message()
                    outbox.empty()
                event = next(events, None)
        return
    except (Exception, SystemExit) as error:  # noqa: BLE001  a trial's error is its outcome, the trace in its row
        ending = ending_of(error, outbox.step)
    outbox.put(_with_how(ending, task))
    yield outbox.message()  # outside the handler, whose traceback keeps the model alive


class _Outbox:
    """Events on their way to the driver, and the progress of their trial."""

    def __init__(self, task: Task):
        self.step = task.resume.step if task.resume else 0
        self._trial_id = task.trial.id
        self._events: list[Event] = []
        self._emptied_at = time.monotonic()

    def put(self, event: Event | Step) -> bool:
        """Add an event; return whether it, or the time since the last message, calls for a message."""
        self.step = event.step if isinstance(event, Began) else max(self.step, event.step)
        if not isinstance(event, Step):
            self._events.append(event)
        return isinstance(event, Began | Saved | Outcome) or time.monotonic() - self._emptied_at > SPEAK_EVERY

    def message(self) -> Message:
        """Return a message of all pending events."""
        return Message(self._trial_id, tuple(self._events), self.step)

    def empty(self) -> None:
        """Remove the pending events, which have been sent."""
        self._events.clear()
        self._emptied_at = time.monotonic()


class _ClaimedTrial:
    """A trial that this worker has claimed: translates each event of its training for the driver.

    `task` is the one that is carried out: it starts over if its checkpoint was made with other versions.
    """

    def __init__(self, task: Task, claim: Claim):
        dtype = task.trial.recipe.dtype
        computed, memory = device_and_kernels(dtype), [gpu.memory for gpu in gpus()]
        self._versions = machines.record(task.folder, dtype, computed, memory) | {
            name: str(n) for name, n in _cut(task).items()
        }
        self._claim, self.task, self.limit = claim, _from(task, self._versions), _Limit(task.limit)
        self._refused: dict[str, Any] = {}
        self._at = time.time()

    def began(self, first: Training | None) -> Began:
        """Return the event that the trial has started, with the attention backends from its training's `first` event.

        If those are not known (None, or another event), it has the versions that the trial was computed with so far.
        """
        task, versions = self.task, self._versions
        step = task.resume.step if task.resume else 0
        if not isinstance(first, Attending):
            return Began(step, task.versions if task.resume else versions, at=self._at)
        versions = versions | ({ATTENTION: first.operators} if first.uses else {})
        if task.resume and not same_bits(versions, task.versions):  # `compute` has discarded that state, too
            checkpoints.drop(task.folder, task.trial.id)
            step = 0
        refused = [use.described for use in first.uses if use.refused]
        self._refused = {ATTENTION: refused} if refused else {}
        return Began(step, versions, first.uses, self._at)

    def told(self, event: Training) -> Event | Step | None:
        """Return the event for the driver: a state as saved, an outcome with its circumstances; None: send nothing."""
        task = self.task
        match event:
            case Attending():
                return None  # reported when the trial began
            case Step():
                self._claim.beat(event.step)
                return event
            case Checkpoint():
                # A trial that has reached its limit ends here, so nobody resumes from this state.
                return None if self.limit.reached else checkpoints.write(task.folder, task.trial.id, event)
            case Outcome(kind="interrupted", step=step) if self.limit.reached:
                timeout = Outcome("timeout", step, {"error": f"not done after {task.limit:g} s", "limit": task.limit})
                return _with_how(timeout, task)
            case Outcome():
                return _with_how(replace(event, detail=self._refused | event.detail), task)
            case _:
                return event


def _with_how(outcome: Outcome, task: Task) -> Outcome:
    return replace(outcome, detail=_how(task) | outcome.detail)


def _how(task: Task) -> dict[str, Any]:
    """Return the detail of an outcome on how the trial was carried out, if not undivided, alone and on the CPU."""
    read = task.parts * task.ranks
    shared = {"readings": f"means over {read} parts of each batch, except those of parameters"} if read > 1 else {}
    return peak() | _cut(task) | shared


def _cut(task: Task) -> dict[str, int]:
    return {name: n for name, n in (("parts", task.parts), ("ranks", task.ranks)) if n > 1}


def _from(task: Task, versions: dict[str, str]) -> Task:
    """Return the task to carry out: with other versions the bits would differ, so the trial starts over."""
    if task.resume is not None and of_machine(versions) == of_machine(task.versions):
        return task
    checkpoints.drop(task.folder, task.trial.id)
    return replace(task, resume=None)


class _Limit:
    """A limit of `seconds` from now. `reached` is true once the trainer was stopped by it."""

    def __init__(self, seconds: float | None):
        self._end = None if seconds is None else time.monotonic() + seconds
        self.reached = False

    def is_reached(self) -> bool:
        """Return whether the limit is reached; the trainer calls this before every step."""
        self.reached = self.reached or (self._end is not None and time.monotonic() > self._end)
        return self.reached
