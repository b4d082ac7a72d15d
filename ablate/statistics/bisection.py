"""Where a rising function is zero. SciPy has better ways, whose import takes longer than all that is computed here."""

from __future__ import annotations

from collections.abc import Callable

HALVINGS = 60
"""After as many the bracket is as narrow as rounding lets it be."""


def root(rising: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a function that rises from below 0 at `low` to 0 or above at `high`, by bisection."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) >= 0 else (middle, high)
    return high
