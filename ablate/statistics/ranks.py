"""Tests by ranks: of two samples, and of paired differences where runs were lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ablate.statistics.paired import EXACT, sign_flip_p
from ablate.statistics.planning import MOST_SEEDS, POWER
from ablate.statistics.spread import ROUNDING

# Two samples by ranks: which of them tends to be lower, exactly, ties included.
#
# Of n values x_i and m values y_j, each with its rank among all N = n + m (of equal ones the mean), R is the sum of
# the ranks of y:
#
#     tendency      P(y > x) + P(y = x)/2 = (R - m (m + 1)/2) / (n m)                Mann & Whitney 1947
#     p             2 min{P(R ≤ r), P(R ≥ r)}, over all C(N, m) ways to choose the ranks of y
#     difference    the median of all y_j - x_i                                      Hodges & Lehmann 1963
#     interval      from the k-th smallest of these to the k-th largest, with the largest k that leaves out no more than
#                   α/2 on each side                                                 Moses 1965
#
# Diverged runs are infinite, on the worse side. The test is of one distribution that tends to be lower, the interval of
# a shift. At unequal spreads it errs: of 5 and 15 normal values, the few of ten times the sd, p is below 4 % in 8 %.

Floats = NDArray[np.float64]

MOST_COUNTED = 100  # up to how many values ranks are counted exactly; of more, the sums are taken as normal


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
        return min(self.before, self.after)

    def interval(self, alpha: float) -> tuple[float, float]:
        """The interval of the shift that leaves out α/2 on each side."""
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
        p=_rank_sum_p(tuple(sorted(doubled.tolist())), y.size, total),
        low=low,
        high=high,
        differences=differences,
    )


def _rank_sum_p(ranks: tuple[int, ...], m: int, total: int) -> float:
    """The two-sided p of a sum of m ranks, all of which are doubled."""
    if len(ranks) > MOST_COUNTED:
        mean, n = m * (len(ranks) + 1), len(ranks) - m
        sd = math.sqrt(n * m / (len(ranks) - 1) * float(np.var(ranks)))
        return 1.0 if sd == 0 else min(1.0, math.erfc((abs(total - mean) - 1) / (sd * math.sqrt(2))))
    sums = _rank_sums(ranks, m)
    return min(1.0, 2 * float(min(sums[: total + 1].sum(), sums[total:].sum())))


@cache
def _rank_sums(ranks: tuple[int, ...], m: int) -> Floats:
    """The probability of each sum of m of these ranks, all choices being equally likely."""
    chances = np.zeros((m + 1, sum(sorted(ranks)[-m:]) + 1))
    chances[0, 0] = 1.0
    for k, rank in enumerate(ranks):
        for chosen in range(min(k + 1, m), 0, -1):
            chances[chosen, rank:] += chances[chosen - 1, : chances.shape[1] - rank]
    return np.asarray(chances[m] / math.comb(len(ranks), m))


def _moses(differences: Floats, n: int, m: int, alpha: float) -> tuple[float, float]:
    """The interval of the shift from the sorted differences; without bounds where there are too few."""
    if n + m <= MOST_COUNTED:
        sums = np.cumsum(_rank_sums(tuple(range(2, 2 * (n + m) + 1, 2)), m)[m * (m + 1) :: 2])
        k = int((sums <= alpha / 2).sum())
    else:
        sd = math.sqrt(n * m * (n + m + 1) / 12)
        k = max(0, math.floor(n * m / 2 + float(ndtri(alpha / 2)) * sd))
    if k == 0:
        return -math.inf, math.inf
    return float(differences[k - 1]), float(differences[-k])


# Paired differences where some run was lost: signed ranks, a lost run being worse than any number.
#
# By Student's t over the survivors, a variant that differs only in that its worst 40 % diverge would be called better
# in 5 to 12 % of tables. So every seed counts, with a rank:
#
#   d_i     y_i - x_i where both runs have a number; above all of these where only the run after was lost (for a metric
#           that is better when lower), below all where only the run before was; 0, a tie, where both were
#   R_i     the rank of |d_i| among those that are not 0, the mean rank where several are equal
#   T       Σ sign(d_i)·R_i                                                                             Wilcoxon 1945
#   p       share of the 2^n signs s with |Σ s_i·R_i| ≥ |T|, over the n seeds that are not ties
#
# Exact for any distribution of the runs and of their losses, as long as the two runs of a seed are exchangeable;
# worst ranks: Lachin 1999. A seed with more lost runs, as in a factorial, ranks beyond one with fewer. p is
# never below 2^(1-n), so that below `fewest_seeds` nothing can be decided.
#
# Where the side of a lost run is not known, as in a sum of more than two runs, or where only one was lost and neither
# side of the metric is better, the seed is `open`: it takes the highest rank against the direction of the others. p is
# then no smaller than with any number in its place (where no two are of the same size).


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """The signed ranks of n seeds, of which `ties` carry no information and `open` count against the others' direction.

    `total` is T, above zero for an increase; `p` is two-sided. `tendency` estimates the chance that the mean of two
    other seeds increases (ties count half), from which numbers of seeds are planned. `signed` are the signed ranks of
    the seeds that are not open, 0 for a tie.
    """

    n: int
    ties: int
    open: int
    total: float
    p: float
    tendency: float
    signed: tuple[float, ...]

    def mirrored(self) -> Ranked:
        """The same ranks with before and after swapped."""
        signed = tuple(-rank for rank in self.signed)
        return replace(self, total=-self.total, tendency=1 - self.tendency, signed=signed)


def worst_rank(
    differences: Sequence[float] | Floats, lost: Sequence[int] = (), open: int = 0, *, size: float = 0.0
) -> Ranked:
    """Rank `differences`, and beyond them seeds with `lost` runs: each their excess upwards (downwards below 0).

    `size` is the magnitude of the original values: a difference within their rounding error is a tie.
    ValueError for a difference that is not finite, and without a seed.

    >>> worst_rank([-0.3, -0.1, -0.2, -0.4, -0.5, -0.6]).p, worst_rank([-0.3, -0.1, -0.2, -0.4, -0.5], [1]).p
    (0.03125, 0.4375)
    """
    d = np.concatenate([np.asarray(differences, dtype=np.float64), np.zeros(len(lost))])
    d[np.abs(d) <= ROUNDING * size] = 0.0
    more = np.concatenate([np.zeros(d.size - len(lost)), np.asarray(lost, dtype=np.float64)])
    if not np.isfinite(d).all() or not d.size + open:
        raise ValueError(f"ranks need one finite difference or more, got {d.size} and {open} open ones")
    signed = _signed_ranks(more, d)
    if open:
        against = -np.sign(signed.sum())
        d = np.concatenate([d, np.zeros(open)])
        more = np.concatenate([more, np.full(open, against * (1 + np.abs(more).max(initial=0)))])
    ranks = _signed_ranks(more, d)
    total = float(ranks.sum())
    # Where the open seeds outweigh the others no direction is certain.
    p = 1.0 if open and total * against >= 0 else sign_flip_p(ranks[ranks != 0])
    return Ranked(
        n=d.size,
        ties=int((ranks == 0).sum()) - (open if open and not against else 0),
        open=open,
        total=total,
        p=p,
        tendency=_tendency(more, d),
        signed=tuple(signed.tolist()),
    )


@cache
def fewest_seeds(level: float, *, open: int = 0) -> int | None:
    """Return the fewest seeds, none a tie, at which ranks can have p < level; None where `EXACT` are not enough.

    >>> fewest_seeds(0.05), fewest_seeds(0.05 / 3), fewest_seeds(0.05, open=1)
    (6, 7, 12)
    """
    if not open:
        return max(2, math.floor(1 - math.log2(level)) + 1)
    return next(
        (n for n in range(open + 1, EXACT + 1) if worst_rank(range(1, n - open + 1), open=open).p < level), None
    )


def seeds_for_ranks(tendency: float, *, alpha: float = 0.05, power: float = POWER) -> int | None:
    """The fewest seeds at which signed ranks at level α find that tendency with that power; None past `MOST_SEEDS`.

    n = (z(1-α/2) + z(power))² / (3·(tendency - 1/2)²)                                              Noether 1987

    It uses the spread of ranks under no tendency: where that is strong, up to half as many are enough.
    """
    apart = abs(tendency - 0.5)
    n = (float(ndtri(1 - alpha / 2)) + float(ndtri(power))) ** 2 / (3 * apart**2) if apart else math.inf
    return math.ceil(n) if n <= MOST_SEEDS else None


def seeds_for_agreement(ranks: Ranked, *, alpha: float = 0.05, least: int = 0) -> int | None:
    """Return the fewest seeds in all, at least `least`, with p < α if all further ones agree; None above `MOST_SEEDS`.

    Further seeds have the highest rank seen on the leading side, with its sign; those seen stay and `open` ones count
    against. p is exact up to `EXACT` seeds with a rank, beyond by the normal limit of T/√ΣR².

    >>> seeds_for_agreement(worst_rank([-0.10, -0.05, -0.02, 0.01], [1, 1, 1]), alpha=0.008)
    13
    """
    seen = np.array(ranks.signed)
    side = float(np.sign(seen.sum())) or 1.0
    highest = float((side * seen).max(initial=0.0)) or 1.0
    beyond = np.full(ranks.open, -side * (seen.size + 1.0))
    for n in range(max(least, ranks.n + 1), MOST_SEEDS + 1):
        further = np.full(n - ranks.n, side * highest)
        d = np.concatenate([seen, further, beyond])
        signed = _signed_ranks(np.zeros(d.size), d)
        if side * signed.sum() > 0 and _planned_p(signed[signed != 0]) < alpha:
            return n
    return None


def _planned_p(signed: Floats) -> float:
    """p for planning: by the normal limit where drawing would take long."""
    if signed.size <= EXACT:
        return sign_flip_p(signed)
    return 2 * float(ndtr(-abs(signed.sum()) / math.sqrt((signed**2).sum())))


def _signed_ranks(more: Floats, d: Floats) -> Floats:
    """The rank of each by |more|, then by |d|, with its sign; 0 for ties, which have no rank."""
    signs = np.where(more != 0, np.sign(more), np.sign(d))
    told = signs != 0
    _, place, counts = np.unique(
        np.stack([np.abs(more[told]), np.abs(d[told])]), axis=1, return_inverse=True, return_counts=True
    )
    ranks = np.zeros(d.size)
    ranks[told] = (np.cumsum(counts) - (counts - 1) / 2)[place.reshape(-1)]
    return signs * ranks


def _tendency(more: Floats, d: Floats) -> float:
    """The share of pairs of seeds whose mean increases."""
    first, second = np.triu_indices(d.size, 1)
    if not first.size:
        return 0.5
    beyond = more[first] + more[second]
    signs = np.where(beyond != 0, np.sign(beyond), np.sign(d[first] + d[second]))
    return float((signs + 1).mean()) / 2
