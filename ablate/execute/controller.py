"""Controller: hands out the trials of a run, records their results, and stops at Ctrl-C.

A trial that lost its worker or lacked memory is handed out again as `executor` says.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from ablate.errors import RefusedError
from ablate.execute.executor import (
    DEATHS_ALLOWED,
    LACKED,
    REFUSED,
    SHARE,
    STOP_WITHIN,
    UNCUT,
    UNTOUCHED,
    WORKERS,
    Attempt,
    Executor,
    ExecutorOptions,
    Message,
    ShouldStop,
    Task,
    after_lack,
)
from ablate.plan.plan import Trial
from ablate.store import claim
from ablate.train.events import GOES_ON, Began, Outcome, Row, Saved

if TYPE_CHECKING:
    from ablate.store.results import Results

AGAIN = "again"  # in the detail of an interrupted trial: its next attempt, unless from its checkpoint


class Watcher(Protocol):
    """An observer of a run's progress (see `report.progress.Progress`)."""

    def started(self, trial_id: str, label: str, steps: int) -> None: ...

    def step(self, trial_id: str, step: int, loss: float) -> None:
        """The progress of a trial; `loss` is the last one measured."""

    def ended(self, trial_id: str, outcome_kind: str, step: int) -> None:
        """A trial has ended, or stopped for now (`interrupted`), after `step` steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A trial to train, with its label on the screen; `until` is the rung it is to pause at."""

    trial: Trial
    label: str
    until: int | None = None


class WorkSource(Protocol):
    """The source of a run's trials."""

    @property
    def waiting(self) -> int:
        """The number of known trials that have not been handed out."""

    @property
    def open(self) -> bool:
        """True if more trials may follow than are known now."""

    def next(self) -> Work | None:
        """Return the next work; None if there is none now, which is final once nothing runs any more."""

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended, or paused at its rung; its results are in the store."""


@dataclass
class EndCounts:
    """The ends of the trials of one run, by kind of outcome; `waiting` trials were left when it was stopped, and if it
    is `open` more might have followed."""

    kinds: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    open: bool = False

    @property
    def interrupted(self) -> bool:
        return bool(self.waiting or self.open or self.kinds["interrupted"])

    @property
    def lost(self) -> bool:
        """True if the run ended because of lost trials, which others may wait for, and not because it was stopped."""
        return bool(self.kinds["lost"] and not (self.waiting or self.kinds["interrupted"]))


class Controller:
    """Carries out the work of a source; the results of the trials are in `results` when `run` returns. `plugins` are
    the components beyond the shipped ones. Unfinished trials resume from their checkpoints."""

    def __init__(
        self,
        source: WorkSource,
        results: Results,
        options: ExecutorOptions,
        *,
        plugins: tuple[Path, ...] = (),
        watcher: Watcher,
        should_stop: ShouldStop,
        say: Callable[[str], None],
    ):
        self._source, self._results, self._options, self._plugins = source, results, options, plugins
        self._watcher, self._should_stop, self._say = watcher, should_stop, say
        self._again: deque[Work] = deque()
        self._running: dict[str, Work] = {}
        self._losses: dict[str, float] = {}
        self._deaths: Counter[str] = Counter()
        self._attempts: dict[str, Attempt] = {}
        self._anew: set[str] = set()
        self._notices: set[str] = set()
        self._interrupted: set[str] = set()
        self._ended = EndCounts()

    def run(self, executor: Executor) -> EndCounts:
        """Carry out all work; RefusedError if the environment does not allow it."""
        executor.run(self._next_task, self._handle, self._should_stop)
        for trial_id in self._interrupted:  # a worker that was killed may still have been alive when its trial ended
            claim.forget(self._results.folder, trial_id)
        self._ended.waiting += len(self._again) + self._source.waiting
        self._ended.open = self._source.open
        return self._ended

    def _next_task(self) -> Task | None:
        work = self._again.popleft() if self._again else self._source.next()
        if work is None:
            return None
        trial = work.trial
        start = self._results.begin(trial)
        self._running[trial.id] = work
        if trial.id not in self._attempts:
            parts = int(start.versions.get("parts", 1)) if start.resume else 1
            self._attempts[trial.id] = Attempt.going_on(parts)
        attempt = self._attempts[trial.id]
        steps = trial.work.recipe.steps
        self._watcher.started(trial.id, work.label, steps if work.until is None else min(work.until + 1, steps))
        return Task(
            trial=trial,
            folder=self._results.folder.resolve(),
            resume=start.resume,
            versions=start.versions,
            plugins=self._plugins,
            limit=self._options.limit,
            until=work.until,
            parts=attempt.parts,
            ranks=self._options.processes,
            memory=1.0 if attempt.alone else None,
        )

    def _handle(self, message: Message) -> None:
        work = self._running[message.trial_id]
        trial = work.trial
        events = [self._settled(trial, event) if isinstance(event, Outcome) else event for event in message.events]
        self._results.append(trial.id, events)
        for event in events:
            match event:
                case Row(metric="train_loss"):
                    self._losses[trial.id] = event.value
                case Began(attention=uses):
                    for notice in (use.described for use in uses if use.described not in self._notices):
                        self._notices.add(notice)
                        self._say(notice)
                case Saved():
                    self._deaths[trial.id] = 0
                case Outcome():
                    self._end(work, event)
                    return
        if trial.id in self._losses:
            self._watcher.step(trial.id, message.step, self._losses[trial.id])

    def _settled(self, trial: Trial, outcome: Outcome) -> Outcome:
        """The final outcome of a trial; one that is tried again at once is only interrupted."""
        if outcome.kind == "out_of_memory":
            return self._lacking(trial, outcome)
        if outcome.kind == "interrupted":
            return self._stopped(trial, outcome)
        lacked = self._attempts[trial.id].lacked
        return replace(outcome, detail=outcome.detail | {LACKED: list(lacked)}) if lacked else outcome

    def _stopped(self, trial: Trial, outcome: Outcome) -> Outcome:
        """`lost` for a trial that lost its worker too often; one that was stopped or may resume is not over."""
        if REFUSED in outcome.detail or UNTOUCHED in outcome.detail or self._should_stop():
            return outcome
        self._deaths[trial.id] += 1
        if self._deaths[trial.id] <= DEATHS_ALLOWED:
            return outcome
        return replace(outcome, kind="lost", detail=outcome.detail | {WORKERS: self._deaths[trial.id]})

    def _lacking(self, trial: Trial, outcome: Outcome) -> Outcome:
        """Lack of memory is final only if nothing is left to try."""
        from ablate.train.microbatches import most_parts  # imports torch, which a run that trains nothing never loads

        attempt = self._attempts[trial.id]
        most = 1 if UNCUT in outcome.detail else most_parts(trial.work.recipe.batch, self._options.processes)
        then = after_lack(attempt, most=most, share=outcome.detail.get(SHARE, 1.0))
        if then is None:
            return replace(outcome, detail=outcome.detail | {LACKED: [*attempt.lacked, attempt.parts]})
        self._attempts[trial.id] = then
        if then.parts == attempt.parts:
            error, again = "out of memory while sharing its GPU", "it resumes with a GPU of its own"
        else:
            error, again = "out of memory", f"it starts over with each batch in {then.parts} parts"
            self._anew.add(trial.id)
        return Outcome("interrupted", outcome.step, {"error": error, AGAIN: again})

    def _end(self, work: Work, outcome: Outcome) -> None:
        trial = work.trial
        del self._running[trial.id]
        claim.forget(self._results.folder, trial.id)
        if outcome.kind == "interrupted":
            self._interrupted.add(trial.id)
        self._watcher.ended(trial.id, outcome.kind, outcome.step)
        if REFUSED in outcome.detail:
            raise RefusedError(outcome.detail[REFUSED])
        if trial.id in self._anew:
            self._anew.remove(trial.id)
            self._results.begin_anew([trial])  # a state made with other parts cannot be resumed by this attempt
        if outcome.kind == "interrupted" and not self._should_stop():
            why = outcome.detail.get("error", "its worker was asked to stop")
            self._say(f"{work.label}: {why}; {outcome.detail.get(AGAIN, 'it resumes from its checkpoint')}")
            self._again.append(work)
            return
        if outcome.kind == "interrupted" and not outcome.step:
            self._ended.waiting += 1  # nothing is kept of it
            return
        self._ended.kinds[outcome.kind] += 1
        if outcome.kind != "interrupted":
            self._source.ended(trial, outcome)
        if outcome.kind not in GOES_ON:
            del self._attempts[trial.id]


# Ctrl-C or SIGTERM: while trials run, the first has them save their state; otherwise everything stops at once.

RAISE_AGAIN_AFTER = 0.1
"""Seconds after which a KeyboardInterrupt that Python has ignored, as where objects are collected, is raised again."""
LAST_SECONDS = 3.0
"""Seconds after the time that trials have to save; then everything stops at once, whatever is still under way."""


class Interrupt:
    """While entered, SIGINT and SIGTERM raise KeyboardInterrupt; within `trials`, the first sets `requested` instead,
    once an executor asks for it: while workers are started, there is nothing to save. `LAST_SECONDS` after the `within`
    seconds, when workers that did not stop have been killed, KeyboardInterrupt is raised all the same."""

    def __init__(self, say: Callable[[str], None], within: float = STOP_WITHIN):
        self.requested = False
        self._say, self._within = say, within
        self._trains = self._asked = self._at_once = False
        self._before: dict[int, Any] = {}
        self._deadline = threading.Timer(
            within + LAST_SECONDS, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)
        )
        self._deadline.daemon = True
        self._again: threading.Timer | None = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._on_ignored
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for timer in filter(None, (self._deadline, self._again)):
            timer.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            sys.unraisablehook = self._hook
        if self._at_once and isinstance(error, Exception):
            raise KeyboardInterrupt from error  # libraries raise errors of their own for it

    def __call__(self) -> bool:
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
        self._again = threading.Timer(
            RAISE_AGAIN_AFTER, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
        )
        self._again.daemon = True
        self._again.start()

    def _request(self) -> None:
        self.requested = True
        self._deadline.start()
        self._say(f"stopping: trials save their state, {self._within:g} s at most (again to stop at once)")
