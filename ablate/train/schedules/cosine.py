"""Cosine: from the peak to the floor along half a cosine.

r = floor + (1 - floor) (1 + cos(π p)) / 2        p from 0 at the peak to 1 in the last step
"""

from __future__ import annotations

import math

from ablate.train.schedules.declare import Behind, Document, schedule


@schedule("cosine", source="Loshchilov & Hutter 2017, arXiv:1608.03983, Eq. 5", version=1)
class Cosine(Document):
    """No settings."""

    def share(self, at: Behind) -> float:
        return at.floor + (1 - at.floor) * (1 + math.cos(math.pi * at.progress)) / 2
