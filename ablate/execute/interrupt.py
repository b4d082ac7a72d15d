"""Ctrl-C, or a polite kill: once, and running trials save where they are; twice, and everything stops at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While entered, SIGINT and SIGTERM set `asked` instead of raising; the second one raises KeyboardInterrupt."""

    def __init__(self, say: Callable[[str], None]):
        self.asked = False
        self._say = say
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether the run was asked to stop."""
        return self.asked

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._say("stopping: running trials save where they are (once more stops at once)")
