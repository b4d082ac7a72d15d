"""Polynomial: from the peak to the floor along a power of the remaining share of steps.

    r = floor + (1 - floor) (1 - p)^power        p from 0 at the peak to 1 in the last step

A power of 1 is linear; a higher one falls early and levels out.
"""

from __future__ import annotations

from ablate.train.schedules.declare import Behind, Document, Positive, schedule


@schedule("polynomial", source="Chen et al. 2017, arXiv:1606.00915, Sec. 4.1 (the poly policy)", version=1)
class Polynomial(Document):
    """The `power` of the remaining share of steps."""

    power: Positive

    def share(self, at: Behind) -> float:
        left: float = (1 - at.progress) ** self.power
        return at.floor + (1 - at.floor) * left
