"""The learning rate over time, as a share of its peak: warm-up, hold, and then a schedule of `train/schedules/`.

    warm-up   r(s) = (s + 1) / W                  for s < W,        W = warmup, or round(warmup · steps) for a share
    hold      r(s) = 1                            for s < W + H,    H = hold, likewise
    decay     r(s) = what the schedule says       done = s - s₀ of steps - 1 - s₀,    s₀ = max(W + H - 1, 0)

The first step's rate is not zero (a schedule that starts at zero wastes a batch), the last step of the warm-up has the
peak and the last step of all has the floor. Each group of parameters has its own peak.

With `from_zero` the same curve is read one step earlier, as in schedules that count finished steps: r(s) = s / W in the
warm-up, then s₀ = W + H and done = s - s₀ of steps - s₀. The first step has rate 0 (if there is a warm-up), the first
one after the warm-up the peak, and the floor would be that of step `steps`, which is never taken.

A floor given as a rate (`floor: {rate: 1e-7}`) is that rate for the recipe's `lr`, and the same share of its peak for
every other group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ablate.block.catalogue import Catalogue
from ablate.space.batch_ramp import counted
from ablate.space.documents import EndRate, Recipe, Schedule
from ablate.space.optimizers import ScheduleSpec


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
    """Return the same of a schedule over `steps`, where the recipe's own peak is `lr`."""
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
