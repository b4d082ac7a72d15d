"""Inline: trials one after another in this process, for debugging and tests.

A trial that hangs in a kernel cannot be stopped here.
"""

from __future__ import annotations

from ablate.errors import InputError
from ablate.execute.executor import Emit, ExecutorOptions, NextTask, ShouldStop
from ablate.execute.executors.declare import Setup, executor, implements


@executor("inline", source="this work", takes=("workers", "pack"))
class Config:
    """One worker, and a GPU that is not shared."""

    @staticmethod
    def check(options: ExecutorOptions) -> None:
        if (options.workers or 1) > 1:
            raise InputError("--workers has no effect with --executor inline: it is one process\n  = leave it out")
        if options.pack is not None:
            raise InputError(
                "--pack has no effect with --executor inline, which runs one trial at a time\n  = leave one of them out"
            )


from ablate.execute.worker import messages


@implements(Config)
class Inline:
    """One worker: this process."""

    workers = 1

    def __init__(self, setup: Setup | None = None) -> None: ...

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        while not should_stop() and (task := next_task()) is not None:
            for message in messages(task, should_stop):
                handle(message)
