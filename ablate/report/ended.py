"""How a run ended when it did not simply finish: stopped by its user, or with trials that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.report.wording import plural
from ablate.train.events import GOES_ON, Outcome


class Ended(Protocol):
    """What is asked of the end of a run."""

    @property
    def kinds(self) -> Mapping[str, int]:
        """Number of trials by kind of outcome."""

    @property
    def waiting(self) -> int:
        """Trials that were not begun."""


def stopped(ended: Ended, *, again: str, searching: bool = False, grows: bool = False) -> str:
    """After Ctrl-C: what is done, what is saved, what waits, and the line that goes on.

    How many trials a search has not begun is not known before it is over (`searching`); those at a rung may be ended.
    Nor is it of a plan that `grows` by what its trials come to.
    """
    done = sum(count for kind, count in ended.kinds.items() if kind not in GOES_ON)
    parts = [f"{plural(done, 'trial')} ended", f"{ended.kinds.get('interrupted', 0)} saved where they were"]
    parts += [f"{paused} waiting at a rung"] if (paused := ended.kinds.get("paused", 0)) else []
    left = "the search goes on from there" if searching else f"{ended.waiting} not begun{', more may follow' * grows}"
    return f"stopped: {', '.join(parts)}{'; ' if searching else ', '}{left}. To go on:\n  {again}"


def failures(plan: Plan, failed: Iterable[tuple[Trial, Outcome]], results: Path) -> str:
    """Every trial that failed: its variant, seed and error, and where the whole trace is."""
    return "\n".join(_failures(plan, failed, results))


def _failures(plan: Plan, failed: Iterable[tuple[Trial, Outcome]], results: Path) -> Iterator[str]:
    for trial, outcome in failed:
        what = outcome.detail.get("error") or outcome.detail.get("cause") or outcome.kind
        where = f"{plan.variant(trial.variant).name}, seed {trial.seed}, step {outcome.step}"
        yield f"failed ({outcome.kind}): {where}: {what}"
    statement = "SELECT trial_id, status, detail FROM trials WHERE status IN ('bug', 'out_of_memory', 'timeout')"
    yield f'all that is known of them: ablate sql "{statement}" --results {results}'
