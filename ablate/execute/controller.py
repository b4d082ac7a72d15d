"""The controller: hands out what the plan asks for and the store does not know yet, and writes down what comes back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ablate.execute.policy import WORKERS_LOST
from ablate.execute.task import Executor, Message, ShouldStop, Task
from ablate.plan.trial import Trial
from ablate.store.results import Results
from ablate.train.events import Outcome, Row

DEATHS_ALLOWED = 2
"""A trial whose worker died is carried on from its checkpoint this many times; then its death is its outcome."""


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


def execute(
    trials: tuple[Trial, ...],
    results: Results,
    executor: Executor,
    *,
    cache: Path,
    plugins: tuple[Path, ...],
    labels: Mapping[str, str],
    watcher: Watcher,
    should_stop: ShouldStop,
    say: Callable[[str], None],
) -> Ended:
    """Carry out `trials` in order; what they yield is in `results` when this returns.

    An unfinished trial goes on from its checkpoint. Whoever stops the run leaves it resumable: what was written stays.
    """
    run = _Run(trials, results, cache, plugins, labels, watcher, should_stop, say)
    executor.run(run.next_task, run.handle, should_stop)
    run.ended.waiting = len(run.waiting)
    return run.ended


class _Run:
    def __init__(
        self,
        trials: tuple[Trial, ...],
        results: Results,
        cache: Path,
        plugins: tuple[Path, ...],
        labels: Mapping[str, str],
        watcher: Watcher,
        should_stop: ShouldStop,
        say: Callable[[str], None],
    ):
        self.waiting = deque(trials)
        self.results, self.cache, self.plugins = results, cache, plugins
        self.labels, self.watcher, self.should_stop, self.say = labels, watcher, should_stop, say
        self.running: dict[str, Trial] = {}
        self.losses: dict[str, float] = {}
        self.deaths: Counter[str] = Counter()
        self.ended = Ended()

    def next_task(self) -> Task | None:
        """The next trial, its segment opened in the store."""
        if not self.waiting:
            return None
        trial = self.waiting.popleft()
        checkpoint = self.results.begin(trial)
        self.running[trial.id] = trial
        self.watcher.started(trial.id, self.labels[trial.id], trial.recipe.steps)
        return Task(trial, checkpoint, self.cache, self.plugins)

    def handle(self, message: Message) -> None:
        """Write down what a trial has yielded, and say how far it is."""
        trial = self.running[message.trial_id]
        events = [self._settled(trial, event) if isinstance(event, Outcome) else event for event in message.events]
        self.results.append(trial.id, events)
        for event in events:
            if isinstance(event, Row) and event.metric == "train_loss":
                self.losses[trial.id] = event.value
            if isinstance(event, Outcome):
                self._end(trial, event)
                return
        if trial.id in self.losses:
            self.watcher.step(trial.id, message.step, self.losses[trial.id])

    def _settled(self, trial: Trial, outcome: Outcome) -> Outcome:
        """A trial that lost its worker too often has an outcome; one that was asked to stop, or may go on, has none."""
        if outcome.kind != "interrupted" or self.should_stop():
            return outcome
        self.deaths[trial.id] += 1
        if self.deaths[trial.id] <= DEATHS_ALLOWED:
            return outcome
        return Outcome("bug", outcome.step, outcome.detail | {WORKERS_LOST: self.deaths[trial.id]})

    def _end(self, trial: Trial, outcome: Outcome) -> None:
        del self.running[trial.id]
        self.watcher.ended(trial.id, outcome.kind)
        if outcome.kind == "interrupted" and not self.should_stop():
            self.say(f"{self.labels[trial.id]}: {outcome.detail.get('error', 'lost')}; it goes on from its checkpoint")
            self.waiting.appendleft(trial)
            return
        self.ended.kinds[outcome.kind] += 1
