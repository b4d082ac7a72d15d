"""Steps such that a model's training costs as much as the baseline's.

    tokens      steps = steps of the baseline × tokens per step of the baseline / tokens per step of the model
    flops       steps = steps of the baseline × training FLOPs per step of the baseline / those of the model
    wallclock   steps = steps of the baseline × seconds per step of the baseline / seconds per step of the model

to the nearest whole number of at least 1; FLOPs per step are those of training on one sequence (see `Cost`) × batch.
Where no treatment changes the batch or the context, equal steps are equal tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ablate.block.cost import Cost
from ablate.space.fair import BudgetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBudget:
    """The `steps` of a model (None: they depend on a measurement still to come), and their description."""

    steps: int | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a training costs: its `steps`, and per step the sequences, their tokens, and seconds (None: not known)."""

    steps: int
    batch: int
    context: int
    cost: Cost
    pace: float | None = None

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.batch * self.context

    @property
    def flops(self) -> int:
        """Training FLOPs per step."""
        return self.cost.training_flops * self.batch


def steps_for(budget: BudgetKind, here: Training, baseline: Training) -> StepBudget:
    """Return the steps at which a model's training costs as much as the baseline's."""
    steps = baseline.steps
    if budget == "tokens" and here.tokens != baseline.tokens:
        fair = nearest(steps, baseline.tokens, here.tokens)
        tokens = compared(here.tokens * fair, baseline.tokens * steps)
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, tokens {tokens}")
    if budget == "flops":
        fair = nearest(steps, baseline.flops, here.flops)
        flops = compared(here.flops * fair, baseline.flops * steps)
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, training FLOPs {flops}")
    if budget == "wallclock":
        if here.pace is None or baseline.pace is None:
            return StepBudget(steps=None, what="")
        fair = nearest(steps, baseline.pace, here.pace)
        pace = f"{milliseconds(here.pace)} per step against {milliseconds(baseline.pace)}"
        off = f"{fair * here.pace / (steps * baseline.pace) - 1:+.1%}".replace("%", " %")
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, {pace}, total time {off}")
    return StepBudget(steps=here.steps, what="")


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
