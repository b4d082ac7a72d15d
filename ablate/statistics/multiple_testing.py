"""Multiple testing: several comparisons, interim analyses as seeds are added, and a question that is judged again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ablate.statistics.planning import zero_of

# Multiple comparisons: p-values adjusted for the number of tests.
#
#     Holm 1979                    p̃_(i) = max over j ≤ i of min(1, (m - j + 1)·p_(j))
#     Benjamini & Hochberg 1995    q_(i) = min over j ≥ i of min(1, m·p_(j)/j)               p_(1) ≤ … ≤ p_(m)
#
# With p̃ < α the chance of any false claim is at most α; with q < α at most a share α of the claims is false on
# average. None stands for a planned test that could not be made: it stays None and counts in m, so that a failed run
# does not make the rest look more certain.


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's step-down adjusted p-values: compared with α, all claims together err with probability at most α.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    adjusted: list[float | None] = [None] * len(p_values)
    reached = 0.0
    for rank, (p, i) in enumerate(_ranked(p_values)):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p))
        adjusted[i] = reached
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Step-up adjusted p-values q: of the claims with q < level, at most that share is false on average.

    This holds where tests are independent, or positively dependent as those that share a baseline are.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    (0.03, 0.04, 0.04)
    """
    adjusted: list[float | None] = [None] * len(p_values)
    ranked = _ranked(p_values)
    reached = 1.0
    for rank, (p, i) in reversed(list(enumerate(ranked, start=1))):
        reached = min(reached, len(p_values) * p / rank)
        adjusted[i] = reached
    return tuple(adjusted)


def _ranked(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    return sorted((p, i) for i, p in enumerate(p_values) if p is not None)


# Levels of interim analyses (looks), so that several looks together err no more often than a single one.
#
# At look j, with n_j seeds, each test's p is adjusted by Holm over the family of m comparisons and compared with
#
#     level    a_j = c·n_j/n_J
#
# The last look keeps most of the level of a single one. Of the levels c·(n_j/n_J)^ρ those with ρ = 0 (Pocock 1977) find
# less there, and those with ρ = 3 (close to O'Brien & Fleming 1979) hardly ever stop at an early one. With looks at 4,
# 6, 9, 13 and 20 and six comparisons, a difference of one standard deviation is found with ρ = 0, 1, 3 in 73, 80, 85 %
# of sweeps, and one of three takes 6.8, 7.4, 8.7 seeds on average.
#
# c is such that the chance of any false verdict at any look is at most α ("better" or "worse" where there is no
# difference, or "equivalent" where it is as large as the margin), whichever comparisons are which:
#
#     max over k of  k·π₂(c/k) + (m - k)·π₁(c/(m - k))  =  α
#     π(u) = P(at some look j the p of one comparison is below u·n_j/n_J)
#
# Where k comparisons have no difference and one of them is called different, the first has p ≤ a_j/k (Holm 1979), and
# where m - k are at the margin and one is called equivalent, the first has p ≤ a_j/(m - k). π₂ is of t for two sides,
# π₁ of t for one: that is what two one-sided tests amount to at a wide margin, and at narrower ones they find less.
# Sums of probabilities are valid under any dependence, and under any stopping rule, as no look is left out.
#
# π is simulated, with a fixed seed. A plain simulation would seldom see rare events, so paths are drawn given that
# look j is crossed, whose chance is known exactly, each weighted by one over the number of looks that it crosses:
#
#     π(u) = Σ_j P(j crossed)·E[1/number of looks crossed | j crossed]              Karp & Luby 1983

Floats = NDArray[np.float64]

RHO = 1.0  # the exponent of n_j/n_J by which levels grow from look to look

PATHS = 20_000  # paths simulated through each look

LEVELS = np.geomspace(1e-7, 0.2, 13)
"""The levels u at which π is simulated; between them π(u)/u is interpolated in log u."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """The levels that p-values are compared with at each of `looks`.

    `levels`: for the Holm-adjusted p-values of the family, of superiority and of equivalence. `interval_levels`: 1 -
    the confidence of the interval of a single comparison at each look, such that the intervals of all looks together
    hold its difference with confidence 1-α (a repeated confidence interval, Jennison & Turnbull 1989).
    """

    looks: tuple[int, ...]
    levels: tuple[float, ...]
    interval_levels: tuple[float, ...]


@cache
def boundaries(looks: tuple[int, ...], comparisons: int, *, alpha: float = 0.05, margin: bool = True) -> Boundaries:
    """Compute the boundaries of a family of that many comparisons; with a `margin`, equivalence is tested too.

    ValueError where looks do not increase from 2 or more, and without a comparison.
    """
    if not looks or looks[0] < 2 or any(a >= b for a, b in pairwise(looks)):
        raise ValueError(f"looks must increase and start at two or more seeds, got {looks}")
    if comparisons < 1:
        raise ValueError(f"a family needs one comparison or more, got {comparisons}")
    different = np.arange(comparisons + 1) if margin else np.array([comparisons])

    def errs(c: float) -> float:
        at_margin = comparisons - different
        false = different * _crossing(looks, 2, c / np.maximum(different, 1))
        false += at_margin * _crossing(looks, 1, c / np.maximum(at_margin, 1))
        return float(false.max())

    def scaled(errs: Callable[[float], float]) -> tuple[float, ...]:
        # π(u) lies between u and u times the number of looks, and errs sums at most two of them.
        c = zero_of(lambda c: errs(c) - alpha, alpha / len(looks) / 4, alpha)
        return tuple(float(c * share) for share in _shape_of_levels(looks))

    interval_levels = scaled(lambda c: float(_crossing(looks, 2, np.array([c]))[0]))
    return Boundaries(looks=looks, levels=scaled(errs), interval_levels=interval_levels)


def _shape_of_levels(looks: tuple[int, ...]) -> Floats:
    return (np.array(looks) / looks[-1]) ** RHO


def _crossing(looks: tuple[int, ...], sides: int, levels: Floats) -> Floats:
    """π at each of the levels."""
    return levels * np.interp(np.log(levels), np.log(LEVELS), _inflation(looks, sides))


@cache
def _inflation(looks: tuple[int, ...], sides: int) -> Floats:
    """π(u)/u at `LEVELS`: one for a single look, up to the sum of the shape for many independent looks."""
    random = np.random.default_rng(0)
    through = [_Through(looks, j, sides, random) for j in range(len(looks))]
    shape = _shape_of_levels(looks)
    return np.array([sum(s * paths.share(u) for s, paths in zip(shape, through, strict=True)) for u in LEVELS])


class _Through:
    """Paths of one comparison through look j, apart from the t they reach there.

    Up to look j differences are R·(cos θ·1/√n + sin θ·e), where t = √(n-1)·cot θ, a random direction e orthogonal to
    ones, and R² of χ² with n degrees of freedom are independent. After look j differences are new draws.
    """

    def __init__(self, looks: tuple[int, ...], j: int, sides: int, random: np.random.Generator) -> None:
        self.looks, self.j, self.sides = looks, j, sides
        n = looks[j]
        sums, squares = _cumulated(looks[: j + 1], random)
        mean = sums[-1] / n
        counts = np.array(looks[: j + 1])[:, None]
        length = np.sqrt(squares[-1] - n * mean**2)
        self.sums = (sums - counts * mean) / length
        self.squares = (squares - 2 * mean * sums + counts * mean**2) / length**2
        self.radius = np.sqrt(random.chisquare(n, PATHS))
        self.later = _cumulated(tuple(look - n for look in looks[j + 1 :]), random) if j + 1 < len(looks) else None
        self.at = random.permutation((np.arange(PATHS) + 0.5) / PATHS)

    def share(self, level: float) -> float:
        """E[1/number of looks crossed | this look is crossed] when u is `level`."""
        tails = level * _shape_of_levels(self.looks) / self.sides
        critical = stdtrit(np.array(self.looks) - 1, 1 - tails)
        crossed = np.zeros(PATHS)
        for i, t in self._reached(tails[self.j]):
            crossed += (np.abs(t) if self.sides == 2 else t) >= critical[i]
        return float((1 / (1 + crossed)).mean())

    def _reached(self, tail: float) -> Iterator[tuple[int, Floats]]:
        """The index and t of every other look."""
        n = self.looks[self.j]
        grid = np.linspace(0, 1, 257)[1:]
        t = np.interp(np.log(self.at), np.log(grid), stdtrit(n - 1, 1 - tail * grid))
        cos, sin = t / np.sqrt(t**2 + n - 1), math.sqrt(n - 1) / np.sqrt(t**2 + n - 1)
        for i, count in enumerate(self.looks):
            if i < self.j:
                sums = cos * count / math.sqrt(n) + sin * self.sums[i]
                squares = cos**2 * count / n + 2 * cos * sin * self.sums[i] / math.sqrt(n) + sin**2 * self.squares[i]
            elif i > self.j:
                assert self.later is not None
                more, more_squares = self.later[0][i - self.j - 1], self.later[1][i - self.j - 1]
                sums = self.radius * cos * math.sqrt(n) + more
                squares = self.radius**2 + more_squares
            else:
                continue
            yield i, sums / np.sqrt(count * np.maximum(squares - sums**2 / count, 1e-300) / (count - 1))


def _cumulated(counts: tuple[int, ...], random: np.random.Generator) -> tuple[Floats, Floats]:
    """Sums and sums of squares of the first n standard normal values, for each n of `counts`."""
    steps = np.diff(np.array((0, *counts)))[:, None]
    sums = random.standard_normal((len(counts), PATHS)) * np.sqrt(steps)
    apart = np.where(steps > 1, random.chisquare(np.maximum(steps - 1, 1), (len(counts), PATHS)), 0.0)
    return sums.cumsum(axis=0), (apart + sums**2 / steps).cumsum(axis=0)


# The α left for a question that is judged again, because more seeds were trained to decide it.
#
# Judging at α, training the advised seeds where nothing is decided, and judging at α again errs more often than α: in
# 9.1 % of tables at 5 %. So the k-th judgement of a question spends 0.8 of the α that earlier ones have left:
#
#     α_k = 0.8·0.2^(k-1)·α            4 %, 0.8 %, 0.16 %, … of 5 %;  their sum is below α however many there are
#
# Each judgement errs in at most α_k of tables, and these chances at most add up, whatever seeds judgements share and
# whatever led to judging again (alpha spending, Lan & DeMets 1983, with some α always left). Most goes to the first:
# most questions are judged once, where 4 % instead of 5 % costs little power.

SHARE_LEFT = 0.2  # the share of the remaining α that a judgement leaves to later ones


def spent(left: float, *, looks: bool = False) -> float:
    """The share of α that a judgement spends when the share `left` of it remains.

    With `looks` (interim analyses) all of it is spent: their boundaries allow for every look, and leave nothing.

    >>> [round(5 * spent(left), 2) for left in (1, 0.2, 0.04)], spent(0.2, looks=True)
    ([4.0, 0.8, 0.16], 0.2)
    """
    return left if looks else (1 - SHARE_LEFT) * left
