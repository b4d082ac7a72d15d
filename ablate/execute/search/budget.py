"""What a search may spend, and what it has spent: reference and proposals together, summed over all workers.

Trials and FLOPs are known before a job begins, so no job is handed out that would exceed them. Hours are known only
afterwards: jobs are handed out until the visible results have used them up, so up to `parallel` jobs may exceed them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from ablate.errors import InputError
from ablate.space.design import Budget

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class JobCost:
    """The cost of jobs, known before they begin: exact, so that the parts of a trial sum to the whole."""

    trials: int = 0
    flops: Fraction = field(default_factory=Fraction)

    def __add__(self, other: JobCost) -> JobCost:
        return JobCost(self.trials + other.trials, self.flops + other.flops)


@dataclass(frozen=True, slots=True)
class SearchSpending:
    """What a search has spent: trials begun, FLOPs of the jobs handed out, seconds of those with results."""

    trials: int
    flops: float
    seconds: float


def affords(budget: Budget, spent: JobCost) -> bool:
    """Return whether the budget allows `spent` in total."""
    if budget.trials is not None and spent.trials > budget.trials:
        return False
    return budget.flops is None or spent.flops <= Fraction(budget.flops)


def used_up(budget: Budget, seconds: float) -> bool:
    """Return whether `seconds` of training use up the budget's hours."""
    return budget.hours is not None and seconds >= budget.hours * HOUR


def check_reference(budget: Budget, cost: JobCost) -> None:
    """Raise InputError if the budget does not cover the reference, which every search trains first."""
    if affords(budget, cost):
        return
    if budget.trials is not None:
        limit, needed = f"{budget.trials} trials", f"{cost.trials}, one per seed"
    else:
        limit, needed = f"{budget.flops:.3g} flops", f"{float(cost.flops):.3g}"
    raise InputError(
        f"a budget of {limit} does not cover the reference of the search, which needs {needed}\n  = raise the budget"
    )
