"""Linear: from the peak to the floor on a straight line.

r = 1 - (1 - floor) p        p from 0 at the peak to 1 in the last step
"""

from __future__ import annotations

from ablate.train.schedules.declare import Behind, Document, schedule


@schedule(
    "linear", source="Goyal et al. 2017, arXiv:1706.02677 (warm-up); Devlin et al. 2019, arXiv:1810.04805", version=1
)
class Linear(Document):
    """No settings."""

    def share(self, at: Behind) -> float:
        return 1 - (1 - at.floor) * at.progress
