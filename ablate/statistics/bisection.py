"""The zero of an increasing function. SciPy has better methods, but importing them takes longer than this."""

from __future__ import annotations

from collections.abc import Callable

HALVINGS = 60
"""After this many the bracket is as narrow as rounding allows."""


def root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Find the zero of a function that rises from below 0 at `low` to 0 or above at `high`, by bisection."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) >= 0 else (middle, high)
    return high
