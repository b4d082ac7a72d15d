"""What a search may spend, and what it has spent: its reference and proposals together, all workers together.

Trials and flops are known before a job begins, so nothing is handed out that would go beyond them. Hours are known only
afterwards: jobs are handed out until the results that may be seen have taken them, so that up to `parallel` jobs are
beyond.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from ablate.errors import InputError
from ablate.space.design import Budget

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class JobCost:
    """What jobs take of a budget, known before they begin: exact, so that the shares of a trial are the whole of it."""

    trials: int = 0
    flops: Fraction = field(default_factory=Fraction)

    def __add__(self, other: JobCost) -> JobCost:
        return JobCost(self.trials + other.trials, self.flops + other.flops)


@dataclass(frozen=True, slots=True)
class SearchSpending:
    """What a search has spent: trials begun, flops of the jobs handed out, seconds of those that have come back."""

    trials: int
    flops: float
    seconds: float


def affords(budget: Budget, spent: JobCost) -> bool:
    """Whether so much may be spent in all."""
    if budget.trials is not None and spent.trials > budget.trials:
        return False
    return budget.flops is None or spent.flops <= Fraction(budget.flops)


def used_up(budget: Budget, seconds: float) -> bool:
    """Whether so many seconds of training leave nothing of the hours."""
    return budget.hours is not None and seconds >= budget.hours * HOUR


def check_reference(budget: Budget, cost: JobCost) -> None:
    """InputError where the budget does not pay for the reference, which every search trains first."""
    if affords(budget, cost):
        return
    if budget.trials is not None:
        limit, needed = f"{budget.trials} trials", f"{cost.trials}, one for each seed"
    else:
        limit, needed = f"{budget.flops:.3g} flops", f"{float(cost.flops):.3g}"
    raise InputError(
        f"a budget of {limit} does not pay for the reference of the search, which takes {needed}\n  = raise the budget"
    )
