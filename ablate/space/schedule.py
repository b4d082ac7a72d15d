"""Schedule: the learning rate and the size of the batch at each step of a run.

Both are functions of the recipe and the step alone. This file computes: its changes are versioned (`plan/versions.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

from ablate.block.catalogue import Catalogue
from ablate.space.documents import counted
from ablate.space.recipe import BatchRamp, EndRate, Recipe, Schedule, ScheduleSpec

# The learning rate over time, as a share of its peak: warm-up, hold, and then a schedule of `train/schedules/`.
#
#     warm-up   r(s) = (s + 1) / W                  for s < W,        W = warmup, or round(warmup · steps) for a share
#     hold      r(s) = 1                            for s < W + H,    H = hold, likewise
#     decay     r(s) = what the schedule says       done = s - s₀ of steps - 1 - s₀,    s₀ = max(W + H - 1, 0)
#
# The first step's rate is not zero (a schedule that starts at zero wastes a batch), the last step of the warm-up has
# the peak and the last step of all has the floor. Each group of parameters has its own peak.
#
# With `from_zero` the same curve is read one step earlier, as in schedules that count finished steps: r(s) = s / W in
# the warm-up, then s₀ = W + H and done = s - s₀ of steps - s₀. The first step has rate 0 (if there is a warm-up), the
# first one after the warm-up the peak, and the floor would be that of step `steps`, which is never taken.
#
# A floor given as a rate (`floor: {rate: 1e-7}`) is that rate for the recipe's `lr`, and the same share of its peak
# for every other group.


@dataclass(frozen=True, slots=True)
class Behind:
    """The position of a step after the peak: `done` of `steps` steps, which follow `before` others, of `total`.

    The last step at the peak has `done` 0, the last of all has `done` equal to `steps`: there a rate that decays to its
    floor is at the `floor`, as a share of the peak.
    """

    done: int
    steps: int
    before: int
    total: int
    floor: float

    @property
    def progress(self) -> float:
        """The share of steps done: from 0 at the peak to 1 in the last step."""
        return self.done / max(self.steps, 1)


class Decay(Protocol):
    """The settings of a schedule."""

    def share(self, at: Behind) -> float:
        """Return the rate of a step after the peak, as a share of it."""
        ...


def rate_schedule(recipe: Recipe, catalogue: Catalogue) -> Callable[[int], float]:
    """Return the function from step (from 0) to rate, as a share of the peak."""
    return share_of_peak(recipe.schedule, recipe.steps, recipe.optimizer.settings["lr"], catalogue)


def share_of_peak(schedule: Schedule, steps: int, lr: float, catalogue: Catalogue) -> Callable[[int], float]:
    chosen = schedule.decay
    decay: Decay = catalogue.of_kind(ScheduleSpec)[chosen.name].read(chosen.settings)
    return partial(relative_rate, steps=steps, schedule=schedule, decay=decay, lr=lr)


def relative_rate(step: int, steps: int, schedule: Schedule, decay: Decay, lr: float) -> float:
    """Return the rate of `step` (from 0) of `steps`, as a share of the peak, where the recipe's own peak is `lr`."""
    warmup, hold = counted(schedule.warmup, steps), counted(schedule.hold, steps)
    ahead = 0 if schedule.from_zero else 1
    if step < warmup:
        return (step + ahead) / warmup
    if step < warmup + hold:
        return 1.0
    peak = max(warmup + hold - ahead, 0)
    floor = schedule.floor.rate / lr if isinstance(schedule.floor, EndRate) else schedule.floor
    return decay.share(Behind(step - peak, max(steps - ahead - peak, 0), warmup + hold, steps, floor))


# The size of each batch of a run, where it grows
#
#     B(s) = from + ⌊(batch - from) · s / U⌋      for s < U,        U = until, or round(until · steps) for a share
#     B(s) = batch                                for s ≥ U
#
#     sequences of n steps  E(n) = Σ_{s<n} B(s)
#
# So the first batch has `from` sequences, and the first of full size is that of step U. All is in whole numbers:
# counts of tokens are exact. Without a ramp B(s) = batch.
#
# After Geiping & Goldstein 2022, arXiv:2212.14034, Sec. 4.3, whose batch grows linearly in the time spent, over 60 %
# of it; here it grows linearly in steps, so that a batch is a function of its step alone.


def batch_at(recipe: Recipe, step: int) -> int:
    """Return the number of sequences in the batch of `step` (from 0)."""
    ramp = ramp_of(recipe)
    if ramp is None or step >= ramp[1]:
        return recipe.batch
    first, growing = ramp
    return first + (recipe.batch - first) * step // growing


def ramp_of(recipe: Recipe, steps: int | None = None) -> tuple[int, int] | None:
    """Return the first batch of a ramp and its steps, in a run of `steps` (None: the recipe's); None without a ramp."""
    ramp = recipe.batch_ramp
    return None if ramp is None else (ramp.from_, counted(ramp.until, recipe.steps if steps is None else steps))


def smallest_batch(recipe: Recipe) -> int:
    return batch_at(recipe, 0)


def sequences_of(recipe: Recipe, steps: int | None = None) -> int:
    """Return the sequences of all batches in a run of `steps` (None: the recipe's)."""
    return sequences(recipe.batch, recipe.batch_ramp, recipe.steps if steps is None else steps)


def sequences(batch: int, ramp: BatchRamp | None, steps: int) -> int:
    """Return the sequences of all batches in a run of `steps`; a share of them in the ramp is one of these steps."""
    if ramp is None:
        return steps * batch
    growing = counted(ramp.until, steps)
    in_ramp = min(growing, steps)
    grown = _sum_of_floors(in_ramp, batch - ramp.from_, growing) if in_ramp else 0
    return in_ramp * ramp.from_ + grown + (steps - in_ramp) * batch


def steps_of(batch: int, ramp: BatchRamp | None, wanted: Fraction) -> int:
    """Return the number of steps, at least 1, of the run whose sequences are nearest to a number."""
    below, above = 0, 2
    while sequences(batch, ramp, above) < wanted:
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if sequences(batch, ramp, middle) < wanted else (below, middle)
    near = range(max(1, below - 2), above + 3)  # a longer ramp may move a few sequences to later steps
    return min(near, key=lambda steps: abs(sequences(batch, ramp, steps) - wanted))


def _sum_of_floors(n: int, a: int, m: int) -> int:
    """Return Σ_{i<n} ⌊a·i / m⌋, by Euclid's algorithm: lattice points below a line, counted from either side."""
    total, b = 0, 0
    while True:
        total += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        if top < m:
            return total
        n, b, a, m = top // m, top % m, m, a
