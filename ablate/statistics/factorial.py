"""Factorials: the effects of edits that were tried together, from the values of runs over seeds.

    y[run, seed] = block(seed) + Σ over effects β_e·x_e(run) + error    x_e: product of the levels -1, +1 of its edits

The effect of an edit is 2β: the mean difference that it makes over the other edits' levels. Of a pair it is 4β: how
much more the one does where the other is there than where it is not; of j edits 2^j·β. β by least squares. With an
effect that is there but not fitted, estimates are off by what the alias table says.

Effects are held against an error on complete seeds alone, those at which every run has a value that has one at any:
least squares over what is left of a table would weigh the only value of a run by the variance of the others. Fewer than
two complete seeds of several give no error: then estimates are over the cells there are, and nothing is said of them.

The error is what runs do at one seed beyond their mean and that of the seed, with (R-1)(S-1) degrees of freedom. What
the runs' means leave beside the effects fitted is lack of fit, a line of its own: it is as large as the effects left
out, so it would not do as an error. In a table of one seed there is nothing else, and then it is taken for one.

Where runs vary unequally the pooled variance is the mean of theirs, which is what an effect has that weighs all runs
alike, as in every orthogonal layout; but degrees of freedom are fewer than are counted. Of the six effects of three
edits (40,000 tables; by Bonferroni some effect is found in so many of them though there is none):

    seeds                              2        3        5        8
    equal sds        95 % cover     95.0     95.0     94.9     95.0 %       false tables 4.1   4.6   4.7   5.0 %
    a half to two                   94.0     94.3     94.7     94.8 %                    5.3   5.4   5.2   4.9 %
    one run's at four               90.2     91.7     92.9     93.8 %                    8.4   7.8   6.6   5.3 %

Sums of squares are partial: of each term given all others (Yates 1934; type III).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from ablate.statistics.blocked import Fit, apart, fit
from ablate.statistics.paired import (
    bounds_without_spread,
    one_sided_p,
    student_interval,
    student_p,
)
from ablate.statistics.spread import ROUNDING

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Levels: TypeAlias = NDArray[np.int64] | Floats

TOLD = 1e-6
"""Rounding of what can be told of an effect: 1 for all of it, 0 for nothing."""

NO_CHANGE = "the runs with results are alike in it"

ErrorOf: TypeAlias = Literal["runs by seeds", "lack of fit", "none"]
"""What the standard errors come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One effect, as the indices of its edits. `error` is the standard error, with `df` degrees of freedom.

    An effect that the runs with results do not tell has no `estimate`, `reason` says why, and `entangled` are the
    effects that it cannot be told from. Nothing but `estimate` is known where there is no error to hold it against.
    Values that do not vary leave no spread for t; then `method` is `sign`, by the number of seeds n, as for pairs.
    """

    effect: tuple[int, ...]
    n: int
    estimate: float | None = None
    error: float | None = None
    df: float | None = None
    low: float | None = None
    high: float | None = None
    tost_low: float | None = None
    tost_high: float | None = None
    p: float | None = None
    method: Literal["pooled", "sign"] = "pooled"
    reason: str = ""
    entangled: tuple[tuple[int, ...], ...] = ()

    def p_equivalent(self, margin: float) -> float | None:
        """The greater p of the two one-sided tests against ±margin; None where there is no error to test with."""
        if self.estimate is None or self.error is None:
            return None
        return one_sided_p(self.estimate, margin, self.error, self.df, self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the analysis of variance: `term` is `effect`, `seed`, `lack of fit` or `error`.

    `effect` has the indices of its edits, None where it is none. F is against the error; F and p are None for the error
    itself, and where there is none or it does not vary.
    """

    term: str
    effect: tuple[int, ...] | None
    sum_of_squares: float
    df: int
    f: float | None
    p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The estimates, in the order asked for, and the analysis of variance of the effects that can be told.

    `cells`, `runs` and `seeds` are how many the estimates are from, `complete` the positions of the seeds at which
    every run has a value that has one at all, `lost` those of the runs that have none. `sd` is that of the error, None
    without one. `lines` are of complete seeds; there are none where the error is for want of such.
    """

    estimates: tuple[Estimate, ...]
    lines: tuple[Line, ...]
    cells: int
    runs: int
    seeds: int
    sd: float | None
    error_of: ErrorOf
    complete: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


def analyse(
    levels: Levels,
    effects: Sequence[tuple[int, ...]],
    values: Floats,
    *,
    size: float = 0.0,
    confidence: float = 0.95,
) -> Analysis:
    """The effects of a factorial with `levels` [runs, edits] from `values` [runs, seeds], NaN where there is none.

    `size` is that of the values the present ones come from, which rounding goes by (1 for logarithms). ValueError where
    the shapes do not fit, levels are others than -1 and +1, an effect is asked for twice, or a value is infinite.
    """
    levels, values = np.asarray(levels, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(levels, effects, values)
    there = ~np.isnan(values)
    kept: Mask = np.logical_or.reduce(there, axis=1)
    lost = tuple(np.flatnonzero(~kept).tolist())
    if not kept.any():
        none = tuple(Estimate(effect=effect, n=0, reason="no run has a result") for effect in effects)
        return Analysis(estimates=none, lines=(), cells=0, runs=0, seeds=0, sd=None, error_of="none", lost=lost)
    complete: Mask = np.logical_and.reduce(there[kept], axis=0)
    n = int(complete.sum())
    held = n > 1 or values.shape[1] == 1
    there = there & kept[:, None] & complete if held else there
    runs, seeds = np.nonzero(there)
    _, seeds = np.unique(seeds, return_inverse=True)
    y = values[there]
    x = np.ones((runs.size, len(effects)))
    for column, effect in enumerate(effects):
        x[:, column] = levels[:, list(effect)].prod(axis=1)[runs]
    x_apart, y_apart = apart(x, seeds), apart(y[:, None], seeds)[:, 0]
    found = fit(x_apart, y_apart)
    residual = _within(values[np.ix_(kept, complete)]) if held else 0.0
    error = _error(found, residual, int(kept.sum()) - 1, n, size=max(size, float(np.abs(y).max())), held=held)
    estimates = tuple(_estimate(effects, i, found, x_apart, error, n, 1 - confidence) for i in range(len(effects)))
    return Analysis(
        estimates=estimates,
        lines=tuple(_lines(estimates, found, x, y, residual, int(kept.sum()) - 1, error)) if held else (),
        cells=y.size,
        runs=int(kept.sum()),
        seeds=int(np.unique(seeds).size),
        sd=None if error.of == "none" else error.sd,
        error_of=error.of,
        complete=tuple(np.flatnonzero(complete).tolist()),
        lost=lost,
    )


def _lines(
    estimates: Sequence[Estimate], found: Fit, x: Floats, y: Floats, residual: float, runs_df: int, error: _Error
) -> Iterator[Line]:
    for estimate, beta, share in zip(estimates, found.coefficients, found.shares, strict=True):
        if estimate.estimate is not None:
            yield _line("effect", estimate.effect, float(beta**2 / share), 1, error)
    n = estimates[0].n if estimates else y.size // (runs_df + 1)
    if n > 1:
        unblocked = fit(np.column_stack([np.ones(y.size), x]), y - y.mean())
        yield _line("seed", None, max(unblocked.left - found.left, 0.0), n + found.rank - unblocked.rank, error)
    if runs_df > found.rank:
        yield _line("lack of fit", None, max(found.left - residual, 0.0), runs_df - found.rank, error)
    if error.of == "runs by seeds":
        yield _line("error", None, residual, error.df, error)


def _check(levels: Floats, effects: Sequence[tuple[int, ...]], values: Floats) -> None:
    if levels.ndim != 2 or values.ndim != 2 or levels.shape[0] != values.shape[0]:
        raise ValueError(f"a factorial needs levels and values of the same runs, got {levels.shape} and {values.shape}")
    if not (np.abs(levels) == 1).all():
        raise ValueError("levels are -1 and +1")
    if np.isinf(values).any():
        raise ValueError("a factorial needs finite values, and NaN where there is none")
    if len({frozenset(effect) for effect in effects}) < len(effects) or not all(effects):
        raise ValueError(f"effects are distinct and of one edit or more, got {list(effects)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Error:
    """The error that everything is held against; `size` is that of the values, by which rounding goes."""

    of: ErrorOf
    sd: float
    df: int
    size: float


def _error(found: Fit, residual: float, runs_df: int, n: int, *, size: float, held: bool) -> _Error:
    df, lacking = runs_df * (n - 1), runs_df - found.rank
    of: ErrorOf = "none" if not held else "runs by seeds" if df else "lack of fit" if lacking else "none"
    squares, df = {"runs by seeds": (residual, df), "lack of fit": (found.left, lacking), "none": (0.0, 0)}[of]
    sd = math.sqrt(squares / df) if df else 0.0
    return _Error(of=of, sd=sd if sd > ROUNDING * size else 0.0, df=df, size=size)


def _within(values: Floats) -> float:
    """The sum of squares that a mean for each run and one for each seed leave of a complete table."""
    left = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    return float((left**2).sum())


def _estimate(
    effects: Sequence[tuple[int, ...]], i: int, found: Fit, x: Floats, error: _Error, n: int, alpha: float
) -> Estimate:
    if found.told[i, i] < 1 - TOLD:
        others = tuple(effect for j, effect in enumerate(effects) if j != i and abs(found.told[i, j]) > TOLD)
        varies = float(np.abs(x[:, i]).max()) > TOLD
        reason = "cannot be told from other effects in the runs with results" if varies else NO_CHANGE
        return Estimate(effect=effects[i], n=n, reason=reason, entangled=others)
    scale = 2.0 ** len(effects[i])
    estimate = scale * float(found.coefficients[i])
    if error.of == "none":
        return Estimate(effect=effects[i], n=n, estimate=estimate)
    if error.sd == 0:
        return _without_spread(effects[i], estimate if abs(estimate) > ROUNDING * error.size else 0.0, n, alpha)
    standard = scale * error.sd * math.sqrt(float(found.shares[i]))
    low, high = student_interval(estimate, standard, error.df, alpha / 2)
    tost_low, tost_high = student_interval(estimate, standard, error.df, alpha)
    return Estimate(
        effect=effects[i],
        n=n,
        estimate=estimate,
        error=standard,
        df=float(error.df),
        low=low,
        high=high,
        tost_low=tost_low,
        tost_high=tost_high,
        p=student_p(estimate, standard, error.df),
    )


def _without_spread(effect: tuple[int, ...], estimate: float, n: int, alpha: float) -> Estimate:
    low, high = bounds_without_spread(estimate, n, alpha)
    tost_low, tost_high = bounds_without_spread(estimate, n, 2 * alpha)
    return Estimate(
        effect=effect,
        n=n,
        estimate=estimate,
        error=0.0,
        low=low,
        high=high,
        tost_low=tost_low,
        tost_high=tost_high,
        p=1.0 if estimate == 0 else 2.0 ** (1 - n),
        method="sign",
    )


def _line(term: str, effect: tuple[int, ...] | None, squares: float, df: int, error: _Error) -> Line:
    tested = term not in ("error", error.of) and error.sd > 0 and df > 0
    f = squares / df / error.sd**2 if tested else None
    p = float(fdtrc(df, error.df, f)) if f is not None else None
    return Line(term=term, effect=effect, sum_of_squares=squares, df=df, f=f, p=p)
