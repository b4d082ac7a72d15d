"""The controller: hands out what the plan asks for and the store does not know yet, and writes down what comes back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ablate.errors import RefusedError
from ablate.execute.policy import DEATHS_ALLOWED, REFUSED, WORKERS_LOST
from ablate.execute.task import Executor, Message, ShouldStop, Task
from ablate.plan.trial import Trial
from ablate.store import claim
from ablate.store.results import Results
from ablate.train.events import Outcome, Row, Saved


class Watcher(Protocol):
    """Is told how the run is coming on (see `report.progress.Progress`)."""

    def started(self, trial_id: str, label: str, steps: int) -> None:
        """A trial of `steps` steps is running."""

    def step(self, trial_id: str, step: int, loss: float) -> None:
        """It has come to `step`; `loss` is the last one measured."""

    def ended(self, trial_id: str, outcome_kind: str) -> None:
        """It has ended, or stopped for now (`interrupted`)."""


@dataclass
class Ended:
    """How the trials of one run ended, by kind of outcome, and how many were left waiting when it was stopped."""

    kinds: Counter[str] = field(default_factory=Counter)
    waiting: int = 0

    @property
    def interrupted(self) -> bool:
        """Whether trials are left to do."""
        return bool(self.waiting or self.kinds["interrupted"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is said to every trial of a run: the components beyond the shipped ones, and the seconds each may take.

    `anew` has all of them trained from their beginning, whatever is known of them.
    """

    plugins: tuple[Path, ...] = ()
    limit: float | None = None
    anew: bool = False


class Controller:
    """Carries out trials in order; what they yield is in `results` when `run` returns.

    An unfinished trial goes on from its checkpoint. Whoever stops the run leaves it resumable: what was written stays.
    """

    def __init__(
        self,
        trials: Iterable[Trial],
        results: Results,
        order: Order,
        *,
        labels: Mapping[str, str],
        watcher: Watcher,
        should_stop: ShouldStop,
        say: Callable[[str], None],
    ):
        self._waiting = deque(trials)
        self._results, self._order = results, order
        self._labels, self._watcher, self._should_stop, self._say = labels, watcher, should_stop, say
        self._running: dict[str, Trial] = {}
        self._losses: dict[str, float] = {}
        self._deaths: Counter[str] = Counter()
        self._ended = Ended()
        self._begun = False

    def run(self, executor: Executor) -> Ended:
        """Have all of them carried out; RefusedError where the surroundings do not allow it."""
        executor.run(self._next_task, self._handle, self._should_stop)
        self._ended.waiting = len(self._waiting)
        return self._ended

    def _next_task(self) -> Task | None:
        """The next trial, its segment opened in the store."""
        if not self._waiting:
            return None
        if self._order.anew and not self._begun:
            # Not before a worker is there: until then nothing that is known may be given up.
            self._results.begin_anew(self._waiting)
        self._begun = True
        trial = self._waiting.popleft()
        start = self._results.begin(trial)
        self._running[trial.id] = trial
        self._watcher.started(trial.id, self._labels[trial.id], trial.recipe.steps)
        return Task(
            trial=trial,
            folder=self._results.folder.resolve(),
            resume=start.resume,
            versions=start.versions,
            plugins=self._order.plugins,
            limit=self._order.limit,
        )

    def _handle(self, message: Message) -> None:
        """Write down what a trial has yielded, and say how far it is."""
        trial = self._running[message.trial_id]
        events = [self._settled(trial, event) if isinstance(event, Outcome) else event for event in message.events]
        self._results.append(trial.id, events)
        for event in events:
            match event:
                case Row(metric="train_loss"):
                    self._losses[trial.id] = event.value
                case Saved():
                    self._deaths[trial.id] = 0
                case Outcome():
                    self._end(trial, event)
                    return
        if trial.id in self._losses:
            self._watcher.step(trial.id, message.step, self._losses[trial.id])

    def _settled(self, trial: Trial, outcome: Outcome) -> Outcome:
        """A trial that lost its worker too often has an outcome; one that was asked to stop, or may go on, has none."""
        if outcome.kind != "interrupted" or REFUSED in outcome.detail or self._should_stop():
            return outcome
        self._deaths[trial.id] += 1
        if self._deaths[trial.id] <= DEATHS_ALLOWED:
            return outcome
        return Outcome("bug", outcome.step, outcome.detail | {WORKERS_LOST: self._deaths[trial.id]})

    def _end(self, trial: Trial, outcome: Outcome) -> None:
        del self._running[trial.id]
        claim.forget(self._results.folder, trial.id)
        self._watcher.ended(trial.id, outcome.kind)
        if REFUSED in outcome.detail:
            raise RefusedError(outcome.detail[REFUSED])
        if outcome.kind == "interrupted" and not self._should_stop():
            why = outcome.detail.get("error", "its worker was asked to stop")
            self._say(f"{self._labels[trial.id]}: {why}; it goes on from its checkpoint")
            self._waiting.appendleft(trial)
            return
        self._ended.kinds[outcome.kind] += 1
