"""The process of a worker of `local`: `main`, started by `supervisor` with a connection to the driver.

It reports that it is ready once everything is imported, then takes one task after another until the connection ends.
A `STOP` during a trial, or SIGTERM (its machine is being reclaimed), makes the trial save its state and end.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from enum import Enum
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from ablate.execute.lifeline import follow_parent

if TYPE_CHECKING:
    from ablate.execute.task import Task


class ControlWord(Enum):
    """Control signals between driver and worker, besides tasks and messages."""

    READY = "everything is imported: ready for tasks"
    LEAVING = "the worker exits after this trial, whose outcome follows"
    STOP = "end the trial as interrupted at its next step"


def main() -> None:
    """Carry out tasks until the driver closes the connection; `sys.argv` has the connection and the driver's id."""
    follow_parent(int(sys.argv[2]))
    faulthandler.enable()  # a crash in a kernel leaves its trace on standard error, which the driver reads
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    connection: Connection[Any, Any] = Connection(descriptor)
    worker = _Worker(connection)
    signal.signal(signal.SIGTERM, worker.preempt)
    import ablate.execute.worker  # noqa: F401  with torch, once for all trials

    connection.send(ControlWord.READY)
    worker.serve()


class _Worker:
    def __init__(self, connection: Connection[Any, Any]):
        self._connection = connection
        self._busy = self._preempted = self._stop = False

    def preempt(self, *_: object) -> None:
        """Exit; with a trial, once it is saved."""
        self._preempted = True
        if not self._busy:
            os._exit(0)

    def serve(self) -> None:
        """Carry out each task that comes."""
        while True:
            try:
                task = self._connection.recv()
            except (EOFError, OSError):
                return
            if task is not ControlWord.STOP:  # which comes too late if the trial has already ended by itself
                self._busy = True
                self._carry_out(task)
                self._busy = False

    def _carry_out(self, task: Task) -> None:
        """Carry out a task. A worker that was preempted, or whose GPU may be unusable, takes no further task and exits,
        to be replaced. The outcome is sent last: the driver then gives the trial's memory to others."""
        from ablate.execute.ending import ending_of
        from ablate.execute.gpu import give_back, spoils
        from ablate.execute.task import Message, outcome_of
        from ablate.execute.watchdog import watched
        from ablate.execute.worker import messages

        last, step = None, task.resume.step if task.resume else 0
        try:
            with watched(task, exit=False):
                for message in messages(task, self._asked_to_stop):
                    if outcome_of(message) is None:
                        self._connection.send(message)
                        step = message.step
                    else:
                        last = message
        except Exception as error:  # noqa: BLE001  an error around a trial is reported as its outcome
            last = Message(task.trial.id, (ending_of(error, step),), step)
        assert last is not None
        outcome = outcome_of(last)
        leaving = not give_back() or (outcome is not None and spoils(outcome)) or self._preempted
        if leaving:
            self._connection.send(ControlWord.LEAVING)
        self._connection.send(last)
        if leaving:
            os._exit(0)

    def _asked_to_stop(self) -> bool:
        if not self._stop and self._connection.poll():
            try:
                self._stop = self._connection.recv() is ControlWord.STOP
            except (EOFError, OSError):  # the driver is gone, so nobody receives the outcome
                self._stop = True
        return self._stop or self._preempted
