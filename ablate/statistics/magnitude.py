"""The magnitude of numbers: the power of two by which they are divided before they are squared.

Squares of numbers above 1e154 overflow, and those below 1e-162 vanish. Division by a power of two is exact, and so is
everything that is proportional to the numbers, their squares, or ratios of these: what is computed from x/2^k, and then
multiplied by 2^k, has the bits that it has without the division wherever that neither overflows nor vanishes. So
results are the same in any unit of measurement.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
