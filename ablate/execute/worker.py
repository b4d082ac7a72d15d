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
from ablate.execute.ranks import trained
from ablate.execute.task import Message, ShouldStop, Task
from ablate.store import checkpoints
from ablate.store.claim import Claim
from ablate.store.versions import ATTENTION, installed, of_machine
from ablate.train.events import Attending, Began, Checkpoint, Event, Outcome, Row, Saved, Step, Timing, Training

SPEAK_EVERY = 0.25
"""Seconds between messages of a running trial, so that what is a second old has been handed over."""


def messages(task: Task, should_stop: ShouldStop) -> Iterator[Message]:
    """Train one trial; what it yields, several times a second. The last event is always its outcome.

    What goes wrong in the trial is an outcome of kind `bug` with the whole trace. What goes wrong around it (the disk,
    the corpus, another worker that has it) is `interrupted` with the reason under REFUSED: no trial's fault.
    """
    buffer: list[Event] = []
    step = task.resume.step if task.resume else 0
    spoke = time.monotonic()
    for event in _events(task, should_stop):
        step = event.step if isinstance(event, Began) else max(step, event.step)
        if not isinstance(event, Step):
            buffer.append(event)
        if isinstance(event, Began | Saved | Outcome) or time.monotonic() - spoke > SPEAK_EVERY:
            yield Message(task.trial.id, tuple(buffer), step)
            buffer.clear()
            spoke = time.monotonic()


def _events(task: Task, should_stop: ShouldStop) -> Iterator[Event | Step]:
    step = task.resume.step if task.resume else 0
    try:
        for event in _claimed(task, should_stop):
            step = event.step if isinstance(event, Began) else max(step, event.step)
            yield replace(event, detail=_how(task) | event.detail) if isinstance(event, Outcome) else event
        return
    except (Exception, SystemExit) as error:  # noqa: BLE001  what a trial does wrong is its outcome, the trace in its row
        ending = ending_of(error, step)
    yield replace(ending, detail=_how(task) | ending.detail)  # not within the handler, whose trace holds the model


def _how(task: Task) -> dict[str, Any]:
    """What the outcome says of how the trial was carried out, where it was not whole, alone and on the CPU."""
    read = task.parts * task.ranks
    shared = {"readings": f"means over {read} parts of each batch, but for those of parameters"} if read > 1 else {}
    return peak() | _cut(task) | shared


def _cut(task: Task) -> dict[str, int]:
    return {name: n for name, n in (("parts", task.parts), ("ranks", task.ranks)) if n > 1}


def _claimed(task: Task, should_stop: ShouldStop) -> Iterator[Event | Step]:
    with Claim(task.folder, task.trial.id, step=task.resume.step if task.resume else 0) as claim:
        take(task.gpu, task.memory, task.contexts)
        versions = installed() | device_versions() | {name: str(n) for name, n in _cut(task).items()}
        task = _from(task, versions)
        limit, attention = _Limit(task.limit), dict[str, Any]()
        for event in _taken_up(task, versions, trained(task, lambda: limit.is_reached() or should_stop())):
            match event:
                case Began(attention=uses):
                    refused = [use.described for use in uses if use.refused]
                    attention = {ATTENTION: refused} if refused else {}
                    yield event
                case Step():
                    claim.beat(event.step)
                    yield event
                case Checkpoint() if not limit.reached:
                    yield checkpoints.write(task.folder, task.trial.id, event)
                case Checkpoint():
                    pass  # the trial ends here, so nobody goes on from it
                case Outcome(kind="interrupted", step=step) if limit.reached:
                    yield Outcome("timeout", step, {"error": f"not done after {task.limit:g} s", "limit": task.limit})
                case Outcome():
                    yield replace(event, detail=attention | event.detail)
                case _:
                    yield event


def _taken_up(
    task: Task, versions: dict[str, str], events: Iterator[Training]
) -> Iterator[Began | Row | Timing | Step | Checkpoint | Outcome]:
    """What training yields; before it that the trial was taken up, and with what computes its attention.

    Where that has not come to be known, with what it was computed with so far.
    """
    at, step = time.time(), task.resume.step if task.resume else 0
    before = task.versions if task.resume else versions
    try:
        first = next(events, None)
    except (Exception, SystemExit):
        yield Began(step, before, at=at)
        raise
    if isinstance(first, Attending):
        versions = versions | ({ATTENTION: first.operators} if first.uses else {})
        if task.resume and versions != task.versions:  # `compute` has let go of that state, too
            checkpoints.drop(task.folder, task.trial.id)
            step = 0
        yield Began(step, versions, first.uses, at)
    else:
        yield Began(step, before, at=at)
        if first is not None:
            yield first
    for event in events:
        if not isinstance(event, Attending):
            yield event


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
