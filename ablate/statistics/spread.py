"""The standard deviation of a few values, and confidence limits of the true one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from ablate.statistics.magnitude import divided, magnitude, times

Floats = NDArray[np.float64]

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
