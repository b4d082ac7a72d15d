"""A run of a plan whose trials are all known beforehand: those that are not known are trained, then all are judged."""

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
    """The trials of a plan that are not known, in its order.

    `fresh`: what the store knows of them is given up once a worker is there.
    """

    def __init__(self, planned: Planned, store: Results, request: Request, *, fresh: bool = False):
        self._planned, self._store, self._request = planned, store, request
        self._kept = documents(planned, store, train=bool(planned.to_run))
        self._queue = deque(work_of(planned.plan, planned.to_run))
        self._give_up = fresh
        self.total = len(self._queue)

    @property
    def trains(self) -> bool:
        """Whether any is not known."""
        return self.total > 0

    @property
    def waiting(self) -> int:
        """How many were not handed out."""
        return len(self._queue)

    @property
    def open(self) -> bool:
        """All are known."""
        return False

    def begin(self) -> None:
        """Keep the plan."""
        self._store.record_plan(self._planned.plan, self._kept)

    def next(self) -> Work | None:
        """The next one."""
        if self._give_up:
            # Not before a worker is there: until then nothing that is known may be given up.
            self._store.begin_anew(work.trial for work in self._queue)
            self._give_up = False
        return self._queue.popleft() if self._queue else None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Nothing follows from it."""

    def answer(self, ended: EndCounts) -> Run:
        """The plan's comparisons, judged by what has ended."""
        return judged_run(self._planned, ended, self._store, self._kept, self._request)


def judged_run(planned: Planned, ended: EndCounts, store: Results, kept: Documents, request: Request) -> Run:
    """What a plan has come to, its verdicts kept."""
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
    """What the page of a plan shows, with the noise that its own trials have shown."""
    noise = noise_of(folder, planned.plan, planned.space.judge)
    return gather(replace(planned, noise=noise), folder, request=request)
