"""An estimate of the time left in a run, from what has been measured in it. Pure: the clock is passed in.

A trial takes its start-up plus steps times the pace (seconds per step). The pace is measured between the first and the
last step that a trial reported, start-up from those that have ended or reported a step. Remaining trials are then
assigned to the workers in order, each to the first that is free, as the executor does.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

EVIDENCE = 2.0
"""Seconds of training that must have been measured before any estimate is given: first steps are slow."""


@dataclass(slots=True)
class _Watched:
    """One running trial: when it began, and its first and latest reported step with their times."""

    steps: int
    began: float
    first_step: int = 0
    first_at: float | None = None
    step: int = 0
    at: float = 0.0

    @property
    def startup(self) -> float | None:
        """Seconds before the first report; None while there is none."""
        return None if self.first_at is None else self.first_at - self.began

    def timed(self) -> tuple[int, float]:
        """Steps and seconds between the first report and the latest."""
        return (0, 0.0) if self.first_at is None else (self.step - self.first_step, self.at - self.first_at)


class TimeLeft:
    """An observer of the trials of one run that estimates the time left; `now` is in seconds of any steady clock.

    A trial counts as resumed if its first report comes sooner than its steps could have been done.
    """

    def __init__(self, total_trials: int, workers: int) -> None:
        if total_trials < 0 or workers < 1:
            raise ValueError(f"{total_trials} trials on {workers} workers")
        self._total, self._workers = total_trials, workers
        self._running: dict[str, _Watched] = {}
        self._over: set[str] = set()
        self._timed_steps, self._timed_seconds = 0, 0.0
        self._whole: list[float] = []
        self._steps: list[int] = []

    def started(self, trial_id: str, steps: int, now: float) -> None:
        """Record that a worker started a trial, anew or after an interruption."""
        self._over.discard(trial_id)
        self._running[trial_id] = _Watched(steps=steps, began=now)
        self._steps.append(steps)

    def step(self, trial_id: str, step: int, now: float) -> None:
        """Record that a running trial has done `step` steps. KeyError if it is not running."""
        watched = self._running[trial_id]
        if watched.first_at is None:
            watched.first_step, watched.first_at = step, now
        watched.step, watched.at = step, now

    def ended(self, trial_id: str, now: float, *, finished: bool, done: bool = True) -> None:
        """Record that a trial is over. Only `finished` ones show the time of a whole trial; if not `done` it reruns."""
        watched = self._running.pop(trial_id, None)
        if done:
            self._over.add(trial_id)
        if watched is None:
            return
        steps, seconds = watched.timed()
        self._timed_steps += steps
        self._timed_seconds += seconds
        if finished:
            self._whole.append(now - watched.began + self._skipped(watched))

    def pace(self, trial_id: str | None = None) -> float | None:
        """Return the seconds per step: of a running trial if it has reported enough, else of all; None if unknown."""
        if trial_id is not None and trial_id in self._running:
            steps, seconds = self._running[trial_id].timed()
            if steps and seconds >= EVIDENCE:
                return seconds / steps
        timed = [watched.timed() for watched in self._running.values()]
        all_steps = self._timed_steps + sum(steps for steps, _ in timed)
        all_seconds = self._timed_seconds + sum(seconds for _, seconds in timed)
        return all_seconds / all_steps if all_steps and all_seconds >= EVIDENCE else None

    def remaining(self, now: float) -> float | None:
        """Return the seconds until the last trial ends; None while there is too little evidence."""
        waiting = self._total - len(self._over) - len(self._running)
        if waiting <= 0 and not self._running:
            return 0.0
        whole = self._expected()
        if whole is None:
            return None
        free = sorted(self._rest(trial_id, whole, now) for trial_id in self._running)
        free += [0.0] * (self._workers - len(free))
        heapq.heapify(free)
        for _ in range(waiting):
            heapq.heapreplace(free, free[0] + whole)
        return max(free)

    def _skipped(self, watched: _Watched) -> float:
        """Return the seconds that a resumed trial saved by work done before this run; 0 for a fresh one."""
        steps, seconds = watched.timed()
        if not steps or watched.startup is None:
            return 0.0
        return max(0.0, watched.first_step * seconds / steps - watched.startup)

    def _expected(self) -> float | None:
        """Return the seconds of a whole trial: the mean of those finished, else start-up and pace of those running."""
        if self._whole:
            return sum(self._whole) / len(self._whole)
        pace = self.pace()
        if pace is None:
            return None
        fresh = [
            max(0.0, watched.startup - watched.first_step * pace)
            for watched in self._running.values()
            if watched.startup is not None
        ]
        startup = sum(fresh) / len(fresh) if fresh else 0.0
        return startup + pace * sum(self._steps) / len(self._steps)

    def _rest(self, trial_id: str, whole: float, now: float) -> float:
        watched, pace = self._running[trial_id], self.pace(trial_id)
        if watched.first_at is None or pace is None:
            return max(0.0, whole - (now - watched.began))
        return max(0.0, (watched.steps - watched.step) * pace - (now - watched.at))
