"""Worker process: the processes that compute trials, from their start to their end.

`main` is that of a worker of the local executor, `main_of_rank` that of the other processes of a trial of several. Both
are started by `launch`. This file loads torch only once the process follows its parent and handles its signals.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from ablate.execute.supervisor import ControlWord, follow_parent

if TYPE_CHECKING:
    from ablate.execute.executor import Task
    from ablate.train.events import Outcome

# A worker of the local executor, started by `supervisor` with a connection to the driver.
#
# It reports that it is ready once everything is imported, then takes one task after another until the connection
# ends. A `STOP` during a trial, or SIGTERM (its machine is being reclaimed), makes the trial save its state and end.


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
        from ablate.execute.executor import Message, outcome_of
        from ablate.execute.gpu import give_back, spoils
        from ablate.execute.worker import ending_of, messages, watched

        last, step = None, task.start
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


# A rank other than 0, with its parent in `sys.argv` and its task on standard input.
#
# When it ends it writes its final message to standard output: the outcome of the trial if this rank failed, None if
# it did not, because the trial ended on all ranks or another rank was lost.

LONGEST_TRACE, LONGEST_TEXT = 2**15, 2**12
"""Bytes of the final message: of a trace, and of any other text. A pipe buffers 2**16 unread bytes."""


def main_of_rank() -> None:
    follow_parent(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # rank 0 saves the trial when the machine is being reclaimed
    # Other code that prints must not be mistaken for the final message.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as words:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        wrong = _follow_rank_0()
        pickle.dump(wrong and _shortened(wrong), words)
    sys.stderr.flush()
    os._exit(1 if wrong else 0)  # and never by leaving the group: see `worker`


def _shortened(outcome: Outcome) -> Outcome:
    """Shorten an outcome to the end of its trace and the beginnings of other long texts: rank 0 reads only after this
    process has ended, so the message has to fit into the pipe."""
    detail = dict(outcome.detail)
    for name, text in detail.items():
        if isinstance(text, str):
            encoded = text.encode(errors="replace")
            part = encoded[-LONGEST_TRACE:] if name == "trace" else encoded[:LONGEST_TEXT]
            detail[name] = part.decode(errors="ignore")
    return replace(outcome, detail=detail)


def _follow_rank_0() -> Outcome | None:
    from ablate.execute.worker import ending_of, follow
    from ablate.train.data_parallel import RankLost
    from ablate.train.events import Outcome

    step = 0
    try:
        for event in follow(*pickle.load(sys.stdin.buffer)):
            step = max(step, event.step)
            if isinstance(event, Outcome) and event.kind == "out_of_memory":
                return event
    except RankLost:
        return None
    except (Exception, SystemExit) as error:  # noqa: BLE001  reported to rank 0, which makes it the trial's outcome
        return ending_of(error, step)
    return None
