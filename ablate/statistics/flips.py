"""The test of sign flips: had the change done nothing, each difference could as well have had the other sign.

    p = share of the 2^n signs s with |Σ s_i·d_i| ≥ |Σ d_i|        Fisher 1935, Pitman 1937

It supposes of the differences only that they lie symmetrically around their mean, and its p is never below 2^(1-n).
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXACT = 32
"""Up to as many pairs all 2^n signs are gone through, beyond that `DRAWS` at random with a fixed seed."""

DRAWS = 99_999

TIE = 1e-9
"""Sums closer than this share of Σ|d_i| are the same: rounding makes no sum the lesser."""


def sign_flip_p(differences: Floats) -> float:
    """The p of sign flips for two sides: exact up to `EXACT` pairs, then (1 + count)/(1 + draws)."""
    reached = abs(float(differences.sum())) - TIE * float(np.abs(differences).sum())
    if reached <= 0:
        return 1.0
    return _exact(differences, reached) if differences.size <= EXACT else _drawn(differences, reached)


def least_p(n: int) -> float:
    """The least p that flips of n pairs can come to."""
    return max(2.0 ** (1 - n), 0.0 if n <= EXACT else 1 / (1 + DRAWS))


def _exact(differences: Floats, reached: float) -> float:
    """All signs of one half against all of the other, sorted (Horowitz & Sahni 1974); what is negative, by symmetry."""
    half = differences.size // 2
    some, others = _sums(differences[:half]), np.sort(_sums(differences[half:]))
    count = others.size * some.size - int(np.searchsorted(others, reached - some).sum())
    return 2 * count / 2.0**differences.size


def _sums(differences: Floats) -> Floats:
    return reduce(lambda sums, d: np.concatenate((sums + d, sums - d)), differences, np.zeros(1))


def _drawn(differences: Floats, reached: float) -> float:
    random, n = np.random.default_rng(0), differences.size
    count = 0
    for start in range(0, DRAWS, 1000):
        draws = min(1000, DRAWS - start)
        kept = np.unpackbits(np.frombuffer(random.bytes((draws * n + 7) // 8), np.uint8), count=draws * n)
        sums = 2 * (kept.reshape(draws, n) @ differences) - differences.sum()
        count += int((np.abs(sums) >= reached).sum())
    return (1 + count) / (1 + DRAWS)
