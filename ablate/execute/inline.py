"""In this process, one trial after another: for debugging, and for tests that need no workers."""

from __future__ import annotations

from ablate.execute.task import Emit, NextTask, ShouldStop
from ablate.execute.worker import messages


class Inline:
    """One worker: this process. A trial that hangs within a step cannot be ended here; the other executors can."""

    workers = 1

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Carry out each task in turn; see `Executor.run`."""
        while not should_stop() and (task := next_task()) is not None:
            for message in messages(task, should_stop):
                handle(message)
