"""One trial carried out by a worker: claimed, computed, its states saved, and told to the driver as it comes.

Every executor, and every test, takes its messages from here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ablate.execute.device import device_versions
from ablate.execute.ending import ending_of
from ablate.execute.gpu import peak, take
from ablate.execute.rank_processes import trained
from ablate.execute.task import Message, ShouldStop, Task
from ablate.store import checkpoints
from ablate.store.claim import Claim
from ablate.store.versions import ATTENTION, installed, of_machine
from ablate.train.events import Attending, Began, Checkpoint, Event, Outcome, Saved, Step, Training

SPEAK_EVERY = 0.25
"""Seconds between messages of a running trial, so that what is a second old has been handed over."""


def messages(task: Task, should_stop: ShouldStop) -> Iterator[Message]:
    """Train one trial; what it yields, several times a second. The last event is always its outcome.

    What goes wrong in the trial is an outcome of kind `bug` with the whole trace. What goes wrong around it (the disk,
    the corpus, another worker that has it) is `interrupted` with the reason under REFUSED: no trial's fault.
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
    except (Exception, SystemExit) as error:  # noqa: BLE001  what a trial does wrong is its outcome, the trace in its row
        ending = ending_of(error, outbox.step)
    outbox.put(_with_how(ending, task))
    yield outbox.message()  # not within the handler, whose trace holds the model


class _Outbox:
    """Events on their way to the driver, and how far their trial is."""

    def __init__(self, task: Task):
        self.step = task.resume.step if task.resume else 0
        self._trial_id = task.trial.id
        self._events: list[Event] = []
        self._emptied_at = time.monotonic()

    def put(self, event: Event | Step) -> bool:
        """Take an event; whether it, or the time that has passed, asks for a message."""
        self.step = event.step if isinstance(event, Began) else max(self.step, event.step)
        if not isinstance(event, Step):
            self._events.append(event)
        return isinstance(event, Began | Saved | Outcome) or time.monotonic() - self._emptied_at > SPEAK_EVERY

    def message(self) -> Message:
        """All that is there."""
        return Message(self._trial_id, tuple(self._events), self.step)

    def empty(self) -> None:
        """Begin the next message: this one was taken."""
        self._events.clear()
        self._emptied_at = time.monotonic()


class _ClaimedTrial:
    """A trial that this worker has: what the driver is told of each event that its training yields.

    `task` is the one that is carried out: it begins anew where its checkpoint was made with other versions.
    """

    def __init__(self, task: Task, claim: Claim):
        self._versions = installed() | device_versions() | {name: str(n) for name, n in _cut(task).items()}
        self._claim, self.task, self.limit = claim, _from(task, self._versions), _Limit(task.limit)
        self._refused: dict[str, Any] = {}
        self._at = time.time()

    def began(self, first: Training | None) -> Began:
        """That it was taken up, by the first event of its training: with what computes its attentions.

        Where that has not come to be known (None, or another event), with what it was computed with so far.
        """
        task, versions = self.task, self._versions
        step = task.resume.step if task.resume else 0
        if not isinstance(first, Attending):
            return Began(step, task.versions if task.resume else versions, at=self._at)
        versions = versions | ({ATTENTION: first.operators} if first.uses else {})
        if task.resume and versions != task.versions:  # `compute` has let go of that state, too
            checkpoints.drop(task.folder, task.trial.id)
            step = 0
        refused = [use.described for use in first.uses if use.refused]
        self._refused = {ATTENTION: refused} if refused else {}
        return Began(step, versions, first.uses, self._at)

    def told(self, event: Training) -> Event | Step | None:
        """The event as the driver is told of it, a state saved, an outcome with how it came about; None: not at all."""
        task = self.task
        match event:
            case Attending():
                return None  # told when it began
            case Step():
                self._claim.beat(event.step)
                return event
            case Checkpoint():
                # One that has reached its limit ends here, so nobody goes on from it.
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
    """What the outcome says of how the trial was carried out, where it was not whole, alone and on the CPU."""
    read = task.parts * task.ranks
    shared = {"readings": f"means over {read} parts of each batch, but for those of parameters"} if read > 1 else {}
    return peak() | _cut(task) | shared


def _cut(task: Task) -> dict[str, int]:
    return {name: n for name, n in (("parts", task.parts), ("ranks", task.ranks)) if n > 1}


def _from(task: Task, versions: dict[str, str]) -> Task:
    """The task as it goes on. With other versions the bits would be others, so the trial starts over."""
    if task.resume is not None and versions == of_machine(task.versions):
        return task
    checkpoints.drop(task.folder, task.trial.id)
    return replace(task, resume=None)


class _Limit:
    """A limit of so many seconds from now. `reached` is whether the trainer was stopped for it."""

    def __init__(self, seconds: float | None):
        self._end = None if seconds is None else time.monotonic() + seconds
        self.reached = False

    def is_reached(self) -> bool:
        """Asked by the trainer before every step."""
        self.reached = self.reached or (self._end is not None and time.monotonic() > self._end)
        return self.reached
