"""Ctrl-C or SIGTERM: the first makes running trials save their state, the second stops everything at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While entered, SIGINT and SIGTERM set `requested` instead of raising; the second one raises KeyboardInterrupt."""

    def __init__(self, say: Callable[[str], None]):
        self.requested = False
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
        """Return whether the run was asked to stop."""
        return self.requested

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._say("stopping: running trials save their state (interrupt again to stop at once)")
