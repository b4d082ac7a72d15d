"""Spread: the standard deviation of a few values with its limits, the interval of a proportion, in any unit."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtri

# The magnitude of numbers: the power of two by which they are divided before they are squared.
#
# Squares of numbers above 1e154 overflow, and those below 1e-162 vanish. Division by a power of two is exact, and so
# is everything that is proportional to the numbers, their squares, or ratios of these: what is computed from x/2^k,
# and then multiplied by 2^k, has the bits that it has without the division wherever that neither overflows nor
# vanishes. So results are the same in any unit of measurement.

Floats = NDArray[np.float64]

LN2 = math.log(2)


def magnitude(*numbers: ArrayLike) -> int:
    """Return the k for which the largest |x| lies from 2^(k-1) up to below 2^k; 0 where all are 0. NaN is ignored.

    >>> magnitude([3.0, -5.0], 0.1), magnitude(0.0)
    (3, 0)
    """
    largest = max(float(np.fmax.reduce(np.abs(np.ravel(one)), initial=0.0)) for one in numbers)
    return math.frexp(largest)[1]


def divided(numbers: ArrayLike, k: int) -> Floats:
    """Return x/2^k."""
    return np.asarray(np.ldexp(np.asarray(numbers, dtype=np.float64), -k))


def times(number: float, k: int) -> float:
    """Return x·2^k, infinite where that is beyond the numbers of float64."""
    try:
        return math.ldexp(number, k)
    except OverflowError:
        return math.copysign(math.inf, number)


def logarithms(numbers: ArrayLike, k: int = 0) -> Floats:
    """Return log(x/2^k) of numbers above zero: with their magnitude as k, to the same bits for 2x as for x."""
    parts, powers = np.frexp(np.asarray(numbers, dtype=np.float64))
    return np.asarray(np.log(parts) + (powers - k) * LN2)


def log_ratio(before: float, after: float) -> float:
    """Return log(after/before) of two numbers above zero, without forming a quotient that may overflow.

    >>> round(log_ratio(1e-200, 1e300) / math.log(10), 6)
    500.0
    """
    (x, k), (y, j) = math.frexp(before), math.frexp(after)
    return math.log(y / x) + (j - k) * LN2


# The standard deviation of a few values, and confidence limits of the true one.


ROUNDING = 1e-12
"""Differences that vary by less than this share of the original values count as constant."""

SD_LEVEL = 0.8
"""One-sided level of the upper limit of the standard deviation from which studies are planned."""


def spread(values: Floats, *, of: float = 0.0) -> float:
    """Return the standard deviation of two or more values; 0 if it is rounding error of these or of numbers to `of`."""
    k = magnitude(values)
    sd = times(float(divided(values, k).std(ddof=1)), k)
    return sd if sd > ROUNDING * max(of, float(np.abs(values).max())) else 0.0


def sd_upper(sd: float, n: int, level: float = SD_LEVEL) -> float:
    """Return the upper confidence limit s·√((n-1)/χ²(n-1, 1-level)) of a standard deviation of n ≥ 2 normal values."""
    return sd * math.sqrt((n - 1) / float(chdtri(n - 1, level)))


def sd_interval(sd: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the two-sided confidence interval of a standard deviation, from n ≥ 2 normal values, by χ².

    s·√((n-1)/χ²(n-1, (1+level)/2))  to  s·√((n-1)/χ²(n-1, (1-level)/2))
    """
    return sd_upper(sd, n, (1 - level) / 2), sd_upper(sd, n, (1 + level) / 2)


# Intervals of proportions.


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
