"""Runs too few to tell their own noise, judged against a floor: that of reruns of one configuration, or a given sd.

With n values x_i before and m values y_j after (logarithms where differences are ratios), and a floor of standard
deviation s, which k reruns tell with k - 1 degrees of freedom, and a given one with infinitely many:

    difference    ȳ - x̄
    error         s √(1/n + 1/m)
    interval      ± t s √(1/n + 1/m)

Of one run against the k reruns themselves that is the prediction interval t s √(1 + 1/k). It holds if the runs have
the noise of the floor: a candidate that is noisier is taken for different more often than is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.statistics.by_t import ByT
from ablate.statistics.magnitude import divided, logarithms, magnitude, times
from ablate.statistics.spread import spread


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNoise:
    """The standard deviation of runs of one metric, on its scale, its degrees of freedom, and `whose` it is, in words.

    ValueError for one that is not above 0.
    """

    sd: float
    df: float
    whose: str

    def __post_init__(self) -> None:
        if not (0 < self.sd < math.inf and self.df > 0):
            raise ValueError(f"a floor is above 0, got {self.sd:g}")

    @staticmethod
    def of(values: Sequence[float], *, log: bool = False, whose: str = "") -> KnownNoise:
        """Compute it from reruns. ValueError for fewer than two, and for those that do not vary.

        >>> round(KnownNoise.of([2.0, 2.1, 2.2]).sd, 12)
        0.1
        """
        x = np.asarray(values, dtype=np.float64)
        if x.size < 2 or not np.isfinite(x).all() or (log and x.min() <= 0):
            raise ValueError("a floor needs two or more finite values, above zero for ratios")
        k = magnitude(x)
        scaled = logarithms(x, k) if log else divided(x, k)
        sd = spread(scaled, of=max(float(np.abs(scaled).max()), float(log)))
        return KnownNoise(sd=times(sd, 0 if log else k), df=x.size - 1, whose=whose)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstFloor(ByT):
    """The difference of two sides of so many values, whose noise is known."""

    before: int
    after: int


def against_floor(
    before: Sequence[float], after: Sequence[float], noise: KnownNoise, *, log: bool = False, confidence: float = 0.95
) -> AgainstFloor:
    """Compare two sides by the noise of a floor; on the log scale as ratios after/before.

    ValueError for a side without a value, for one that is not finite, and for one without a logarithm.

    >>> result = against_floor([2.0, 2.1, 2.2], [2.5], KnownNoise.of([2.0, 2.1, 2.2]))
    >>> round(result.difference, 3), round(result.error, 4), result.df
    (0.4, 0.1155, 2)
    """
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if min(x.size, y.size) < 1 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(f"two sides need a finite value each, got {x.size} and {y.size}")
    if log and min(x.min(), y.min()) <= 0:
        raise ValueError("ratios need values above zero")
    k = magnitude(x, y)
    x, y = (logarithms(side, k) if log else divided(side, k) for side in (x, y))
    unit = 0 if log else k
    error = noise.sd / 2.0**unit * math.sqrt(1 / x.size + 1 / y.size)
    difference = float(y.mean() - x.mean())
    return AgainstFloor.of(difference, error, noise.df, confidence=confidence, unit=unit, before=x.size, after=y.size)
