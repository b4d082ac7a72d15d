"""Constant: the peak to the end.

r = 1
"""

from __future__ import annotations

from ablate.train.schedules.declare import Behind, Document, schedule


@schedule("constant", source="this work", has_floor=False, version=1)
class Constant(Document):
    """No settings."""

    def share(self, at: Behind) -> float:
        return 1.0
