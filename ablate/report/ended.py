"""How a run ended when it did not simply finish: stopped by its user, or with trials that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.train.events import Outcome


class Ended(Protocol):
    """What is asked of the end of a run."""

    @property
    def kinds(self) -> "dict[str, int]":
        """Number of trials by kind of outcome."""

    @property
    def bugs(self) -> Iterable[tuple[Trial, Outcome]]:
        """Trials that failed, and how."""

    @property
    def waiting(self) -> int:
        """Trials that were not begun."""


def stopped(ended: Ended, *, again: str) -> str:
    """After Ctrl-C: what is done, what is saved, what waits, and the line that goes on."""
    done = sum(count for kind, count in ended.kinds.items() if kind != "interrupted")
    paused = ended.kinds.get("interrupted", 0)
    return (
        f"stopped: {done} trials ended, {paused} saved where they were, {ended.waiting} not begun. To go on:\n  {again}"
    )


def bugs(plan: Plan, ended: Ended) -> str:
    """Every trial that failed: its variant, seed and error; the whole trace is in its row."""
    return "\n".join(_bugs(plan, ended))


def _bugs(plan: Plan, ended: Ended) -> Iterator[str]:
    for trial, outcome in ended.bugs:
        where = f"{plan.variant(trial.variant).name}, seed {trial.seed}, step {outcome.step}"
        yield f"failed: {where}: {outcome.detail['error']}"
    yield "the whole traces: ablate sql \"SELECT trial_id, detail FROM trials WHERE status = 'bug'\""
