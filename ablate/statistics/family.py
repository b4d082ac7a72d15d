"""The verdicts of a family of paired comparisons, simulated: how often each is found for given true differences.

Every run has its own normal noise of standard deviation σ, independent from run to run, so that a contrast w·x over
variants has the sd σ·|w| over seeds, and contrasts that share variants correlate. Each is tested by t over n seeds:
a difference is found where |t| exceeds that of Holm's step, two-sided, and equivalence where both one-sided tests
against ±margin do. Equivalence comes first.

The draws are the same each time, so that two answers differ by what is asked alone. Their standard error is at most
half a percentage point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]

DRAWS = 10_000
MOST_NUMBERS = 4_000_000
"""The most random numbers at a time."""
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
        for start in range(0, DRAWS, at_once):
            size = (min(at_once, DRAWS - start), self.n, contrasts)
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
    """Return which of each row are rejected step by step: the largest t first, until one does not exceed its bound."""
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
    draws = max(100, min(DRAWS, MOST_NUMBERS // (n * rows)))
    x = random.standard_normal((draws, n, rows))
    y = correlation * x + math.sqrt(1 - correlation**2) * random.standard_normal((draws, n, rows))
    places = [np.argsort(np.argsort(values, axis=2), axis=2) - (rows - 1) / 2 for values in (x, y)]
    over_seeds = (places[0] * places[1]).sum(axis=2) / (rows * (rows**2 - 1) / 12)
    mean, sd = over_seeds.mean(axis=1), over_seeds.std(axis=1, ddof=1)
    t = np.divide(mean * math.sqrt(n), sd, out=np.where(mean > 0, math.inf, -math.inf), where=sd > 1e-12)
    return float((t > stdtrit(n - 1, 1 - level / 2)).mean())
