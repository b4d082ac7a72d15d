"""The process on a Ray cluster that carries trials out, one after another."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import ray
from ray.tune import Trainable

from ablate.execute.gpu import UNSEEN, give_back, spoils, unseen
from ablate.execute.task import Message, ShouldStop, Task, outcome_of
from ablate.execute.watchdog import watched
from ablate.execute.worker import messages

MESSAGE = "message"
"""The key of the message in a result of Tune."""

WARNING = "warning"
"""The key of a notice about the worker for the user, if any."""


class RayWorker(Trainable):
    """A Trainable whose steps are messages. Ray calls an actor's methods in the order they were sent, so what the
    driver sends between two steps, a task or a request to stop, arrives before the next."""

    def setup(self, config: dict[str, Any]) -> None:
        """Set up the process; called once."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
        signal.signal(signal.SIGTERM, self._preempt)
        self._warning = ""
        if not ray.get_gpu_ids():
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves GPUs visible that were not requested
        elif unseen():
            self._warning = f"{socket.gethostname()}: {UNSEEN}"
        self._stop = self._preempted = self._said_all = False
        self._messages: Iterator[Message] = iter(())

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Accept the reuse of this process; called before each further trial."""
        return True

    def begin(self, task: Task) -> None:
        """Take a task; the next step begins it."""
        self._messages = _messages(task, lambda: self._stop or self._preempted)

    def stop_soon(self) -> None:
        """End this trial, and any other, as interrupted at its next step."""
        self._stop = True

    def step(self) -> dict[str, Any]:
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
        """Handle SIGTERM, when the machine or process is reclaimed: the trial saves its state and resumes elsewhere."""
        self._preempted = True


def _messages(task: Task, should_stop: ShouldStop) -> Iterator[Message]:
    # A node that does not see the results folder reports that itself, with its first message.
    with watched(task, exit=True) if task.folder.is_dir() else nullcontext():
        yield from messages(task, should_stop)
