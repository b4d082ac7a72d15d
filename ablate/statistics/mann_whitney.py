"""Two samples by ranks: which of them tends to be lower, exactly, ties included.

Of n values x_i and m values y_j, each with its rank among all N = n + m (of equal ones the mean), R is the sum of the
ranks of y:

    tendency      P(y > x) + P(y = x)/2 = (R - m (m + 1)/2) / (n m)                Mann & Whitney 1947
    p             2 min{P(R ≤ r), P(R ≥ r)}, over all C(N, m) ways to choose the ranks of y
    difference    the median of all y_j - x_i                                      Hodges & Lehmann 1963
    interval      from the k-th smallest of these to the k-th largest, with the largest k that leaves out no more than
                  α/2 on each side                                                 Moses 1965

Diverged runs are infinite, on the worse side. The test is of any difference between two distributions that makes one
tend to be lower; the interval is that of a shift. At unequal spreads it errs: of 5 and 15 normal values, the few of ten
times the sd, p is below 4 % in 8 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST = 100
"""Up to how many values ranks are counted exactly; of more, the sums are taken as normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MannWhitney:
    """The comparison of two samples by ranks; `low` and `high` bound the shift at confidence 1-α, or are infinite."""

    before: int
    after: int
    tendency: float
    difference: float
    p: float
    low: float
    high: float
    differences: Floats = field(repr=False, compare=False)

    @property
    def n(self) -> int:
        """The size of the smaller sample."""
        return min(self.before, self.after)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the interval of the shift that leaves out α/2 on each side."""
        return _moses(self.differences, self.before, self.after, alpha)


def least_p(n: int, m: int) -> float:
    """Return the least p that n against m values can have.

    >>> least_p(3, 3), round(least_p(5, 2), 3), round(least_p(4, 4), 3)
    (0.1, 0.095, 0.029)
    """
    return 2 / math.comb(n + m, n)


def mann_whitney(before: Sequence[float], after: Sequence[float], *, confidence: float = 0.95) -> MannWhitney:
    """Compare two samples by ranks; infinite values are of runs that diverged. ValueError for an empty one, and NaN.

    >>> result = mann_whitney([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])
    >>> result.tendency, round(result.p, 4), result.difference
    (1.0, 0.0286, 4.0)
    """
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if min(x.size, y.size) < 1 or np.isnan(x).any() or np.isnan(y).any():
        raise ValueError("ranks need two samples without NaN")
    _, place, counts = np.unique(np.concatenate([x, y]), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[place]  # of equal values the mean rank, twice
    total = int(doubled[x.size :].sum())
    with np.errstate(invalid="ignore"):
        differences = np.sort(np.nan_to_num((y[:, None] - x).ravel(), nan=0.0, posinf=np.inf, neginf=-np.inf))
    low, high = _moses(differences, x.size, y.size, 1 - confidence)
    return MannWhitney(
        before=x.size,
        after=y.size,
        tendency=(total / 2 - y.size * (y.size + 1) / 2) / (x.size * y.size),
        difference=float(np.median(differences)),
        p=_p(tuple(sorted(doubled.tolist())), y.size, total),
        low=low,
        high=high,
        differences=differences,
    )


def _p(ranks: tuple[int, ...], m: int, total: int) -> float:
    """Return the two-sided p of a sum of m ranks, all of which are doubled."""
    if len(ranks) > MOST:
        mean, n = m * (len(ranks) + 1), len(ranks) - m
        sd = math.sqrt(n * m / (len(ranks) - 1) * float(np.var(ranks)))
        return 1.0 if sd == 0 else min(1.0, math.erfc((abs(total - mean) - 1) / (sd * math.sqrt(2))))
    sums = _sums(ranks, m)
    return min(1.0, 2 * float(min(sums[: total + 1].sum(), sums[total:].sum())))


@cache
def _sums(ranks: tuple[int, ...], m: int) -> Floats:
    """Return how likely each sum of m of these ranks is, all choices being equally likely."""
    chances = np.zeros((m + 1, sum(sorted(ranks)[-m:]) + 1))
    chances[0, 0] = 1.0
    for k, rank in enumerate(ranks):
        for chosen in range(min(k + 1, m), 0, -1):
            chances[chosen, rank:] += chances[chosen - 1, : chances.shape[1] - rank]
    return np.asarray(chances[m] / math.comb(len(ranks), m))


def _moses(differences: Floats, n: int, m: int, alpha: float) -> tuple[float, float]:
    """Return the interval of the shift from the sorted differences; without bounds where there are too few."""
    if n + m <= MOST:
        sums = np.cumsum(_sums(tuple(range(2, 2 * (n + m) + 1, 2)), m)[m * (m + 1) :: 2])
        k = int((sums <= alpha / 2).sum())
    else:
        from scipy.special import ndtri

        sd = math.sqrt(n * m * (n + m + 1) / 12)
        k = max(0, math.floor(n * m / 2 + float(ndtri(alpha / 2)) * sd))
    if k == 0:
        return -math.inf, math.inf
    return float(differences[k - 1]), float(differences[-k])
