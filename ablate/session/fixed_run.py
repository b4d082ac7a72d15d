"""A run of a plan whose trials are all known beforehand: those without results are trained, then all are judged."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path

from ablate.execute.controller import EndCounts, Work
from ablate.plan.trial import Trial
from ablate.report.page import PageRecord
from ablate.session.judging import judged
from ablate.session.page_record import gather, unequal_of
from ablate.session.planned import Planned
from ablate.session.run_protocol import documents, failures, meanings, work_of
from ablate.session.run_result import Run
from ablate.space.fair import EQUAL_STEPS
from ablate.store.noise import noise_of
from ablate.store.requests import Request
from ablate.store.results import Results
from ablate.store.serialise import Documents
from ablate.train.events import Outcome


class FixedRun:
    """A run that hands out the trials of a plan that have no results yet, in its order.

    With `fresh`, what the store knows of them is given up once a worker is ready.
    """

    def __init__(self, planned: Planned, store: Results, request: Request, *, fresh: bool = False):
        self._planned, self._store, self._request = planned, store, request
        self._kept = documents(planned, store, train=bool(planned.to_run))
        self._queue = deque(work_of(planned.plan, planned.to_run))
        self._give_up = fresh
        self.total = len(self._queue)

    @property
    def trains(self) -> bool:
        """True if any trial has no result."""
        return self.total > 0

    @property
    def waiting(self) -> int:
        """The number of trials that were not handed out yet."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """False: all trials are known beforehand."""
        return False

    def begin(self) -> None:
        """Store the plan."""
        self._store.record_plan(self._planned.plan, self._kept)

    def next(self) -> Work | None:
        """Return the next trial; None when nothing is left."""
        if self._give_up:
            # Only now is a worker ready: known results must not be given up before.
            self._store.begin_anew(work.trial for work in self._queue)
            self._give_up = False
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Do nothing: no further trial depends on it."""

    def answer(self, ended: EndCounts) -> Run:
        """Judge the plan's comparisons by the trials that have ended."""
        return judged_run(self._planned, ended, self._store, self._kept, self._request)


def judged_run(planned: Planned, ended: EndCounts, store: Results, kept: Documents, request: Request) -> Run:
    """Judge a plan, store its verdicts, and return it as a Run."""
    plan = planned.plan
    summary = judged(plan, planned.space.judge, store)
    return Run(
        plan,
        ended,
        failures(plan, store),
        summary,
        meanings(planned, kept),
        store.folder.absolute(),
        gathered=partial(_gathered, planned, store.folder, request),
        unequal=unequal_of(planned) if planned.space.fair != EQUAL_STEPS else (),
    )


def _gathered(planned: Planned, folder: Path, request: Request) -> PageRecord:
    """Gather what the page of a plan shows, with the noise measured by its own trials."""
    noise = noise_of(folder, planned.plan, planned.space.judge)
    return gather(replace(planned, noise=noise), folder, request=request)
