"""The test of sign flips: had the change done nothing, each difference could as well have had the other sign.

    p = share of the 2^n signs s with |Σ s_i·d_i| ≥ |Σ d_i|        Fisher 1935, Pitman 1937

It assumes only that the differences are distributed symmetrically around their mean; its p is never below 2^(1-n).
The matching interval holds every shift for which the test of the shifted differences does not reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXACT = 32
"""Up to this many pairs all 2^n signs are enumerated; beyond, `DRAWS` are drawn with a fixed seed."""

DRAWS = 99_999

CACHED = 2**18
"""So many signs are multiplied at once: as numbers they stay in a core's cache."""

HALVINGS = 32
"""Bisection steps for the end of an interval."""

TIE = 1e-9
"""Sums closer than this share of Σ|d_i| count as equal, so that rounding does not decide."""


def sign_flip_p(differences: Floats) -> float:
    """Return the two-sided p of sign flips: exact up to `EXACT` pairs, then (1 + count)/(1 + draws)."""
    return _p_of_shifted(differences)(0.0)


def sign_flip_interval(differences: Floats, miss: float) -> tuple[float, float]:
    """Return the shifts δ for which flips of d_i - δ have p ≥ `miss`: the interval at confidence 1 - miss.

    p falls as δ leaves the mean on either side, so each end is found by bisection, to a share of 1e-9 of the range of
    the differences. Infinite where there are too few pairs to reject any shift.

    >>> low, high = sign_flip_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.05)
    >>> round(low, 6), round(high, 6)
    (1.0, 6.0)
    """
    if least_p(differences.size) >= miss:
        return -math.inf, math.inf
    mean, low, high = float(differences.mean()), float(differences.min()), float(differences.max())
    spread, p = high - low, _p_of_shifted(differences)
    ends = _end(p, mean, low - spread, miss), _end(p, mean, high + spread, miss)
    if p(0.0) < miss:
        return ends
    # A shift of 0 is not rejected, so it is inside even if an end was rounded.
    return min(ends[0], 0.0), max(ends[1], 0.0)


def _end(p: Callable[[float], float], inside: float, outside: float, miss: float) -> float:
    """Find where p reaches `miss` between a shift that is not rejected and one that is."""
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        if p(middle) < miss:
            outside = middle
        else:
            inside = middle
    return inside


def least_p(n: int) -> float:
    """Return the smallest p that flips of n pairs can give."""
    return max(2.0 ** (1 - n), 0.0 if n <= EXACT else 1 / (1 + DRAWS))


def _p_of_shifted(differences: Floats) -> Callable[[float], float]:
    """Return p as a function of the shift δ that is taken off each difference."""
    counted = _exact(differences) if differences.size <= EXACT else _drawn(differences)

    def p(shift: float) -> float:
        shifted = differences - shift
        reached = abs(float(shifted.sum())) - TIE * float(np.abs(shifted).sum())
        return 1.0 if reached <= 0 else counted(shift, reached)

    return p


def _exact(differences: Floats) -> Callable[[float, float], float]:
    """Count all signs of one half against the sorted ones of the other (Horowitz & Sahni 1974), doubled by symmetry."""
    half = differences.size // 2  # both halves are sorted: sorted values are looked up in half of the time

    def p(shift: float, reached: float) -> float:
        some, others = np.sort(_sums(differences[:half] - shift)), np.sort(_sums(differences[half:] - shift))
        count = others.size * some.size - int(np.searchsorted(others, reached - some).sum())
        return 2 * count / 2.0**differences.size

    return p


def _sums(differences: Floats) -> Floats:
    return reduce(lambda sums, d: np.concatenate((sums + d, sums - d)), differences, np.zeros(1))


def _drawn(differences: Floats) -> Callable[[float, float], float]:
    """Count signs that are drawn once for all shifts, since Σ s_i·(d_i - δ) = Σ s_i·d_i - δ·Σ s_i."""
    random, n = np.random.default_rng(0), differences.size
    columns = np.stack((differences, np.ones(n)), axis=1)
    positive = np.zeros((DRAWS, 2))  # the sum of the differences that keep their sign, and how many they are
    wide = min(n, CACHED // 32)
    rows = CACHED // wide // 8 * 8  # whole bytes
    for start in range(0, DRAWS, 1000):
        drawn = np.frombuffer(random.bytes((min(1000, DRAWS - start) * n + 7) // 8), np.uint8)
        for row in range(start, min(start + 1000, DRAWS), rows):
            some = positive[row : min(row + rows, start + 1000)]
            kept = np.unpackbits(drawn[(row - start) * n // 8 :], count=len(some) * n).reshape(len(some), n)
            for column in range(0, n, wide):
                some += kept[:, column : column + wide] @ columns[column : column + wide]
    sums, signs = (2 * positive - columns.sum(axis=0)).T

    def p(shift: float, reached: float) -> float:
        return (1 + int((np.abs(sums - shift * signs) >= reached).sum())) / (1 + DRAWS)

    return p
