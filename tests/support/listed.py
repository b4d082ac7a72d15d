"""Trials that are known beforehand, as a run hands them out: a source for tests of the controller alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ablate.execute.controller import Work
from ablate.plan.plan import Trial
from ablate.train.events import Outcome


class Listed:
    """Hands out its work in order."""

    def __init__(self, work: Iterable[Work]):
        self._work = deque(work)

    @property
    def waiting(self) -> int:
        """How many were not handed out."""
        return len(self._work)

    @property
    def open(self) -> bool:
        """All are known."""
        return False

    def next(self) -> Work | None:
        """The next one."""
        return self._work.popleft() if self._work else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Nothing follows from it."""
