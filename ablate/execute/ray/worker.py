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
"""Where in a result of Tune the message is."""

WARNING = "warning"
"""And what the user should know of the worker, if anything."""


class RayWorker(Trainable):
    """Each step of Tune is one message. Ray calls an actor's methods in the order they were sent, so what the driver
    sends between two steps, a task or the wish to stop, is there before the next."""

    def setup(self, config: dict[str, Any]) -> None:
        """Called once in a process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
        signal.signal(signal.SIGTERM, self._preempt)
        self._warning = ""
        if not ray.get_gpu_ids():
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves GPUs to be seen that were not asked for
        elif unseen():
            self._warning = f"{socket.gethostname()}: {UNSEEN}"
        self._stop = self._preempted = self._said_all = False
        self._messages: Iterator[Message] = iter(())

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Called before each further trial in the same process."""
        return True

    def begin(self, task: Task) -> None:
        """Take a task; the next step begins it."""
        self._messages = _messages(task, lambda: self._stop or self._preempted)

    def stop_soon(self) -> None:
        """End this trial, and any other, as interrupted at its next step."""
        self._stop = True

    def step(self) -> dict[str, Any]:
        """Go on until there is something to say. A process that was preempted, or whose GPU may be lost to it, is not
        used again: it does not say that it is done, and is gone when it is told to go on."""
        if self._said_all:
            os._exit(0)
        message = next(self._messages)
        if (outcome := outcome_of(message)) is not None:
            for _ in self._messages:
                raise AssertionError("a trial has spoken after its outcome")
            shutil.rmtree(self.logdir, ignore_errors=True)  # Tune makes one for each trial; nothing is put there
            lost = not give_back() or spoils(outcome)
            self._said_all = self._preempted or lost
        return {MESSAGE: message, WARNING: self._warning, "done": outcome is not None and not self._said_all}

    def _preempt(self, *_: object) -> None:
        """Its machine is wanted back, or its process alone: the trial saves where it is and goes on elsewhere."""
        self._preempted = True


def _messages(task: Task, should_stop: ShouldStop) -> Iterator[Message]:
    # A node that does not see the folder of results says so by itself, with its first message.
    with watched(task, exit=True) if task.folder.is_dir() else nullcontext():
        yield from messages(task, should_stop)
