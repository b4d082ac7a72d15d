"""The learning rate over time, as a share of its peak.

    warm-up   r(s) = (s + 1) / W                       for s < W,  W = round(warmup · steps)
    linear    r(s) = 1 - (1 - floor) · p
    cosine    r(s) = floor + (1 - floor) · (1 + cos(π p)) / 2
    constant  r(s) = 1                                 p = (s - s₀) / (steps - 1 - s₀),  s₀ = max(W - 1, 0)

The first step's rate is not zero (a schedule that starts at zero wastes a batch), the last step of the warm-up has the
peak and the last step of all has the floor. Each group of parameters has a peak of its own.
"""

from __future__ import annotations

import math

from ablate.space.documents import Schedule


def relative_rate(step: int, steps: int, schedule: Schedule) -> float:
    """The rate of `step` (from 0) of `steps`, as a share of the peak.

    >>> halfway = Schedule(warmup=0.5, decay="linear", floor=0.0)
    >>> [relative_rate(step, 8, halfway) for step in range(8)]
    [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    warmup = round(schedule.warmup * steps)
    if step < warmup:
        return (step + 1) / warmup
    peak = max(warmup - 1, 0)
    progress = (step - peak) / max(steps - 1 - peak, 1)
    match schedule.decay:
        case "linear":
            return 1 - (1 - schedule.floor) * progress
        case "cosine":
            return schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * progress)) / 2
        case "constant":
            return 1.0
