"""Intervals of proportions."""

from __future__ import annotations

import math

from scipy.special import ndtri


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion (1927); it is valid at 0 of n and n of n, and (0, 1) at n = 0.

    ValueError for more successes than n, or fewer than none.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return 0.0, 1.0
    z = float(ndtri(0.5 + confidence / 2))
    share, shrink = successes / n, 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrink
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)
