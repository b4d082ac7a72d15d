"""How a run ended when it did not simply finish: stopped by its user, or with trials that failed."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ablate.execute.policy import FAILED
from ablate.output.words import plural
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.report import wording
from ablate.train.events import GOES_ON, Outcome

REASONS = 3
"""So many different reasons for failing are told in full."""


class RunEnd(Protocol):
    """What is asked of the end of a run."""

    @property
    def kinds(self) -> Mapping[str, int]:
        """Number of trials by kind of outcome."""

    @property
    def waiting(self) -> int:
        """Trials that were not begun."""


def stopped(ended: RunEnd, *, again: str, searching: bool = False, grows: bool = False) -> str:
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
    """Every trial that failed: its variant, seed and error; where the whole trace is, and how to try them again."""
    return "\n".join((*_failures(plan, failed), *_ways_on(plan, results)))


def _failures(plan: Plan, failed: Iterable[tuple[Trial, Outcome]]) -> Iterator[str]:
    for trial, outcome in failed:
        where = f"{plan.variant(trial.variant).name}, seed {trial.seed}, step {outcome.step}"
        yield f"failed ({outcome.kind}): {where}: {_error(outcome)}"


def _error(outcome: Outcome) -> str:
    return str(outcome.detail.get("error") or outcome.detail.get("cause") or outcome.kind)


def _ways_on(plan: Plan, results: Path) -> tuple[str, str]:
    kinds = ", ".join(f"'{kind}'" for kind in FAILED)
    statement = f"SELECT trial_id, status, detail FROM trials WHERE status IN ({kinds})"
    return (
        f'all that is known of them: ablate sql "{statement}" --results {results}',
        f"to try them again, once what is wrong is mended: {retry(plan.space, results)}",
    )


def retry(space: str, results: Path) -> str:
    """The command that tries what failed again."""
    return shlex.join(("ablate", "retry", space, "--results", str(results)))


def nothing_gained(plan: Plan, failed: Sequence[tuple[Trial, Outcome]], results: Path, *, before: bool = False) -> str:
    """Of a run whose trials all failed, or had all failed `before`: how many, why, and what to do.

    Reasons are told once each, the commonest first.
    """
    reasons = Counter(_error(outcome) for _, outcome in failed).most_common()
    shown = [f"{reason}{f' ({number} times)' if number > 1 else ''}" for reason, number in reasons[:REASONS]]
    more = [f"and {plural(len(reasons) - REASONS, 'other reason')}"] if len(reasons) > REASONS else []
    kinds = wording.failed(outcome.kind for _, outcome in failed)
    said = f"every trial that {plan.space} was to train failed ({kinds})"
    if before:
        said = f"nothing was trained: every trial of {plan.space} is known to have failed ({kinds})"
    return "\n  = ".join((said, *shown, *more, *_ways_on(plan, results)))
