"""Ctrl-C or SIGTERM: while trials run, the first has them save their state; otherwise everything stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from ablate.execute.policy import STOP_WITHIN

AGAIN = 0.1
"""Seconds after which a KeyboardInterrupt that Python has ignored, as where objects are collected, is raised again."""
LAST = 3.0
"""Seconds after the time that trials have to save; then everything stops at once, whatever is still under way."""


class Interrupt:
    """While entered, SIGINT and SIGTERM raise KeyboardInterrupt; within `trials`, the first sets `requested` instead.

    It does so once an executor asks for it: while workers are started, there is nothing to save.

    `within` seconds later, and `LAST`, KeyboardInterrupt is raised all the same: workers that did not stop were killed
    before.
    """

    def __init__(self, say: Callable[[str], None], within: float = STOP_WITHIN):
        self.requested = False
        self._say, self._within = say, within
        self._trains = self._asked = self._at_once = False
        self._before: dict[int, Any] = {}
        self._deadline = threading.Timer(within + LAST, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
        self._deadline.daemon = True
        self._again: threading.Timer | None = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._on_ignored
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in filter(None, (self._deadline, self._again)):
            timer.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            sys.unraisablehook = self._hook
        if self._at_once and isinstance(error, Exception):
            raise KeyboardInterrupt from error  # libraries raise errors of their own for it

    def __call__(self) -> bool:
        """Return whether the run was asked to stop."""
        self._asked = True
        if self._at_once and not self.requested:
            self._request()  # a library has swallowed it while it started
        return self.requested

    @contextmanager
    def trials(self) -> Iterator[None]:
        """Let running trials save their state at the first signal."""
        if self._at_once:
            raise KeyboardInterrupt  # a library has swallowed it
        self._trains, self._asked = True, False
        try:
            yield
        finally:
            self._trains = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested or not (self._trains and self._asked):
            self._at_once = True
            raise KeyboardInterrupt
        self._request()

    def _on_ignored(self, ignored: sys.UnraisableHookArgs) -> None:
        if ignored.exc_type is not KeyboardInterrupt:
            self._hook(ignored)
            return
        self._again = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        self._again.daemon = True
        self._again.start()

    def _request(self) -> None:
        self.requested = True
        self._deadline.start()
        self._say(f"stopping: trials save their state, {self._within:g} s at most (again to stop at once)")
