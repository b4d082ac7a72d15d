"""Factorials: the effects of edits that were combined, from the values of runs over seeds.

    y[run, seed] = block(seed) + Σ over effects β_e(seed)·x_e(run) + error    x_e: product of its edits' levels -1, +1

The effect of an edit is 2β: the mean difference that it makes over the other edits' levels. For a pair it is 4β: how
much the effect of one edit changes when the other is present; for j edits 2^j·β. β is by least squares. An effect that
exists but is not fitted biases the estimates as the alias table says.

An edit's effect varies over seeds, and one edit's more than another's, so there is no error common to all effects. Each
is tested against its own: least squares at each seed gives the effects at that seed, and their mean is judged like the
differences of pairs, with S-1 degrees of freedom for S seeds (`paired.of_differences`). For the seven effects of three
edits, or the fifteen of five in sixteen runs, where an edit's effect varies over seeds with an sd of 0, 1 and 3 times a
run's noise: tables with a false positive by Bonferroni, and how often an interval of 95 % covers a main effect:

                                             sd 0             1              3
    2^3, 5 seeds      its own error      4.9 %  95 %    4.9 %  95 %    5.0 %  95 %
                      one for all        4.7    95      9.0    88       19    81
    2^(5-1), 5 seeds  its own error      4.8    95      5.1    95      4.8    95
                      one for all        4.7    95       20    82       33    75

(20,000 tables each; with eight seeds the same within 1.4 points.) Where it is valid, one error for all would gain
power: an effect of one sd of a run is found at 5 %/7 in 22 % of tables of 2^3 with five seeds and 60 % with eight; with
one error for all it would be 60 and 87 %.

Effects use complete seeds only, those at which every run that has any value has one: least squares over an incomplete
table would weight a run's only value by the variance of the others. With fewer than two complete seeds of several,
estimates are over the available cells, and are not tested. In a table of one seed the only error available is what the
effects leave unexplained (lack of fit).

Where runs are `lost`, complete seeds are those of survivors, and p is by ranks (`worst_rank`) over all seeds that have
each run, lost or not. For the effect of one edit, a seed with lost runs counts as upwards by the number of lost runs
with the edit minus those without, which requires equal weights for both. Otherwise, and for interactions, the seed is
open: if two edits each lost every run, their interaction would look like a gain, since nothing is worse than lost.

The analysis of variance: sums of squares are partial, of each term given all others (Yates 1934; type III). The error
of an effect is its variation over seeds, so that its F is t². What the fitted effects leave of the runs' means is lack
of fit, tested against its own variation over seeds, with degrees of freedom times ε (see `sphericity`).

A factor with k levels has k-1 columns of codes, each scaled so that its effect is 2β (`plan.designs.design_matrix`) and
each judged against its own error; in the analysis of variance they are one line with k-1 degrees of freedom, tested as
lack of fit is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from ablate.statistics.contrasts import Fit, Sphericity, least_squares, less_block_means, sphericity
from ablate.statistics.paired import Method as PairedMethod
from ablate.statistics.paired import bounds_without_spread, of_differences, one_sided_p, student_interval, student_p
from ablate.statistics.ranks import Ranked, worst_rank
from ablate.statistics.spread import ROUNDING, divided, magnitude, times

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Levels: TypeAlias = NDArray[np.int64] | Floats

TOLD = 1e-6  # rounding tolerance of estimability, which is 1 for an estimable effect

NO_CHANGE = "it does not vary among the runs with results"

ErrorOf: TypeAlias = Literal["seeds", "lack of fit", "none"]
"""The source of standard errors: the variation of each effect over seeds, or the lack of fit at one seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One effect, as the indices of its edits. `error` is the standard error, with `df` degrees of freedom.

    One that is not estimable from the runs with results has no `estimate`, `reason` says why, and `entangled` are the
    effects that it is confounded with. Without an error to test against, only `estimate` is known. `method` is that of
    its values over `n` seeds, as for pairs; `pooled` where one seed's lack of fit is the error. `ranks`, over all
    seeds, exist where runs were lost. `over_seeds` is the effect at each seed, where the error is from their variation.
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
        """The larger p of the two one-sided tests against ±margin; None where there is no error to test with."""
        if self.estimate is None or self.error is None:
            return None
        return one_sided_p(self.estimate, margin, self.error, self.df, self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnovaLine:
    """A line of the analysis of variance: `term` is `effect`, `seed`, `lack of fit` or `error`.

    `effect` has the indices of its edits, None for the other terms. F is against the term's variation over seeds, None
    for what is not tested: the seeds, the error itself, and what does not vary. `sum_of_squares` is infinite, or 0,
    where the squares of the values are beyond the numbers of float64; F and p are right even so.
    """

    term: str
    effect: tuple[int, ...] | None
    sum_of_squares: float
    df: int
    f: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The estimates, in the order requested, and the analysis of variance of the estimable effects.

    `cells`, `runs` and `seeds` are the numbers of these that the estimates use, `complete` the positions of the seeds
    at which every run that has any value has one, `lost` those of the runs that have none. `lines` are over complete
    seeds, and empty where there are too few of these. `sphericity` is of all contrasts of the runs.
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
    lines: Sequence[Sequence[int]] | None = None,
) -> Analysis:
    """Estimate the effects of a factorial with `levels` [runs, edits] from `values` [runs, seeds], NaN where missing.

    With `lines`, columns are codes of any factors, and each line of the analysis of variance is of the effects at these
    positions; it has the first of them. `gone` [runs, seeds] is 1 where a run was lost and counts as above all values,
    -1 where below, NaN where the side is not known, 0 elsewhere. `size` is the magnitude of the original values, which
    sets the rounding error (1 for logarithms); `level` and `only_student` are as for pairs. ValueError where the shapes
    do not fit, levels of edits are other than -1 and +1, an effect is requested twice, or a value is infinite.
    """
    levels, values = np.asarray(levels, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(levels, effects, values, coded=lines is not None)
    together = [[place] for place in range(len(effects))] if lines is None else [list(line) for line in lines]
    k = magnitude(values)
    values, size = divided(values, k), times(size, -k)
    analysis = _over_values(
        levels, effects, values, together, size=size, confidence=confidence, level=level, only_student=only_student
    )
    analysis = _multiplied(analysis, k)
    if gone is None or analysis.lost or not gone.any():
        return analysis
    ranked = _ranked(levels, effects, values, np.asarray(gone, dtype=np.float64), size=size)
    estimates = (replace(estimate, ranks=ranks) for estimate, ranks in zip(analysis.estimates, ranked, strict=True))
    return replace(analysis, estimates=tuple(estimates))


def _multiplied(analysis: Analysis, k: int) -> Analysis:
    def of(number: float | None) -> float | None:
        return None if number is None else times(number, k)

    return replace(
        analysis,
        estimates=tuple(
            replace(
                estimate,
                estimate=of(estimate.estimate),
                error=of(estimate.error),
                low=of(estimate.low),
                high=of(estimate.high),
                tost_low=of(estimate.tost_low),
                tost_high=of(estimate.tost_high),
                over_seeds=tuple(times(effect, k) for effect in estimate.over_seeds),
            )
            for estimate in analysis.estimates
        ),
        lines=tuple(replace(line, sum_of_squares=times(line.sum_of_squares, 2 * k)) for line in analysis.lines),
    )


def _over_values(
    levels: Floats,
    effects: Sequence[tuple[int, ...]],
    values: Floats,
    together: Sequence[Sequence[int]],
    *,
    size: float,
    confidence: float,
    level: float | None,
    only_student: bool,
) -> Analysis:
    there = ~np.isnan(values)
    kept: Mask = np.logical_or.reduce(there, axis=1)
    lost = tuple(np.flatnonzero(~kept).tolist())
    if not kept.any():
        none = tuple(Estimate(effect=effect, n=0, reason="no run has a result") for effect in effects)
        return Analysis(estimates=none, lines=(), cells=0, runs=0, seeds=0, error_of="none", lost=lost)
    complete: Mask = np.logical_and.reduce(there[kept], axis=0)
    n, at = int(complete.sum()), tuple(np.flatnonzero(complete).tolist())
    if n < 2:
        return _of_cells(levels, effects, values, together, at, lost, size=size, alpha=1 - confidence)
    table = values[np.ix_(kept, complete)]
    size = max(size, float(np.abs(table).max()))
    x = _columns(levels[kept], effects)
    x = x - x.mean(axis=0)
    means = table.mean(axis=1)
    fitted = least_squares(x, means - means.mean())
    over_seeds = np.array([2.0 ** len(effect) for effect in effects])[:, None] * (fitted.weights @ table)

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

    untold = {i: _untold(effects, i, fitted, x, n) for i in range(len(effects)) if fitted.told[i, i] < 1 - TOLD}
    estimates = tuple(untold[i] if i in untold else judged(i) for i in range(len(effects)))
    contrasts = _basis(np.ones((table.shape[0], 1))) @ table
    return Analysis(
        estimates=estimates,
        lines=tuple(_lines(estimates, fitted, x, table, together, size)),
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
    """The ranks of each effect; None where it is not estimable, and where no seed that counts lost a run."""
    counted: Mask = np.logical_and.reduce(~np.isnan(values) | (gone != 0), axis=0)
    some: Mask = counted & np.logical_or.reduce(gone != 0, axis=0)
    if not some.any():
        return [None] * len(effects)
    complete = counted & ~some
    x = _columns(levels, effects)
    x = x - x.mean(axis=0)
    fitted = least_squares(x, np.zeros(x.shape[0]))
    table, without = values[:, complete], gone[:, some]
    size = max(size, float(np.abs(table).max(initial=0.0)))
    ranks: list[Ranked | None] = []
    for i, effect in enumerate(effects):
        weights = fitted.weights[i]
        if fitted.told[i, i] < 1 - TOLD:
            ranks.append(None)
            continue
        alike = len(effect) == 1 and float(np.ptp(np.abs(weights))) < TOLD * float(np.abs(weights).max())
        more = np.rint(np.sign(weights) @ without) if alike else np.full(without.shape[1], np.nan)
        sided = more[~np.isnan(more)].astype(int).tolist()
        differences = 2.0 ** len(effect) * (weights @ table)
        ranks.append(worst_rank(differences, sided, len(more) - len(sided), size=size))
    return ranks


def _of_cells(
    levels: Levels,
    effects: Sequence[tuple[int, ...]],
    values: Floats,
    together: Sequence[Sequence[int]],
    complete: tuple[int, ...],
    lost: tuple[int, ...],
    *,
    size: float,
    alpha: float,
) -> Analysis:
    """Estimate effects from the available cells, with seeds as blocks, where fewer than two seeds are complete.

    In a table of one seed, the rest that the effects do not explain is the error, if any degrees of freedom are left.
    """
    runs, seeds = np.nonzero(~np.isnan(values))
    _, seeds = np.unique(seeds, return_inverse=True)
    y = values[~np.isnan(values)]
    x = less_block_means(_columns(levels, effects)[runs], seeds)
    fitted = least_squares(x, less_block_means(y[:, None], seeds)[:, 0])
    one_seed = values.shape[1] == 1
    lacking = y.size - 1 - fitted.rank if one_seed else 0
    sd = math.sqrt(fitted.left / lacking) if lacking else 0.0
    sd = sd if sd > ROUNDING * max(size, float(np.abs(y).max())) else 0.0

    def held(i: int) -> Estimate:
        scale = 2.0 ** len(effects[i])
        estimate = scale * float(fitted.coefficients[i])
        if not lacking:
            return Estimate(effect=effects[i], n=len(complete), estimate=estimate)
        if not sd:
            return _without_spread(effects[i], estimate, alpha)
        error = scale * sd * math.sqrt(float(fitted.shares[i]))
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
    untold = {i: _untold(effects, i, fitted, x, n) for i in range(len(effects)) if fitted.told[i, i] < 1 - TOLD}
    estimates = tuple(untold[i] if i in untold else held(i) for i in range(len(effects)))
    lines: list[AnovaLine] = []
    if one_seed:
        for group in together:
            first = group[0]
            if len(group) == 1:
                told = first not in untold
                squares, df = float(fitted.coefficients[first] ** 2 / fitted.shares[first]) if told else 0.0, int(told)
            else:
                own = _own(x, group)
                squares, df = float(((own @ less_block_means(y[:, None], seeds)[:, 0]) ** 2).sum()), own.shape[0]
            if df:
                f = squares / df / sd**2 if sd else None
                p = float(fdtrc(df, lacking, f)) if f is not None else None
                lines.append(AnovaLine(term="effect", effect=effects[first], sum_of_squares=squares, df=df, f=f, p=p))
        if lacking:
            lines.append(AnovaLine(term="lack of fit", effect=None, sum_of_squares=fitted.left, df=lacking))
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
    """The estimate of a single seed that the effects fit exactly: one sign."""
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
    """Products of levels [runs, effects]."""
    x = np.ones((levels.shape[0], len(effects)))
    for column, effect in enumerate(effects):
        x[:, column] = levels[:, list(effect)].prod(axis=1)
    return x


def _basis(x: Floats) -> Floats:
    """Orthonormal rows that span the orthogonal complement of the columns of x."""
    vectors, sizes, _ = np.linalg.svd(x, full_matrices=True)
    rank = int((sizes > TOLD * max(float(sizes.max(initial=0.0)), 1.0)).sum())
    return vectors[:, rank:].T


def _own(x: Floats, group: Sequence[int]) -> Floats:
    """Orthonormal rows that span the part of a group's columns beside the mean and all other columns."""
    others = np.column_stack([np.ones(len(x)), np.delete(x, list(group), axis=1)])
    mine = x[:, list(group)]
    left = mine - others @ np.linalg.lstsq(others, mine)[0]
    vectors, sizes, _ = np.linalg.svd(left, full_matrices=False)
    return vectors[:, sizes > TOLD * max(float(np.abs(mine).max(initial=0.0)), 1.0)].T


def _varies(contrasts: Floats, size: float) -> bool:
    """True if contrasts [contrasts, seeds] differ over seeds by more than rounding of values of this size."""
    left = contrasts - contrasts.mean(axis=1, keepdims=True)
    return bool(contrasts.size) and float(np.sqrt((left**2).mean())) > ROUNDING * size


def _lines(
    estimates: Sequence[Estimate],
    fitted: Fit,
    x: Floats,
    table: Floats,
    together: Sequence[Sequence[int]],
    size: float,
) -> Iterator[AnovaLine]:
    runs, n = table.shape
    for group in together:
        estimate, beta, share = estimates[group[0]], fitted.coefficients[group[0]], fitted.shares[group[0]]
        if len(group) > 1:
            own = _own(x, group) @ table
            if own.shape[0]:
                yield replace(_lack_of_fit(own, size), term="effect", effect=estimate.effect)
        elif estimate.estimate is not None:
            # F is t²: an effect has one degree of freedom, and its error one for each seed after the first.
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
    """Test the contrasts [contrasts, seeds] that no effect fits against their variation over seeds."""
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


def _check(levels: Floats, effects: Sequence[tuple[int, ...]], values: Floats, *, coded: bool) -> None:
    if levels.ndim != 2 or values.ndim != 2 or levels.shape[0] != values.shape[0]:
        raise ValueError(f"a factorial needs levels and values of the same runs, got {levels.shape} and {values.shape}")
    if not (np.isfinite(levels).all() if coded else (np.abs(levels) == 1).all()):
        raise ValueError("levels must be -1 or +1")
    if np.isinf(values).any():
        raise ValueError("a factorial needs finite values, and NaN where there is none")
    if len({frozenset(effect) for effect in effects}) < len(effects) or not all(effects):
        raise ValueError(f"effects must be distinct and of one edit or more, got {list(effects)}")


def _untold(effects: Sequence[tuple[int, ...]], i: int, fitted: Fit, x: Floats, n: int) -> Estimate:
    others = tuple(effect for j, effect in enumerate(effects) if j != i and abs(fitted.told[i, j]) > TOLD)
    varies = float(np.abs(x[:, i]).max()) > TOLD
    reason = "confounded with other effects in the runs with results" if varies else NO_CHANGE
    return Estimate(effect=effects[i], n=n, reason=reason, entangled=others)
