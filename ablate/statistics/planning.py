"""Planning: how many seeds a comparison takes, and which differences a number of seeds can detect.

    power(n) = P(|T| > t(n-1, 1-α/2)),   T noncentral with n-1 degrees of freedom and centre √n·difference/sd

A study is planned from an upper limit of sd, since the estimate itself gives too small a study about half the time
(Browne 1995, Kieser & Wassmer 1996). Post hoc power says nothing that the p-value does not (Hoenig & Heisey 2001):
every function here is about seeds that are yet to run.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, nctdtr, stdtrit

from ablate.statistics.paired import paired
from ablate.statistics.spread import SD_LEVEL, sd_interval, sd_upper

POWER = 0.8  # the power of a planned study: its chance to find a true difference

MOST_SEEDS = 1000  # the most seeds a plan asks for; where this is not enough, it says so

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
    """The smallest difference that n pairs find with the given power, for that sd; the inverse of `power_of`.

    ValueError for fewer than two pairs, and for a power that is not between α and 1.
    """
    if n < 2 or not alpha < power < 1:
        raise ValueError(
            f"a visible difference needs two or more pairs and a power from {alpha} to 1, got {n} and {power}"
        )
    return sd * _centre(n - 1, alpha, power) / math.sqrt(n)


def seeds_for_margin(sd: float, margin: float, *, confidence: float = 0.95) -> int | None:
    """The fewest pairs at which the interval of the equivalence test is within ± half the margin of its centre.

    Then a true difference of less than half the margin is usually found equivalent. None beyond `MOST_SEEDS`.
    """
    return _fewest(lambda n: float(stdtrit(n - 1, confidence)) * sd / math.sqrt(n) <= margin / 2)


def seeds_for_power(difference: float, sd: float, *, alpha: float = 0.05, power: float = POWER) -> int | None:
    """The fewest pairs whose two-sided t-test at level α finds `difference` with that power; None past `MOST_SEEDS`."""
    return _fewest(lambda n: power_of(difference, sd, n, alpha) >= power)


def seeds_for_signs(level: float) -> int:
    """The fewest pairs at which identical differences have 2^(1-n) ≤ level."""
    return max(2, math.ceil(1 - math.log2(level)))


def _power(centre: float, df: int, critical: float) -> float:
    """P(|T| > critical), with T noncentral around `centre`.

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
    """The noncentrality at which a two-sided test at level α has that power."""
    critical = float(stdtrit(df, 1 - alpha / 2))
    high = critical + 10.0
    while _power(high, df, critical) < power:
        high *= 2
    return zero_of(lambda centre: _power(centre, df, critical) - power, 0.0, high)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The smallest n from 2 to `MOST_SEEDS` that is enough, where any larger n is too; None if none is."""
    n = bisect.bisect_left(range(2, MOST_SEEDS + 1), True, key=enough) + 2
    return n if n <= MOST_SEEDS else None


# The zero of an increasing function. SciPy has better methods, but importing them takes longer than this.

HALVINGS = 60  # after this many the bracket is as narrow as rounding allows


def zero_of(rising: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a function that rises from below 0 at `low` to 0 or above at `high`, by bisection."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) >= 0 else (middle, high)
    return high


# The noise floor: how much differences between two training runs vary over seeds.
#
# Verdicts depend on how an edit's differences vary, so pairs of an edit are used where there are any. A/A pairs,
# which differ in their initialisation alone, are a substitute: unlike an edit and its baseline they share no
# initialisation, and where that matters their differences vary more than those that are judged.

Pairs: TypeAlias = Sequence[tuple[float, float]]  # values that share a seed: before, and after


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The standard deviation of the differences of pairs on one metric, and `whose` pairs they are.

    For A/A pairs (`edits` is 0) it is over n ≥ 2 of them. For the pairs of one or more `edits` it is pooled, each
    around its own mean; n is then the largest number of pairs of an edit, which limits how well the sd is known, since
    all share the baseline's runs. `pairs` is the total number. On the log scale it is that of log ratios. Planning from
    it assumes that the differences of an edit vary as these do: normally, with this standard deviation.
    """

    metric: str
    scale: Literal["linear", "log"]
    n: int
    sd: float
    whose: str
    edits: int = 0
    pairs: int = 0

    def sd_interval(self, level: float = 0.95) -> tuple[float, float]:
        """The χ² interval of the true standard deviation."""
        return sd_interval(self.sd, self.n, level)

    def visible(self, n: int, alpha: float = 0.05, power: float = POWER) -> tuple[float, float, float]:
        """The smallest difference that n pairs find at level α with that power, and its 95 % interval.

        It is proportional to the standard deviation, and so is its interval to that of the latter. Without spread the
        sign test decides: any difference is found from `seeds_for_signs(alpha)` pairs on, none (infinite) from fewer.
        """
        if self.sd == 0:
            least = 0.0 if n >= seeds_for_signs(alpha) else math.inf
            return least, least, least
        at = visible_difference(1.0, n, alpha, power)
        low, high = self.sd_interval()
        return at * self.sd, at * low, at * high

    def seeds_for_margin(self, margin: float, alpha: float = 0.05) -> int | None:
        """Return the fewest pairs for an interval, at 1-2α, of ± half the margin, from the 80 % upper limit of sd.

        Without spread, those that the one-sided sign test takes. None if no affordable number is enough.
        """
        if self.sd == 0:
            return seeds_for_signs(2 * alpha)
        return seeds_for_margin(sd_upper(self.sd, self.n, SD_LEVEL), margin, confidence=1 - alpha)


def floor_of(
    metric: str, before: Sequence[float], after: Sequence[float], *, log: bool = False, whose: str = ""
) -> Floor:
    """Compute the floor of a metric from A/A pairs that share a seed, position by position. ValueError as `paired`."""
    result = paired(before, after, log=log)
    return Floor(metric=metric, scale="log" if log else "linear", n=result.n, sd=result.sd, whose=whose, pairs=result.n)


def floor_of_edits(metric: str, edits: Sequence[Pairs], *, log: bool = False, whose: str = "") -> Floor:
    """The floor of a metric from the pairs (before, after) of edits, each at two seeds or more.

        s² = Σ_e Σ_i (d_ei - d̄_e)² / Σ_e (n_e - 1)

    ValueError without an edit, and as `paired`.
    """
    if not edits:
        raise ValueError("a floor of edits needs the pairs of one edit or more")
    results = [paired([x for x, _ in pairs], [y for _, y in pairs], log=log) for pairs in edits]
    df = sum(result.n - 1 for result in results)
    return Floor(
        metric=metric,
        scale="log" if log else "linear",
        n=max(result.n for result in results),
        sd=math.hypot(*(math.sqrt((result.n - 1) / df) * result.sd for result in results)),
        whose=whose,
        edits=len(results),
        pairs=sum(result.n for result in results),
    )


# The verdicts of a family of paired comparisons, simulated: how often each is found for given true differences.
#
# Every run has its own normal noise of standard deviation σ, independent from run to run, so that a contrast w·x over
# variants has the sd σ·|w| over seeds, and contrasts that share variants correlate. Each is tested by t over n seeds:
# a difference is found where |t| exceeds that of Holm's step, two-sided, and equivalence where both one-sided tests
# against ±margin do. Equivalence comes first.
#
# The draws are the same each time, so that two answers differ by their questions alone. Their standard error is at most
# half a percentage point.

Floats = NDArray[np.float64]

FAMILY_DRAWS = 10_000
MOST_NUMBERS = 4_000_000  # the most random numbers at a time
DOWN, INSIDE, UP, UNDECIDED = -1, 0, 1, 9
"""Verdicts: a difference below zero, equivalence, a difference above zero, and none of these."""


@dataclass(frozen=True)
class SimulatedFamily:
    """A family of `tests` comparisons at a `level`, of which these contrasts are simulated over n ≥ 2 seeds.

    `weights` [contrasts, variants] has a row for each distinct contrast. The others of the family are never found.
    """

    weights: Floats
    n: int
    level: float
    tests: int

    @cached_property
    def _noise(self) -> tuple[Floats, Floats]:
        """Mean and standard error [draws, contrasts] of each contrast, where a run's own sd is 1."""
        values, vectors = np.linalg.eigh(self.weights @ self.weights.T)
        root = vectors * np.sqrt(np.clip(values, 0.0, None))
        random, contrasts = np.random.default_rng(0), len(self.weights)
        at_once = max(1, MOST_NUMBERS // (self.n * contrasts))
        means, errors = [], []
        for start in range(0, FAMILY_DRAWS, at_once):
            size = (min(at_once, FAMILY_DRAWS - start), self.n, contrasts)
            drawn = random.standard_normal(size) @ root.T
            means.append(drawn.mean(axis=1))
            errors.append(drawn.std(axis=1, ddof=1) / math.sqrt(self.n))
        return np.concatenate(means), np.concatenate(errors)

    @cached_property
    def _critical(self) -> tuple[Floats, Floats]:
        """The t of each step of Holm's procedure, for a difference and for equivalence."""
        steps = self.level / (self.tests - np.arange(len(self.weights)))
        return stdtrit(self.n - 1, 1 - steps / 2), stdtrit(self.n - 1, 1 - steps)

    def verdicts(self, differences: Sequence[float] | Floats, sd: float, margin: float | None) -> NDArray[np.int8]:
        """Return verdicts [draws, contrasts] for these true differences; `sd` is that of the difference of two runs."""
        run = sd / math.sqrt(2)
        mean, error = self._noise[0] * run + np.asarray(differences, dtype=np.float64), self._noise[1] * run
        two_sided, one_sided = self._critical
        different = _stepped(np.abs(mean) / error, two_sided)
        given = np.where(different, np.where(mean > 0, UP, DOWN), UNDECIDED)
        if margin is not None:
            given = np.where(_stepped((margin - np.abs(mean)) / error, one_sided), INSIDE, given)
        return given.astype(np.int8)


def _stepped(t: Floats, critical: Floats) -> NDArray[np.bool_]:
    """True for those of each row rejected step by step: the largest t first, until one does not exceed its bound."""
    order = np.argsort(-t, axis=1)
    passed = np.logical_and.accumulate(np.take_along_axis(t, order, axis=1) > critical, axis=1)
    rejected = np.zeros_like(passed)
    np.put_along_axis(rejected, order, passed, axis=1)
    return rejected


def correlation_power(correlation: float, rows: int, n: int, level: float) -> float:
    """Return the chance that a rank correlation is found above zero by t over n seeds, two-sided at this level.

    Each seed's rows are drawn anew from a normal distribution with this correlation, and give one Spearman's ρ.
    ValueError for fewer than two seeds or three rows.
    """
    if n < 2 or rows < 3:
        raise ValueError(f"a correlation over seeds needs two or more of them and three rows, got {n} and {rows}")
    random = np.random.default_rng(0)
    draws = max(100, min(FAMILY_DRAWS, MOST_NUMBERS // (n * rows)))
    x = random.standard_normal((draws, n, rows))
    y = correlation * x + math.sqrt(1 - correlation**2) * random.standard_normal((draws, n, rows))
    places = [np.argsort(np.argsort(values, axis=2), axis=2) - (rows - 1) / 2 for values in (x, y)]
    over_seeds = (places[0] * places[1]).sum(axis=2) / (rows * (rows**2 - 1) / 12)
    mean, sd = over_seeds.mean(axis=1), over_seeds.std(axis=1, ddof=1)
    t = np.divide(mean * math.sqrt(n), sd, out=np.where(mean > 0, math.inf, -math.inf), where=sd > 1e-12)
    return float((t > stdtrit(n - 1, 1 - level / 2)).mean())
