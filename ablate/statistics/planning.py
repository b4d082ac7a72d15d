"""Planning: how many seeds a comparison takes, and which differences a number of seeds can detect.

    power(n) = P(|T| > t(n-1, 1-α/2)),   T noncentral with n-1 degrees of freedom and centre √n·difference/sd

A study is planned from an upper limit of sd, since the estimate itself gives too small a study about half the time
(Browne 1995, Kieser & Wassmer 1996). Post hoc power says nothing that the p-value does not (Hoenig & Heisey 2001):
every function here is about seeds that are yet to run.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import chdtr, nctdtr, ndtri, stdtrit

from ablate.statistics.bisection import root

POWER = 0.8
"""The power of a planned study: its chance to find a true difference."""

MOST_SEEDS = 1000
"""The most seeds a plan asks for; where this is not enough, it says so."""

FAR_OUT = 100.0
"""Beyond this critical value T is integrated over `Z`, its normal part: SciPy's noncentral t has no value there."""

Z = np.linspace(-9.0, 9.0, 2001)


def power_of(difference: float, sd: float, n: int, alpha: float = 0.05) -> float:
    """Return the chance that a two-sided paired t-test at level α finds a true `difference`, given the true sd.

    ValueError for fewer than two pairs, and for an sd that is not above zero.
    """
    if n < 2 or not sd > 0:
        raise ValueError(f"power needs two or more pairs and an sd above 0, got {n} and {sd}")
    return _power(math.sqrt(n) * abs(difference) / sd, n - 1, float(stdtrit(n - 1, 1 - alpha / 2)))


def visible_difference(sd: float, n: int, alpha: float = 0.05, power: float = POWER) -> float:
    """Return the smallest difference that n pairs find with the given power, for that sd; the inverse of `power_of`.

    ValueError for fewer than two pairs, and for a power that is not between α and 1.
    """
    if n < 2 or not alpha < power < 1:
        raise ValueError(
            f"a visible difference needs two or more pairs and a power from {alpha} to 1, got {n} and {power}"
        )
    return sd * _centre(n - 1, alpha, power) / math.sqrt(n)


def seeds_for_margin(sd: float, margin: float, *, confidence: float = 0.95) -> int | None:
    """Return the fewest pairs at which the interval of the equivalence test is within ± half the margin of its centre.

    Then a true difference of less than half the margin is usually found equivalent. None beyond `MOST_SEEDS`.
    """
    return _fewest(lambda n: float(stdtrit(n - 1, confidence)) * sd / math.sqrt(n) <= margin / 2)


def seeds_for_power(difference: float, sd: float, *, alpha: float = 0.05, power: float = POWER) -> int | None:
    """Return the fewest pairs at which a two-sided paired t-test at level α finds `difference` with the given power.

    None beyond `MOST_SEEDS`.
    """
    return _fewest(lambda n: power_of(difference, sd, n, alpha) >= power)


def seeds_for_signs(level: float) -> int:
    """Return the fewest pairs at which identical differences have 2^(1-n) ≤ level."""
    return max(2, math.ceil(1 - math.log2(level)))


def seeds_per_arm(
    difference: float, sd: float, *, alpha: float = 0.05, power: float = POWER, normal: bool = False
) -> int:
    """Return the fewest seeds per arm at which a two-sided test of unpaired arms at level α finds `difference`.

    For readers of published losses, which are not paired. `sd` is that of each arm. By the t-test with 2(n-1) degrees
    of freedom, or by its normal approximation n = 2·((z(1-α/2) + z(power))·sd/difference)², which gives fewer.
    ValueError for a difference of 0, and for an sd that is not above zero.

    >>> seeds_per_arm(0.0005, 0.0019, normal=True), seeds_per_arm(0.0005, 0.0019)
    (227, 228)
    """
    if difference == 0:
        raise ValueError("no number of seeds finds a difference of 0")
    if not sd > 0:
        raise ValueError(f"planning needs an sd above 0, got {sd}")
    apart = abs(difference) / sd
    n = max(2, math.ceil(2 * ((float(ndtri(1 - alpha / 2)) + float(ndtri(power))) / apart) ** 2))
    while not normal:
        df = 2 * (n - 1)
        if _power(math.sqrt(n / 2) * apart, df, float(stdtrit(df, 1 - alpha / 2))) >= power:
            break
        n += 1
    return n


def _power(centre: float, df: int, critical: float) -> float:
    """Return P(|T| > critical), with T noncentral around `centre`.

    At nine times the critical value the chance of a smaller T is below rounding, even at one degree of freedom.
    """
    if centre > max(30.0, 9 * critical):
        return 1.0
    if critical > FAR_OUT:
        below = chdtr(df, df * ((Z + centre) / critical) ** 2)
        return float((below * np.exp(-(Z**2) / 2)).sum() * (Z[1] - Z[0]) / math.sqrt(2 * math.pi))
    lesser = float(nctdtr(df, centre, -critical))
    return 1 - float(nctdtr(df, centre, critical)) + (0.0 if math.isnan(lesser) else lesser)


@lru_cache(maxsize=4096)
def _centre(df: int, alpha: float, power: float) -> float:
    """Return the noncentrality at which a two-sided test at level α has that power."""
    critical = float(stdtrit(df, 1 - alpha / 2))
    high = critical + 10.0
    while _power(high, df, critical) < power:
        high *= 2
    return root(lambda centre: _power(centre, df, critical) - power, 0.0, high)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """Return the smallest n from 2 to `MOST_SEEDS` that is enough, where any larger n is too; None if none is."""
    n = bisect.bisect_left(range(2, MOST_SEEDS + 1), True, key=enough) + 2
    return n if n <= MOST_SEEDS else None
