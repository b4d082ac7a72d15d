"""The trace of a trial that hangs within a step, beyond the reach of Python, recorded for its row.

The trace goes to `running/<trial>.trace` in the results folder; whoever ends the worker reads it from there.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.execute.policy import GRACE
from ablate.execute.task import Task
from ablate.store.claim import trace_of
from ablate.store.durable import writing
from ablate.train.events import Outcome


@contextmanager
def watched(task: Task, *, exit: bool) -> Iterator[None]:
    """Write the trace of every thread half-way through the grace period after the limit; with `exit`, end the process.

    That needs neither the interpreter nor its lock, so it works while a kernel or a system call never returns.
    RefusedError if the file for the trace cannot be created.
    """
    if task.limit is None:
        yield
        return
    path = trace_of(task.folder, task.trial.id)
    with writing(path):
        path.parent.mkdir(exist_ok=True)
        trace = path.open("wb")
    with trace as file:
        faulthandler.dump_traceback_later(task.limit + GRACE / 2, exit=exit, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            path.unlink(missing_ok=True)


def timed_out(folder: Path, trial_id: str, step: int, limit: float) -> Outcome:
    """Return the outcome of a trial whose worker was killed at its limit, with the trace it has left."""
    path = trace_of(folder, trial_id)
    try:
        trace = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        trace = ""
    path.unlink(missing_ok=True)
    detail = {"error": f"hung: not done after {limit:g} s, and could not be stopped between steps", "limit": limit}
    return Outcome("timeout", step, detail | ({"trace": trace} if trace else {}))
