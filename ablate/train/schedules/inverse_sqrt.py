"""Inverse square root: falls with the root of the number of steps, not knowing when training ends.

    r = max(floor, sqrt(T / (T + done)))        T steps of warm-up and hold, at least 1

With no hold this is the schedule of the original transformer, sqrt(T / t) in step t > T counted from 1, whose peak here
is the recipe's rate. The floor is only a lower bound: the rate need not reach it.
"""

from __future__ import annotations

import math

from ablate.train.schedules.declare import Behind, Document, schedule


@schedule("inverse_sqrt", source="Vaswani et al. 2017, arXiv:1706.03762, Eq. 3", version=1)
class InverseSqrt(Document):
    """No settings."""

    def share(self, at: Behind) -> float:
        before = max(at.before, 1)
        return max(at.floor, math.sqrt(before / (before + at.done)))
