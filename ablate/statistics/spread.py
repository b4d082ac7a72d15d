"""The standard deviation of a few values, and what is known of the true one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""Differences that vary by less than this share of the values they come from do not vary."""

SD_LEVEL = 0.8
"""One-sided level of the upper limit of the standard deviation from which studies are planned."""


def spread(values: Floats, *, of: float = 0.0) -> float:
    """The standard deviation of two or more values; 0 where it is mere rounding of them or of numbers up to `of`."""
    sd = float(values.std(ddof=1))
    return sd if sd > ROUNDING * max(of, float(np.abs(values).max())) else 0.0


def sd_upper(sd: float, n: int, level: float = SD_LEVEL) -> float:
    """The upper confidence limit s·√((n-1)/χ²(n-1, 1-level)) of a standard deviation, from n ≥ 2 normal values."""
    return sd * math.sqrt((n - 1) / float(chdtri(n - 1, level)))


def sd_interval(sd: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a standard deviation for two sides, from n ≥ 2 normal values, by χ².

    s·√((n-1)/χ²(n-1, (1+level)/2))  to  s·√((n-1)/χ²(n-1, (1-level)/2))
    """
    return sd_upper(sd, n, (1 - level) / 2), sd_upper(sd, n, (1 + level) / 2)
