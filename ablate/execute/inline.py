"""The inline executor: trials in this process, one after another, for debugging and for tests without workers."""

from __future__ import annotations

from ablate.execute.task import Emit, NextTask, ShouldStop
from ablate.execute.worker import messages


class Inline:
    """One worker: this process. A trial that hangs in a kernel cannot be stopped here, unlike in other executors."""

    workers = 1

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Carry out each task in turn; see `Executor.run`."""
        while not should_stop() and (task := next_task()) is not None:
            for message in messages(task, should_stop):
                handle(message)
