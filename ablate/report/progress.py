"""The display while trials run: one overall bar with the time left, and a line for each running trial.

Where nothing can be redrawn in place there is a line for each trial that ends, and an overall line at times.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ablate.output import words
from ablate.output.terminal import Text
from ablate.train.events import GOES_ON

BETWEEN_LINES = 10.0  # seconds between overall lines where nothing can be redrawn


@dataclass(slots=True)
class _Line:
    label: str
    steps: int
    began: float
    step: int = 0
    loss: float | None = None


class Progress:
    """A context manager for the progress of `total_trials` (None if unknown) on `workers`.

    `clock` gives seconds and never goes back. Calls may come from one thread while another redraws.
    """

    def __init__(
        self, total_trials: int | None, workers: int, console: Console, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total, self._console, self._clock = total_trials, console, clock
        self._left = TimeLeft(total_trials or 0, workers)
        self._running: dict[str, _Line] = {}
        self._outcomes: dict[str, str] = {}
        self._last_line = clock()
        self._lock = threading.RLock()
        self._live = (
            Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=True)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def started(self, trial_id: str, label: str, steps: int) -> None:
        with self._lock:
            now = self._clock()
            self._outcomes.pop(trial_id, None)
            self._running[trial_id] = _Line(label=label, steps=steps, began=now)
            self._left.started(trial_id, steps, now)
        self._print_overall()

    def step(self, trial_id: str, step: int, loss: float) -> None:
        with self._lock:
            line = self._running[trial_id]
            line.step, line.loss = step, loss
            self._left.step(trial_id, step, self._clock())
        self._print_overall()

    def ended(self, trial_id: str, outcome_kind: str, step: int) -> None:
        """Record that a trial ended (`finished`, `diverged`, …) after `step` steps; it may resume later."""
        with self._lock:
            now, done = self._clock(), outcome_kind not in GOES_ON
            line = self._running.pop(trial_id, None)
            if line:
                line.step = max(line.step, step)
            if done:
                self._outcomes[trial_id] = outcome_kind
            self._left.ended(trial_id, now, finished=outcome_kind == "finished", done=done)
        if not self._live or outcome_kind != "finished":
            self._print_ended(line, trial_id, outcome_kind, now)
        self._print_overall()

    def overall(self) -> str:
        """Return the overall line: `12 of 20 trials, 1 diverged, 2 running, about 4 min left`."""
        with self._lock:
            counts = Counter(self._outcomes.values())
            ended = len(self._outcomes)
            planned = words.plural(self._total or 0, "trial")
            parts = [words.plural(ended, "trial") if self._total is None else f"{ended} of {planned}"]
            parts += [f"{n} {kind.replace('_', ' ')}" for kind, n in counts.items() if kind != "finished"]
            if self._running:
                parts.append(f"{len(self._running)} running")
            return ", ".join(parts if self._total is None else [*parts, self._time_left()])

    def _time_left(self) -> str:
        seconds = self._left.remaining(self._clock())
        if seconds is None:
            return "estimating the time left"
        return "done" if seconds == 0 and not self._running else f"about {words.duration(seconds)} left"

    def _print_ended(self, line: _Line | None, trial_id: str, outcome_kind: str, now: float) -> None:
        parts = [outcome_kind.replace("_", " ")]
        if line:
            parts.append(f"{now - line.began:.0f} s")
            parts += [f"step {line.step}/{line.steps}"] if line.step else []
            parts += [f"train loss {line.loss:.4g}"] if line.loss is not None else []
        place = f"[{len(self._outcomes)}]" if self._total is None else f"[{len(self._outcomes)}/{self._total}]"
        self._print(f"{place} {line.label if line else trial_id}: {', '.join(parts)}")

    def _print_overall(self) -> None:
        if not self._live and self._clock() - self._last_line >= BETWEEN_LINES:
            self._last_line = self._clock()
            self._print(self.overall())

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def _render(self) -> RenderableType:
        with self._lock:
            head = Table.grid(padding=(0, 1))
            if self._total is None:
                head.add_row(self.overall())
            else:
                done = (min(1.0, line.step / max(1, line.steps)) for line in self._running.values())
                ended = len(self._outcomes) + sum(done)
                bar = ProgressBar(total=max(1.0, float(self._total)), completed=ended, width=30)
                head.add_row(bar, self.overall())
            lines = Table.grid(padding=(0, 2))
            for _ in range(2):
                lines.add_column(no_wrap=True)
            for _ in range(2):
                lines.add_column(no_wrap=True, justify="right")
            room = max(1, self._console.height - 4)
            for trial_id, line in list(self._running.items())[:room]:
                pace = self._left.pace(trial_id)
                lines.add_row(
                    Text(f"  {line.label}"),
                    f"step {line.step}/{line.steps}",
                    "" if line.loss is None else f"train loss {line.loss:.4f}",
                    "" if pace is None else f"{pace:.3g} s/step",
                )
            more = len(self._running) - room
            rest = [Text(f"  and {more} more", style="dim")] if more > 0 else []
            return Group(head, lines, *rest)


# An estimate of the time left in a run, from what has been measured in it. Pure: the clock is passed in.
#
# A trial takes its start-up plus steps times the pace (seconds per step between its first and last report). Start-up is
# measured from trials that have ended or reported a step. Remaining trials are then assigned to the workers in order,
# each to the first that is free, as the executor does.

EVIDENCE = 2.0  # seconds of training that must have been measured before any estimate is given: first steps are slow


@dataclass(slots=True)
class _Watched:
    steps: int
    began: float
    first_step: int = 0
    first_at: float | None = None
    step: int = 0
    at: float = 0.0

    @property
    def startup(self) -> float | None:
        return None if self.first_at is None else self.first_at - self.began

    def timed(self) -> tuple[int, float]:
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
        self._over.discard(trial_id)
        self._running[trial_id] = _Watched(steps=steps, began=now)
        self._steps.append(steps)

    def step(self, trial_id: str, step: int, now: float) -> None:
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
