"""Factorials: the effects of edits that were tried together, from the values of runs over seeds.

    y[run, seed] = block(seed) + Σ over effects β_e(seed)·x_e(run) + error    x_e: product of its edits' levels -1, +1

The effect of an edit is 2β: the mean difference that it makes over the other edits' levels. Of a pair it is 4β: how
much more the one does where the other is there than where it is not; of j edits 2^j·β. β by least squares. With an
effect that is there but not fitted, estimates are off by what the alias table says.

An edit's effect varies over seeds, and one edit's more than another's, so that no error is common to all effects. Each
is held against its own: least squares at every seed by itself give an effect for each, and their mean is judged as the
differences of pairs are, with S-1 degrees of freedom for S seeds (`paired.of_differences`). Of the seven effects of
three edits, or the fifteen of five in sixteen runs, where an edit's effect varies over seeds with an sd of 0, 1 and 3
times a run's noise, tables with some false find by Bonferroni, and how often an interval of 95 % covers a main effect:

                                             sd 0             1              3
    2^3, 5 seeds      its own error      4.9 %  95 %    4.9 %  95 %    5.0 %  95 %
                      one for all        4.7    95      9.0    88       19    81
    2^(5-1), 5 seeds  its own error      4.8    95      5.1    95      4.8    95
                      one for all        4.7    95       20    82       33    75

(20,000 tables each; with eight seeds the same within 1.4 points.) What one error for all would gain where it is right
is power: an effect of one sd of a run is found at 5 %/7 in 22 % of tables of 2^3 with five seeds and 60 % with eight;
with one error for all it would be 60 and 87 %.

Effects are of complete seeds alone, those at which every run has a value that has one at any: least squares over what
is left of a table would weigh the only value of a run by the variance of the others. Fewer than two complete seeds of
several give no error: then estimates are over the cells there are, and nothing is said of them. In a table of one seed
there is nothing but what the effects leave unexplained, and then this is taken for an error.

Where runs are `lost`, complete seeds are those of survivors, and p is by ranks (`worst_rank`) over all seeds that have
each run, lost or not. For the effect of one edit a seed goes upwards by as many lost runs as there are more with the
edit than without; that supposes that runs with and without it enter alike, as in a balanced design they do. Elsewhere,
and for what edits do together, the seed is open: were two edits each to lose every run, what they do together would
come out as a gain, since nothing is worse than lost.

The analysis of variance: sums of squares are partial, of each term given all others (Yates 1934; type III). The error
of an effect is how it varies over seeds, so that its F is t². What the runs' means leave beside the effects fitted is
lack of fit, held against how that varies over seeds, with degrees of freedom times ε (see `sphericity`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from ablate.statistics.blocked import Fit, apart, fit
from ablate.statistics.paired import Method as PairedMethod
from ablate.statistics.paired import bounds_without_spread, of_differences, one_sided_p, student_interval, student_p
from ablate.statistics.sphericity import Sphericity, sphericity
from ablate.statistics.spread import ROUNDING
from ablate.statistics.worst_rank import Ranked, worst_rank

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Levels: TypeAlias = NDArray[np.int64] | Floats

TOLD = 1e-6
"""Rounding of what can be told of an effect: 1 for all of it, 0 for nothing."""

NO_CHANGE = "the runs with results are alike in it"

ErrorOf: TypeAlias = Literal["seeds", "lack of fit", "none"]
"""What the standard errors come from: how each effect varies over seeds, or what one seed leaves unexplained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One effect, as the indices of its edits. `error` is the standard error, with `df` degrees of freedom.

    An effect that the runs with results do not tell has no `estimate`, `reason` says why, and `entangled` are the
    effects that it cannot be told from. Nothing but `estimate` is known where there is no error to hold it against.
    `method` is that of its values over `n` seeds, as for pairs; `pooled` where one seed's lack of fit is the error.
    `ranks` are there where runs were lost, over all seeds. `over_seeds` is the effect at each seed, where the error is
    by how these vary.
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
    method: PairedMethod | Literal["pooled"] = "student"
    reason: str = ""
    entangled: tuple[tuple[int, ...], ...] = ()
    ranks: Ranked | None = None
    over_seeds: tuple[float, ...] = ()

    def p_equivalent(self, margin: float) -> float | None:
        """The greater p of the two one-sided tests against ±margin; None where there is no error to test with."""
        if self.estimate is None or self.error is None:
            return None
        return one_sided_p(self.estimate, margin, self.error, self.df, self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnovaLine:
    """A line of the analysis of variance: `term` is `effect`, `seed`, `lack of fit` or `error`.

    `effect` has the indices of its edits, None where it is none. F is against how the term varies over seeds, None for
    what is not tested: the seeds, the error itself, and what does not vary.
    """

    term: str
    effect: tuple[int, ...] | None
    sum_of_squares: float
    df: int
    f: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The estimates, in the order asked for, and the analysis of variance of the effects that can be told.

    `cells`, `runs` and `seeds` are how many the estimates are from, `complete` the positions of the seeds at which
    every run has a value that has one at all, `lost` those of the runs that have none. `lines` are of complete seeds,
    and there are none where the error is for want of such. `sphericity` is of all contrasts of the runs.
    """

    estimates: tuple[Estimate, ...]
    lines: tuple[AnovaLine, ...]
    cells: int
    runs: int
    seeds: int
    error_of: ErrorOf
    complete: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    sphericity: Sphericity | None = None


def analyse(
    levels: Levels,
    effects: Sequence[tuple[int, ...]],
    values: Floats,
    *,
    size: float = 0.0,
    confidence: float = 0.95,
    level: float | None = None,
    only_student: bool = False,
    gone: Floats | None = None,
) -> Analysis:
    """The effects of a factorial with `levels` [runs, edits] from `values` [runs, seeds], NaN where there is none.

    `gone` [runs, seeds] is 1 where a run was lost and stands above all values, -1 where below, NaN where it is not said
    on which side, 0 elsewhere. `size` is that of the values the present ones come from, which rounding goes by (1 for
    logarithms); `level` and `only_student` are as for pairs. ValueError where the shapes do not fit, levels are others
    than -1 and +1, an effect is asked for twice, or a value is infinite.
    """
    levels, values = np.asarray(levels, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(levels, effects, values)
    found = _over_values(
        levels, effects, values, size=size, confidence=confidence, level=level, only_student=only_student
    )
    if gone is None or found.lost or not gone.any():
        return found
    ranked = _ranked(levels, effects, values, np.asarray(gone, dtype=np.float64), size=size)
    estimates = (replace(one, ranks=ranks) for one, ranks in zip(found.estimates, ranked, strict=True))
    return replace(found, estimates=tuple(estimates))


def _over_values(
    levels: Floats,
    effects: Sequence[tuple[int, ...]],
    values: Floats,
    *,
    size: float,
    confidence: float,
    level: float | None,
    only_student: bool,
) -> Analysis:
    """The same from the values alone."""
    there = ~np.isnan(values)
    kept: Mask = np.logical_or.reduce(there, axis=1)
    lost = tuple(np.flatnonzero(~kept).tolist())
    if not kept.any():
        none = tuple(Estimate(effect=effect, n=0, reason="no run has a result") for effect in effects)
        return Analysis(estimates=none, lines=(), cells=0, runs=0, seeds=0, error_of="none", lost=lost)
    complete: Mask = np.logical_and.reduce(there[kept], axis=0)
    n, at = int(complete.sum()), tuple(np.flatnonzero(complete).tolist())
    if n < 2:
        return _of_cells(levels, effects, values, at, lost, size=size, alpha=1 - confidence)
    table = values[np.ix_(kept, complete)]
    size = max(size, float(np.abs(table).max()))
    x = _columns(levels[kept], effects)
    x = x - x.mean(axis=0)
    means = table.mean(axis=1)
    found = fit(x, means - means.mean())
    over_seeds = np.array([2.0 ** len(effect) for effect in effects])[:, None] * (found.weights @ table)

    def judged(i: int) -> Estimate:
        paired = of_differences(over_seeds[i], size=size, confidence=confidence, level=level, only_student=only_student)
        return Estimate(
            effect=effects[i],
            n=n,
            estimate=paired.mean,
            error=paired.sd / math.sqrt(n),
            df=paired.df,
            low=paired.low,
            high=paired.high,
            tost_low=paired.tost_low,
            tost_high=paired.tost_high,
            p=paired.p,
            method=paired.method,
            over_seeds=paired.differences,
        )

    untold = {i: _untold(effects, i, found, x, n) for i in range(len(effects)) if found.told[i, i] < 1 - TOLD}
    estimates = tuple(untold[i] if i in untold else judged(i) for i in range(len(effects)))
    contrasts = _basis(np.ones((table.shape[0], 1))) @ table
    return Analysis(
        estimates=estimates,
        lines=tuple(_lines(estimates, found, x, table, size)),
        cells=table.size,
        runs=table.shape[0],
        seeds=n,
        error_of="seeds",
        complete=at,
        lost=lost,
        sphericity=sphericity(contrasts) if _varies(contrasts, size) else None,
    )


def _ranked(
    levels: Floats, effects: Sequence[tuple[int, ...]], values: Floats, gone: Floats, *, size: float
) -> list[Ranked | None]:
    """The ranks of each effect; None of those that the runs do not tell, and where no seed that counts lost a run."""
    counted: Mask = np.logical_and.reduce(~np.isnan(values) | (gone != 0), axis=0)
    some: Mask = counted & np.logical_or.reduce(gone != 0, axis=0)
    if not some.any():
        return [None] * len(effects)
    complete = counted & ~some
    x = _columns(levels, effects)
    x = x - x.mean(axis=0)
    fitted = fit(x, np.zeros(x.shape[0]))
    table, without = values[:, complete], gone[:, some]
    size = max(size, float(np.abs(table).max(initial=0.0)))
    found: list[Ranked | None] = []
    for i, effect in enumerate(effects):
        weights = fitted.weights[i]
        if fitted.told[i, i] < 1 - TOLD:
            found.append(None)
            continue
        alike = len(effect) == 1 and float(np.ptp(np.abs(weights))) < TOLD * float(np.abs(weights).max())
        more = np.rint(np.sign(weights) @ without) if alike else np.full(without.shape[1], np.nan)
        sided = more[~np.isnan(more)].astype(int).tolist()
        differences = 2.0 ** len(effect) * (weights @ table)
        found.append(worst_rank(differences, sided, len(more) - len(sided), size=size))
    return found


def _of_cells(
    levels: Levels,
    effects: Sequence[tuple[int, ...]],
    values: Floats,
    complete: tuple[int, ...],
    lost: tuple[int, ...],
    *,
    size: float,
    alpha: float,
) -> Analysis:
    """What the cells there are tell where fewer than two seeds are complete, seeds as blocks.

    In a table of one seed what the effects leave unexplained is the error, if anything is left.
    """
    runs, seeds = np.nonzero(~np.isnan(values))
    _, seeds = np.unique(seeds, return_inverse=True)
    y = values[~np.isnan(values)]
    x = apart(_columns(levels, effects)[runs], seeds)
    found = fit(x, apart(y[:, None], seeds)[:, 0])
    one_seed = values.shape[1] == 1
    lacking = y.size - 1 - found.rank if one_seed else 0
    sd = math.sqrt(found.left / lacking) if lacking else 0.0
    sd = sd if sd > ROUNDING * max(size, float(np.abs(y).max())) else 0.0

    def held(i: int) -> Estimate:
        scale = 2.0 ** len(effects[i])
        estimate = scale * float(found.coefficients[i])
        if not lacking:
            return Estimate(effect=effects[i], n=len(complete), estimate=estimate)
        if not sd:
            return _without_spread(effects[i], estimate, alpha)
        error = scale * sd * math.sqrt(float(found.shares[i]))
        low, high = student_interval(estimate, error, lacking, alpha / 2)
        tost_low, tost_high = student_interval(estimate, error, lacking, alpha)
        return Estimate(
            effect=effects[i],
            n=1,
            estimate=estimate,
            error=error,
            df=float(lacking),
            low=low,
            high=high,
            tost_low=tost_low,
            tost_high=tost_high,
            p=student_p(estimate, error, lacking),
            method="pooled",
        )

    n = len(complete)
    untold = {i: _untold(effects, i, found, x, n) for i in range(len(effects)) if found.told[i, i] < 1 - TOLD}
    estimates = tuple(untold[i] if i in untold else held(i) for i in range(len(effects)))
    lines: list[AnovaLine] = []
    if one_seed:
        for i, effect in enumerate(effects):
            if i not in untold:
                squares = float(found.coefficients[i] ** 2 / found.shares[i])
                f = squares / sd**2 if sd else None
                p = float(fdtrc(1, lacking, f)) if f is not None else None
                lines.append(AnovaLine(term="effect", effect=effect, sum_of_squares=squares, df=1, f=f, p=p))
        if lacking:
            lines.append(AnovaLine(term="lack of fit", effect=None, sum_of_squares=found.left, df=lacking))
    return Analysis(
        estimates=estimates,
        lines=tuple(lines),
        cells=y.size,
        runs=int(np.unique(runs).size),
        seeds=int(np.unique(seeds).size),
        error_of="lack of fit" if lacking else "none",
        complete=complete,
        lost=lost,
    )


def _without_spread(effect: tuple[int, ...], estimate: float, alpha: float) -> Estimate:
    """Of a single seed that the effects explain to the last digit: one sign."""
    low, high = bounds_without_spread(estimate, 1, alpha)
    tost_low, tost_high = bounds_without_spread(estimate, 1, 2 * alpha)
    return Estimate(
        effect=effect,
        n=1,
        estimate=estimate,
        error=0.0,
        low=low,
        high=high,
        tost_low=tost_low,
        tost_high=tost_high,
        p=1.0,
        method="sign",
    )


def _columns(levels: Levels, effects: Sequence[tuple[int, ...]]) -> Floats:
    """The products of levels [runs, effects]."""
    x = np.ones((levels.shape[0], len(effects)))
    for column, effect in enumerate(effects):
        x[:, column] = levels[:, list(effect)].prod(axis=1)
    return x


def _basis(x: Floats) -> Floats:
    """Orthonormal rows that span what is orthogonal to the columns of x."""
    vectors, sizes, _ = np.linalg.svd(x, full_matrices=True)
    rank = int((sizes > TOLD * max(float(sizes.max(initial=0.0)), 1.0)).sum())
    return vectors[:, rank:].T


def _varies(contrasts: Floats, size: float) -> bool:
    """Whether contrasts [contrasts, seeds] differ over seeds by more than rounding of values of this size."""
    left = contrasts - contrasts.mean(axis=1, keepdims=True)
    return bool(contrasts.size) and float(np.sqrt((left**2).mean())) > ROUNDING * size


def _lines(estimates: Sequence[Estimate], found: Fit, x: Floats, table: Floats, size: float) -> Iterator[AnovaLine]:
    runs, n = table.shape
    for estimate, beta, share in zip(estimates, found.coefficients, found.shares, strict=True):
        if estimate.estimate is not None:
            # F is t²: an effect is of one degree of freedom, and so is its error at each seed after the first.
            f = (estimate.estimate / estimate.error) ** 2 if estimate.error else None
            p = student_p(estimate.estimate, estimate.error, n - 1) if estimate.error else None
            squares = n * float(beta**2 / share)
            yield AnovaLine(term="effect", effect=estimate.effect, sum_of_squares=squares, df=1, f=f, p=p)
    blocks = table.mean(axis=0)
    yield AnovaLine(
        term="seed", effect=None, sum_of_squares=runs * float(((blocks - blocks.mean()) ** 2).sum()), df=n - 1
    )
    unfitted = _basis(np.column_stack([np.ones(runs), x])) @ table
    if unfitted.shape[0]:
        yield _lack_of_fit(unfitted, size)
    if runs > 1:
        left = table - table.mean(axis=1, keepdims=True) - blocks + table.mean()
        yield AnovaLine(term="error", effect=None, sum_of_squares=float((left**2).sum()), df=(runs - 1) * (n - 1))


def _lack_of_fit(contrasts: Floats, size: float) -> AnovaLine:
    """That of the contrasts [contrasts, seeds] which no effect fits, against how they vary over seeds."""
    df, n = contrasts.shape
    means = contrasts.mean(axis=1)
    squares = n * float((means**2).sum())
    f = p = None
    if _varies(contrasts, size):
        error = float(((contrasts - means[:, None]) ** 2).sum()) / (df * (n - 1))
        shape = sphericity(contrasts)
        epsilon = shape.epsilon if shape else 1.0
        f = squares / df / error
        p = float(fdtrc(epsilon * df, epsilon * df * (n - 1), f))
    return AnovaLine(term="lack of fit", effect=None, sum_of_squares=squares, df=df, f=f, p=p)


def _check(levels: Floats, effects: Sequence[tuple[int, ...]], values: Floats) -> None:
    if levels.ndim != 2 or values.ndim != 2 or levels.shape[0] != values.shape[0]:
        raise ValueError(f"a factorial needs levels and values of the same runs, got {levels.shape} and {values.shape}")
    if not (np.abs(levels) == 1).all():
        raise ValueError("levels are -1 and +1")
    if np.isinf(values).any():
        raise ValueError("a factorial needs finite values, and NaN where there is none")
    if len({frozenset(effect) for effect in effects}) < len(effects) or not all(effects):
        raise ValueError(f"effects are distinct and of one edit or more, got {list(effects)}")


def _untold(effects: Sequence[tuple[int, ...]], i: int, found: Fit, x: Floats, n: int) -> Estimate:
    """An effect that cannot be told, why, and from which others."""
    others = tuple(effect for j, effect in enumerate(effects) if j != i and abs(found.told[i, j]) > TOLD)
    varies = float(np.abs(x[:, i]).max()) > TOLD
    reason = "cannot be told from other effects in the runs with results" if varies else NO_CHANGE
    return Estimate(effect=effects[i], n=n, reason=reason, entangled=others)
