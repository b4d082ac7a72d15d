"""One trial carried out. Every executor, and every test, runs this function."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from ablate.compiler import compile_model
from ablate.components.registry import declarations
from ablate.data.batches import Batches, evaluation_windows
from ablate.data.streams import prepare
from ablate.errors import RefusedError
from ablate.execute.device import device
from ablate.execute.task import Emit, Message, ShouldStop, Task
from ablate.train.events import Checkpoint, Event, Outcome
from ablate.train.loop import train
from ablate.train.loss import parameter_type
from ablate.train.threads import pin_threads

SPEAK_EVERY = 0.25
"""Seconds between messages of a running trial, so that what is a second old has been handed over."""


class _Undelivered(BaseException):
    """A message could not be handed over: not the trial's fault, and not to be taken for its outcome."""


def carry_out(task: Task, emit: Emit, should_stop: ShouldStop) -> None:
    """Train one trial, handing over what it yields several times a second; the last event is always its outcome.

    What goes wrong in the trial is an outcome of kind `bug` with the whole trace; nothing is raised but by `emit`.
    """
    buffer: list[Event] = []
    step = task.resume.step if task.resume else 0
    spoke = time.monotonic()

    def speak() -> None:
        nonlocal spoke
        try:
            emit(Message(task.trial.id, tuple(buffer), step))
        except Exception as error:
            raise _Undelivered from error
        buffer.clear()
        spoke = time.monotonic()

    def step_begins() -> bool:
        """The trainer asks this before every step."""
        nonlocal step
        step += 1
        if time.monotonic() - spoke > SPEAK_EVERY:
            speak()
        return should_stop()

    try:
        try:
            for event in _events(task, step_begins):
                buffer.append(event)
                step = max(step, event.step)
                if isinstance(event, Checkpoint | Outcome):
                    speak()
        except Exception as error:  # noqa: BLE001  whatever a trial does wrong is its outcome, the trace in its row
            detail = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
            buffer.append(Outcome("bug", step, detail))
            speak()
    except _Undelivered as undelivered:
        assert undelivered.__cause__ is not None
        raise undelivered.__cause__ from None


def _events(task: Task, should_stop: ShouldStop) -> Iterator[Event]:
    trial = task.trial
    pin_threads(trial.threads)
    streams = prepare(trial.data, Path(trial.folder), task.cache)
    if streams.fingerprint != trial.corpus:
        raise RefusedError(
            f"the corpus changed since the trial was planned: {trial.corpus[:16]} then, {streams.fingerprint[:16]} now"
        )
    sizes = trial.architecture.sizes
    model = compile_model(
        trial.architecture,
        declarations(task.plugins),
        seed=trial.seed,
        salt=trial.salt,
        dtype=parameter_type(trial.recipe.dtype),
        device=device(),
    )
    batches = Batches(streams.train, sizes.seq_len, trial.recipe.batch, trial.seed)
    evaluation = evaluation_windows(streams.verdict, sizes.seq_len, trial.measure.evaluation.windows)
    yield from train(
        model, trial, batches, evaluation, resume=task.resume.state if task.resume else None, should_stop=should_stop
    )
