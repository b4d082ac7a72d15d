"""The tasks that a worker is sent, and the messages that it sends back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ablate.plan.trial import Trial
from ablate.train.events import Began, Event, Outcome, Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A trial to carry out, from the checkpoint `resume` if it has one that was made with the same `versions`.

    `folder` is the results folder: states are read and written there, and `cache` below it holds the token streams; on
    a cluster all nodes see it under this path. `plugins` are the files of components beyond the shipped ones. `limit`
    seconds after a worker has started it the trial ends as `timeout`; an interrupted trial gets the full limit again.
    `until`: once step `until` is done, including its measurements, it ends as `paused`, and resumes from there when it
    is handed out again. `parts`: the number of microbatches of each batch, whose gradients are accumulated (to save
    memory). `ranks`: the number of processes among which each batch is divided, on a GPU each if there are any, and
    each share into `parts`. `gpu` is its GPU on this machine, or the first of the consecutive GPUs of its ranks, and
    `memory` its share of that; None: the first that its process sees, all of it. `contexts`: the share is one of the
    memory that the CUDA contexts of that many processes leave.
    """

    trial: Trial
    folder: Path
    resume: Saved | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[Path, ...] = ()
    limit: float | None = None
    until: int | None = None
    parts: int = 1
    ranks: int = 1
    gpu: int | None = None
    memory: float | None = None
    contexts: int = 0

    @property
    def cache(self) -> Path:
        """The folder of the token streams."""
        return cache_of(self.folder)


def cache_of(results: Path) -> Path:
    """Return the folder of token streams in a results folder; several runs may share it."""
    return results / "corpus"


@dataclass(frozen=True, slots=True)
class Message:
    """The events of a trial since the last message, and its progress; without events it is a heartbeat."""

    trial_id: str
    events: tuple[Event, ...]
    step: int


def outcome_of(message: Message) -> Outcome | None:
    """Return the outcome of the trial if it is in the message."""
    return next((event for event in message.events if isinstance(event, Outcome)), None)


def began_at(message: Message, before: int) -> int:
    """Return the step that a trial began at if it is in the message, which is 0 where it starts over; else `before`."""
    return next((event.step for event in message.events if isinstance(event, Began)), before)


Emit = Callable[[Message], None]
ShouldStop = Callable[[], bool]
NextTask = Callable[[], "Task | None"]


class Executor(Protocol):
    """Carries out tasks and hands over every message, in order for each trial, on the calling thread."""

    workers: int

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Request a task whenever a worker is free; return when there is none and every trial has sent its outcome.

        Once `should_stop` is true no task is requested, and running trials end as interrupted. A worker that dies ends
        its trial as interrupted too, with the reason in the outcome's detail: it may be handed out again.
        """
        ...
