"""Steps such that a model's training costs as much as the baseline's.

    flops       steps = steps of the baseline × training FLOPs of the baseline / training FLOPs of the model
    wallclock   steps = steps of the baseline × seconds per step of the baseline / seconds per step of the model

to the nearest whole number of at least 1; FLOPs are those of training on one sequence (see `Cost`). Batch sizes are
equal, so equal steps are equal tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ablate.block.cost import Cost
from ablate.plan.models import Models
from ablate.space.fair import BudgetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBudget:
    """The `steps` of a model (None: they depend on a measurement still to come), and their description."""

    steps: int | None
    what: str


def steps_for(
    budget: BudgetKind, cost: Cost, baseline: Cost, models: Models, paces: tuple[float | None, float | None]
) -> StepBudget:
    """Return the steps of a model of that cost; `paces` are seconds per step of the model and of the baseline."""
    steps, batch = models.space.recipe.steps, models.space.recipe.batch
    if budget == "flops":
        fair = nearest(steps, baseline.training_flops, cost.training_flops)
        flops = compared(cost.training_flops * batch * fair, baseline.training_flops * batch * steps)
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, training FLOPs {flops}")
    if budget == "wallclock":
        here, wanted = paces
        if here is None or wanted is None:
            return StepBudget(steps=None, what="")
        fair = nearest(steps, wanted, here)
        pace = f"{milliseconds(here)} per step against {milliseconds(wanted)}"
        off = f"{fair * here / (steps * wanted) - 1:+.1%}".replace("%", " %")
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, {pace}, total time {off}")
    return StepBudget(steps=steps, what="")


def nearest(steps: int, baseline: float, here: float) -> int:
    """Return steps times baseline / here, to the nearest whole number of at least 1.

    >>> nearest(200, 10, 8), nearest(3, 1, 100)
    (250, 1)
    """
    return max(1, round(steps * Fraction(baseline) / Fraction(here)))


def compared(here: int, wanted: int) -> str:
    """Compare a count with the one that was wanted.

    >>> compared(1_250_304, 1_249_024)
    '1,250,304 against 1,249,024 (+0.1 %)'
    """
    off = here / wanted - 1
    share = "the same" if here == wanted else f"{100 * off:+.1f} %" if abs(off) >= 0.0005 else f"{100 * off:+.1g} %"
    return f"{_count(here)} against {_count(wanted)} ({share})"


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**10 else f"{number:.4e}"


def _to(before: int, after: int) -> str:
    return f"{before:,} → {after:,}" if before != after else f"{before:,}"


def milliseconds(seconds: float) -> str:
    """Format a time per step, to three digits.

    >>> milliseconds(0.01234), milliseconds(2.5)
    ('12.3 ms', '2.5 s')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
