"""What a worker is sent, and what it sends back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ablate.plan.trial import Trial
from ablate.train.events import Checkpoint, Event


@dataclass(frozen=True, slots=True)
class Task:
    """A trial to carry out, from the checkpoint `resume` where it has one.

    `cache` holds the token streams; `plugins` are the files of components beyond the shipped ones.
    """

    trial: Trial
    resume: Checkpoint | None
    cache: Path
    plugins: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """What a trial has yielded since the last message, and how far it is; without events it is a sign of life."""

    trial_id: str
    events: tuple[Event, ...]
    step: int


Emit = Callable[[Message], None]
ShouldStop = Callable[[], bool]
NextTask = Callable[[], "Task | None"]


class Executor(Protocol):
    """Carries out tasks and hands over every message, in order for each trial, on the calling thread."""

    workers: int

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Ask for a task whenever a worker is free; return when there is none and every trial has sent its outcome.

        Once `should_stop` is true no task is asked for, and what runs ends as interrupted. A worker that dies ends its
        trial as interrupted too, with the reason in the outcome's detail: it may be asked for again.
        """
        ...
