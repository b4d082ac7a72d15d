"""The learning rate over time, as a share of its peak.

    warm-up   r(s) = (s + 1) / W                       for s < W,  W = round(warmup · steps)
    linear    r(s) = 1 - (1 - floor) · p
    cosine    r(s) = floor + (1 - floor) · (1 + cos(π p)) / 2
    constant  r(s) = 1                                 p = (s - s₀) / (steps - 1 - s₀),  s₀ = max(W - 1, 0)

The first step's rate is not zero (a schedule that starts at zero wastes a batch), the last step of the warm-up has the
peak and the last step of all has the floor. Each group of parameters has a peak of its own.

With `from_zero` the same line is read one step earlier, as schedules do that count finished steps: r(s) = s / W in the
warm-up, then p = (s - W) / (steps - W). The first step has rate 0 (if there is a warm-up), the first one after the
warm-up the peak, and the floor would be that of step `steps`, which is never taken.

A floor that is a rate of its own (`floor: {rate: 1e-7}`) is that rate for the recipe's `lr`, and the same share of its
peak for every other group.
"""

from __future__ import annotations

import math

from ablate.space.documents import EndRate, Schedule


def relative_rate(step: int, steps: int, schedule: Schedule, lr: float) -> float:
    """The rate of `step` (from 0) of `steps`, as a share of the peak, where the model's own peak is `lr`.

    >>> halfway = Schedule(warmup=0.5, decay="linear", floor=0.0, from_zero=False)
    >>> [relative_rate(step, 8, halfway, 1e-3) for step in range(8)]
    [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    warmup = round(schedule.warmup * steps)
    ahead = 0 if schedule.from_zero else 1
    if step < warmup:
        return (step + ahead) / warmup
    peak = max(warmup - ahead, 0)
    progress = (step - peak) / max(steps - ahead - peak, 1)
    floor = schedule.floor.rate / lr if isinstance(schedule.floor, EndRate) else schedule.floor
    match schedule.decay:
        case "linear":
            return 1 - (1 - floor) * progress
        case "cosine":
            return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2
        case "constant":
            return 1.0
