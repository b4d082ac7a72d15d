"""Steps such that a model's training costs as much as the baseline's.

    tokens      steps = steps of the baseline × tokens per step of the baseline / tokens per step of the model
    flops       steps = steps of the baseline × training FLOPs per step of the baseline / those of the model
    wallclock   steps = steps of the baseline × seconds per step of the baseline / seconds per step of the model

to the nearest whole number of at least 1; FLOPs per step are those of training on one sequence (see `Cost`) × batch.
Where no treatment changes the batch or the context, equal steps are equal tokens. Where the batch grows, steps are not
alike, and it is sequences that are counted: a run has the number of steps whose sequences (`space/batch_ramp.py`), each
with its tokens, FLOPs, or seconds of a full batch / batch, come nearest to what the baseline's cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ablate.block.cost import Cost
from ablate.space.batch_ramp import sequences, steps_of
from ablate.space.documents import BatchRamp
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
    ramp: BatchRamp | None = None

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.batch * self.context

    @property
    def flops(self) -> int:
        """Training FLOPs per step."""
        return self.cost.training_flops * self.batch

    def sequences(self, steps: int) -> int:
        """Return the sequences of a run of so many steps."""
        return sequences(self.batch, self.ramp, steps)

    def steps_at(self, each: float, total: Fraction) -> int:
        """Return the steps of the run that costs nearest to `total`, if a full batch costs `each`."""
        if self.ramp is None:
            return nearest(1, total, each)
        return steps_of(self.batch, self.ramp, total / Fraction(each) * self.batch)

    def total(self, each: float) -> Fraction:
        """Return what the training costs, if a full batch costs `each`."""
        return Fraction(each) * Fraction(self.sequences(self.steps), self.batch)


def steps_for(budget: BudgetKind, here: Training, baseline: Training) -> StepBudget:
    """Return the steps at which a model's training costs as much as the baseline's."""
    steps = baseline.steps
    if budget == "tokens" and (here.tokens, here.ramp) != (baseline.tokens, baseline.ramp):
        fair = here.steps_at(here.tokens, baseline.total(baseline.tokens))
        tokens = compared(here.context * here.sequences(fair), baseline.context * baseline.sequences(steps))
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, tokens {tokens}")
    if budget == "flops":
        fair = here.steps_at(here.flops, baseline.total(baseline.flops))
        each, of_baseline = here.cost.training_flops, baseline.cost.training_flops
        flops = compared(each * here.sequences(fair), of_baseline * baseline.sequences(steps))
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, training FLOPs {flops}")
    if budget == "wallclock":
        if here.pace is None or baseline.pace is None:
            return StepBudget(steps=None, what="")
        total = baseline.total(baseline.pace)
        fair = here.steps_at(here.pace, total)
        pace = f"{milliseconds(here.pace)} per step against {milliseconds(baseline.pace)}"
        spent = here.pace * here.sequences(fair) / here.batch
        off = f"{spent / float(total) - 1:+.1%}".replace("%", " %")
        return StepBudget(steps=fair, what=f"steps {_to(steps, fair)}, {pace}, total time {off}")
    return StepBudget(steps=here.steps, what="")


def nearest(steps: int, baseline: float | Fraction, here: float) -> int:
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
