"""What a worker is sent, and what it sends back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ablate.plan.trial import Trial
from ablate.train.events import Event, Outcome, Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A trial to carry out, from the checkpoint `resume` where it has one that was made with the same `versions`.

    `folder` is the folder of results: states are read and written there, and `cache` below it holds the token streams;
    on a cluster all nodes see it under this path. `plugins` are the files of components beyond the shipped ones.
    `limit` seconds after a worker has taken it up the trial ends as `timeout`; one that was interrupted has them anew.
    `until`: once step `until` is done, so that what is measured at it is there, it ends as `paused`, and goes on from
    there when it is handed out again. `parts`: each batch in so many parts, one after another, their gradients added up
    (an answer to too little memory). `ranks`: each batch shared out among so many processes, on a GPU each where there
    are any, and each share in so many `parts`. `gpu` is the one of this machine that it has, or the first of those that
    its ranks have in a row, and `memory` the share of it; None: what its process sees first, all of it. `contexts`: the
    share is one of what so many processes leave of the GPU by being there.
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
        """Where the token streams are."""
        return cache_of(self.folder)


def cache_of(results: Path) -> Path:
    """Where a results folder keeps token streams; several runs may share it."""
    return results / "corpus"


@dataclass(frozen=True, slots=True)
class Message:
    """What a trial has yielded since the last message, and how far it is; without events it is a sign of life."""

    trial_id: str
    events: tuple[Event, ...]
    step: int


def outcome_of(message: Message) -> Outcome | None:
    """How the trial has ended, where that is in the message."""
    return next((event for event in message.events if isinstance(event, Outcome)), None)


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
