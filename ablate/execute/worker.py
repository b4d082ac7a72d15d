"""One trial carried out by a worker: claimed, computed, its states saved, and told to the driver as it comes.

Every executor, and every test, takes its messages from here.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator

from ablate.errors import RefusedError
from ablate.execute.device import device_name
from ablate.execute.policy import REFUSED
from ablate.execute.task import Message, ShouldStop, Task
from ablate.execute.work import compute
from ablate.store import checkpoints
from ablate.store.claim import Claim
from ablate.store.versions import installed
from ablate.train.events import Began, Checkpoint, Event, Outcome, Saved, Step

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
        step = max(step, event.step)
        if not isinstance(event, Step):
            buffer.append(event)
        if isinstance(event, Saved | Outcome) or time.monotonic() - spoke > SPEAK_EVERY:
            yield Message(task.trial.id, tuple(buffer), step)
            buffer.clear()
            spoke = time.monotonic()


def _events(task: Task, should_stop: ShouldStop) -> Iterator[Event | Step]:
    step = task.resume.step if task.resume else 0
    try:
        for event in _claimed(task, should_stop):
            step = max(step, event.step)
            yield event
    except RefusedError as error:
        yield Outcome("interrupted", step, {"error": str(error), REFUSED: str(error)})
    except Exception as error:  # noqa: BLE001  whatever a trial does wrong is its outcome, the trace in its row
        yield Outcome("bug", step, {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()})


def _claimed(task: Task, should_stop: ShouldStop) -> Iterator[Event | Step]:
    with Claim(task.folder, task.trial.id, step=task.resume.step if task.resume else 0) as claim:
        versions = installed() | {"device": device_name()}
        resume = _state(task, versions)
        yield Began(task.resume.step if task.resume and resume else 0, versions)
        limit = _Limit(task.limit)
        training = compute(
            task.trial,
            cache=task.cache,
            plugins=task.plugins,
            resume=resume,
            should_stop=lambda: limit.is_reached() or should_stop(),
        )
        for event in training:
            match event:
                case Step():
                    claim.beat(event.step)
                    yield event
                case Checkpoint() if not limit.reached:
                    yield checkpoints.write(task.folder, task.trial.id, event)
                case Checkpoint():
                    pass  # the trial ends here, so nobody goes on from it
                case Outcome(kind="interrupted", step=step) if limit.reached:
                    yield Outcome("timeout", step, {"error": f"not done after {task.limit:g} s", "limit": task.limit})
                case _:
                    yield event


def _state(task: Task, versions: dict[str, str]) -> bytes | None:
    """The state to go on from. With other versions the bits would be others, so the trial starts over."""
    if task.resume is not None and versions == task.versions:
        state = checkpoints.read(task.folder, task.trial.id, task.resume)
        if state is None:
            raise RefusedError(
                f"the checkpoint of trial {task.trial.id} at step {task.resume.step} is not as it was written\n"
                "  = run again: the trial then goes on from what is whole"
            )
        return state
    checkpoints.drop(task.folder, task.trial.id)
    return None


class _Limit:
    """A limit of so many seconds from now. `reached` is whether the trainer was stopped for it."""

    def __init__(self, seconds: float | None):
        self._end = None if seconds is None else time.monotonic() + seconds
        self.reached = False

    def is_reached(self) -> bool:
        """Asked by the trainer before every step."""
        self.reached = self.reached or (self._end is not None and time.monotonic() > self._end)
        return self.reached
