"""Messages for a run that did not simply finish: it was stopped by its user, or trials failed."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ablate.execute.executor import FAILED
from ablate.output.words import plural
from ablate.plan.plan import Plan, Trial
from ablate.report import wording
from ablate.train.events import GOES_ON, Outcome

REASONS = 3
"""Maximum number of reasons for failing that are given in full."""


class RunEnd(Protocol):
    """The part of a run's end that these messages need."""

    @property
    def kinds(self) -> Mapping[str, int]:
        """Number of trials by kind of outcome."""

    @property
    def waiting(self) -> int:
        """Trials that were not started."""


def stopped(ended: RunEnd, *, again: str, searching: bool = False, grows: bool = False) -> str:
    """Return the message after Ctrl-C: what is done, what is saved, what waits, and the command that resumes.

    The number of trials not started is unknown for a search (`searching`) until it is over, since those waiting at a
    rung may be pruned; and for a plan that `grows` with the results of its trials.
    """
    done = sum(count for kind, count in ended.kinds.items() if kind not in GOES_ON)
    parts = [f"{plural(done, 'trial')} ended", f"{ended.kinds.get('interrupted', 0)} left in progress"]
    parts += [f"{paused} waiting at a rung"] if (paused := ended.kinds.get("paused", 0)) else []
    left = "the search resumes from there" if searching else f"{ended.waiting} not started{', more may follow' * grows}"
    return f"stopped: {', '.join(parts)}{'; ' if searching else ', '}{left}. To resume:\n  {again}"


def failures(plan: Plan, failed: Iterable[tuple[Trial, Outcome]], results: Path) -> str:
    """Return every failed trial with its variant, seed and error, where the whole trace is, and how to retry them."""
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
        f'their details: ablate sql "{statement}" --results {results}',
        f"to retry them, after fixing the cause: {retry(plan.space, results)}",
    )


def retry(space: str, results: Path) -> str:
    """Return the command that retries failed trials."""
    return shlex.join(("ablate", "retry", space, "--results", str(results)))


def resume(space: str, results: Path) -> str:
    """Return the command that resumes a run."""
    return shlex.join(("ablate", "resume", space, "--results", str(results)))


def nothing_gained(plan: Plan, failed: Sequence[tuple[Trial, Outcome]], results: Path, *, before: bool = False) -> str:
    """Return the message for a run whose trials all failed, or had all failed `before`: how many, why, and what to do.

    Each reason is given once, the most common first.
    """
    reasons = Counter(_error(outcome) for _, outcome in failed).most_common()
    shown = [f"{reason}{f' ({number} times)' if number > 1 else ''}" for reason, number in reasons[:REASONS]]
    more = [f"and {plural(len(reasons) - REASONS, 'other reason')}"] if len(reasons) > REASONS else []
    kinds = wording.failed(outcome.kind for _, outcome in failed)
    message = f"every trial that {plan.space} was to train failed ({kinds})"
    if before:
        message = f"nothing was trained: every trial of {plan.space} is known to have failed ({kinds})"
    return "\n  = ".join((message, *shown, *more, *_ways_on(plan, results)))
