"""The effects of a factorial's edits on one metric: all its runs at once, seeds as blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ablate import statistics
from ablate.output.words import chance, listed
from ablate.plan.designs.design_matrix import (
    MOST_COLUMNS,
    coded,
    columns_of,
    estimable,
    fitted_terms,
    in_estimates,
    is_whole,
)
from ablate.plan.plan import Alias, Factors
from ablate.statistics import Analysis, AnovaLine, Estimate, Sphericity
from ablate.statistics.spread import logarithms, magnitude
from ablate.verdict.contrasts import CROSS, alias_rows
from ablate.verdict.experiment import Seed, Side, runs_by_seeds
from ablate.verdict.hypothesis_test import Ruling, Tested, by_ranks, missing, worse
from ablate.verdict.summary import Metric, Summary

MOST_NAMED = 6  # the most runs without a result that are listed by name; further ones are only counted

Levels = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Analysed:
    """A test of each effect, by its edits, the lines of the analysis of variance, and its test of sphericity."""

    tested: Mapping[tuple[str, ...], Tested]
    lines: tuple[AnovaLine, ...]
    sphericity: Sphericity | None


def analyse(
    factors: Factors,
    names: Mapping[str, str],
    of: Mapping[str, Side],
    seeds: Sequence[Seed],
    metric: Metric,
    ruling: Ruling,
) -> Analysed:
    """Estimate every effect of `factors` from the variants `of` at these seeds; `names` are the variants'.

    Effects are judged at the seeds at which every run has a value; where runs were lost, by ranks, which also count the
    seeds that lack only the lost runs. Where a run has no value at any seed, effects are estimated from the other runs,
    shown with the aliases that this adds, and not judged. A variant that appears in several runs counts as one run, the
    first: it was trained once, and repeated numbers would pass for independent ones.
    """
    runs = dict(reversed(factors.runs))
    runs = {variant: runs[variant] for variant, _ in factors.runs}
    named = [(names[variant], of[variant]) for variant in runs]
    cell_values, fates, lacking = runs_by_seeds(named, seeds, metric.name, log=metric.log)
    values = np.array(cell_values, dtype=np.float64).reshape(len(runs), len(seeds))
    if metric.log:
        values = logarithms(values, magnitude(values))
    lost = np.array(fates, dtype=np.float64).reshape(values.shape)
    diverged = np.where(lost == 0, 0.0, (worse(metric) or math.nan) * lost)
    counted = np.logical_and.reduce(~np.isnan(values) | (diverged != 0), axis=0)
    levels = coded(factors, list(runs.values()))
    effects = fitted_terms(factors, levels[np.logical_or.reduce(~np.isnan(values), axis=1)])
    analysis = statistics.analyse(
        levels,
        effects,
        values,
        size=float(metric.log),
        confidence=ruling.confidence,
        level=ruling.level_of_one,
        only_student=ruling.look,
        gone=diverged,
        lines=_lines_of(effects, factors) if factors.varied else None,
    )
    gone = [named[row][0] for row in analysis.lost]
    ranked = [] if gone else [seed for seed, counts in zip(seeds, counted, strict=True) if counts]
    notes = [*_not_judged(analysis, seeds, gone, lacking), *_left_out(analysis, seeds, gone, lacking, ranked)]
    notes += _lack_of_fit(analysis, factors, ruling)
    mixed = _mixed(factors, effects, np.delete(levels, analysis.lost, axis=0)) if gone and analysis.runs else {}
    tested = {
        edits: _tested(estimate, factors, metric, ruling, analysis, notes, mixed.get(CROSS.join(edits), ""))
        for edits, estimate in zip(factors.effects, analysis.estimates, strict=False)  # the rest is not judged
    }
    lines = tuple(
        line if line.effect is None else replace(line, term=_line_named(line.effect, factors))
        for line in analysis.lines
    )
    return Analysed(tested, lines, analysis.sphericity)


def averaged(summary: Summary) -> bool:
    """True if an edit's effect is the plain mean difference over the other edits: every run has a result, or none has
    yet, and the levels are balanced.
    """
    for _, factors in summary.factors:
        runs = dict(reversed(factors.runs))
        lost = [not summary.arm(variant).finished for variant in runs]
        if factors.varied:
            if not is_whole(factors) or (any(lost) and not all(lost)):
                return False
            continue
        places = [[factors.edits.index(edit) for edit in edits] for edits in factors.effects]
        x = np.array([[1, *(math.prod(levels[place] for place in of) for of in places)] for levels in runs.values()])
        products = x.T @ x
        if np.count_nonzero(products - np.diag(np.diag(products))) or (any(lost) and not all(lost)):
            return False
    return True


def _named(effect: Sequence[int], factors: Factors) -> str:
    columns = columns_of(factors)
    return CROSS.join(columns[place].name for place in effect)


def _factors_of(effect: Sequence[int], factors: Factors) -> tuple[int, ...]:
    columns = columns_of(factors)
    return tuple(columns[place].factor for place in effect)


def _line_named(effect: Sequence[int], factors: Factors) -> str:
    names = (*factors.edits, *(factor.address for factor in factors.varied))
    return CROSS.join(names[place] for place in _factors_of(effect, factors))


def _lines_of(effects: Sequence[tuple[int, ...]], factors: Factors) -> list[list[int]]:
    """The positions of the effects of each line of the analysis of variance: of one set of factors."""
    together: dict[tuple[int, ...], list[int]] = {}
    for position, effect in enumerate(effects):
        together.setdefault(_factors_of(effect, factors), []).append(position)
    return list(together.values())


def _tested(
    estimate: Estimate,
    factors: Factors,
    metric: Metric,
    ruling: Ruling,
    analysis: Analysis,
    common: Sequence[str],
    mixed: str,
) -> Tested:
    notes = list(common)
    if estimate.estimate is None:
        others = ", ".join(_named(effect, factors) for effect in estimate.entangled)
        notes += [estimate.reason + (f": {others}" if others else "")] if analysis.runs else []
        return Tested(n=estimate.n, method=estimate.method, notes=tuple(notes))
    if mixed:
        notes.append(f"among the runs with results, the estimate also contains {mixed}")
    if estimate.ranks is not None:
        ranked = by_ranks(_of_values(estimate, metric, ruling, analysis), estimate.ranks, metric, ruling)
        return replace(ranked, notes=(*notes, *ranked.notes))
    if estimate.error == 0 and not analysis.lost and analysis.error_of != "none":
        notes.append("the same at every seed: no spread, so the sign test decides")
    return replace(_of_values(estimate, metric, ruling, analysis), notes=tuple(notes))


def _of_values(estimate: Estimate, metric: Metric, ruling: Ruling, analysis: Analysis) -> Tested:
    """The test by the values of runs: those of the survivors, where some were lost."""
    if analysis.error_of == "none":
        return Tested(n=estimate.n, estimate=estimate.estimate, method=estimate.method)
    judged = not analysis.lost
    over_seeds = judged and analysis.error_of == "seeds" and estimate.error is not None
    margin = metric.margin if judged else None
    return Tested(
        n=estimate.n,
        estimate=estimate.estimate,
        low=estimate.low,
        high=estimate.high,
        tost_low=estimate.tost_low,
        tost_high=estimate.tost_high,
        sd=estimate.error * math.sqrt(estimate.n) if over_seeds and estimate.error is not None else None,
        df=estimate.df,
        p=estimate.p if judged else None,
        p_equivalent=None if margin is None else estimate.p_equivalent(margin),
        method="repeated" if ruling.look and estimate.method == "student" else estimate.method,
        error=estimate.error,
        differences=estimate.over_seeds,
    )


Lacking = Mapping[str, Mapping[str, Sequence[Seed]]]  # the seeds at which each run has no value, by reason


def _not_judged(analysis: Analysis, seeds: Sequence[Seed], gone: Sequence[str], lacking: Lacking) -> list[str]:
    notes = []
    if not analysis.runs:
        return [f"no run has a result ({', '.join(lacking)})"]
    if gone:
        why = ", ".join(reason for reason, runs in lacking.items() if any(name in runs for name in gone))
        notes.append(f"no verdict: {_some(gone)} {'has' if len(gone) == 1 else 'have'} no result ({why})")
    if analysis.error_of == "lack of fit":
        notes.append(
            "one seed: the error is what the requested effects leave unexplained, including other interactions"
        )
    elif analysis.error_of == "none" and len(seeds) == 1:
        notes.append(
            "no interval: with one seed and as many effects as runs, nothing is left to estimate an error from"
        )
    elif analysis.error_of == "none":
        every = "every run that has any" if gone else "every run"
        at = f"only one seed, {seeds[analysis.complete[0]]}, has" if analysis.complete else "no seed has"
        ranked = any(estimate.ranks is not None for estimate in analysis.estimates)
        what = "no interval" if ranked else "no interval and no verdict"
        notes.append(f"{what}: {at} a result of {every}; estimating an error takes two")
    return notes


def _left_out(
    analysis: Analysis, seeds: Sequence[Seed], gone: Sequence[str], lacking: Lacking, ranked: Sequence[Seed]
) -> list[str]:
    reasons: dict[Seed, str] = {}
    for position, seed in enumerate(seeds):
        if position in analysis.complete:
            continue
        lacks = []
        for why, runs in lacking.items():
            names = [name for name, at in runs.items() if seed in at and name not in gone]
            lacks += [f"{why} for {_some(names)}"] if names else []
        reasons[seed] = ", ".join(lacks)
    if not analysis.runs:
        return []
    only_ranked = {seed: why for seed, why in reasons.items() if seed in ranked}
    others = {seed: why for seed, why in reasons.items() if seed not in ranked}
    return [
        *missing(only_ranked, "not in the difference"),
        *missing(others, "left out" if analysis.error_of == "seeds" else "incomplete"),
    ]


def _lack_of_fit(analysis: Analysis, factors: Factors, ruling: Ruling) -> list[str]:
    alpha = 1 - ruling.confidence
    significant = [
        line.p for line in analysis.lines if line.term == "lack of fit" and line.p is not None and line.p < alpha
    ]
    if analysis.lost or not significant:
        return []
    places = {column.name: column.factor for column in columns_of(factors)}
    pairs = len({tuple(places[name] for name in effect) for effect in factors.effects if len(effect) == 2})
    of = "edits or factors" if factors.varied else "edits"
    what = f"{of} interact"
    if pairs == math.comb(len(factors.edits) + len(factors.varied), 2):
        what = f"three or more {of} interact"
    elif pairs:
        what = f"other pairs, or three or more {of}, interact"
    left, p = "what these effects leave unexplained is more than noise", chance(significant[0])
    return [f"{left} (lack of fit, p {p if p.startswith('<') else f'= {p}'}): {what}"]


def _mixed(factors: Factors, effects: Sequence[tuple[int, ...]], levels: Levels) -> dict[str, str]:
    """Other effects of one to three edits that enter the estimate of each effect, by its name, from these runs."""
    kept, columns = estimable(levels, effects), columns_of(factors)
    most = 3 if len(columns) <= MOST_COLUMNS or not factors.varied else 2
    aliases = tuple(
        Alias(
            term=tuple(columns[place].name for place in term),
            other=tuple(columns[place].name for place in other),
            times=times,
        )
        for term, other, times in in_estimates(levels, kept, most=most, factors=[column.factor for column in columns])
        if other not in effects
    )
    return dict(alias_rows(replace(factors, aliases=aliases)))


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return listed([*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])
