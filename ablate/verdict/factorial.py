"""The effects of a factorial's edits on one metric: all its runs at once, seeds as blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ablate import statistics
from ablate.output.numbers import chance
from ablate.output.words import listed
from ablate.plan.designs.terms import estimable, in_estimates
from ablate.plan.plan import Alias, Factors
from ablate.statistics import Analysis, AnovaLine, Estimate, Sphericity
from ablate.verdict.aliases import alias_rows
from ablate.verdict.contrasts import CROSS
from ablate.verdict.hypothesis_test import Ruling, Tested, by_ranks, missing, worse
from ablate.verdict.pairing import Side, cells
from ablate.verdict.seeds import Seed
from ablate.verdict.summary import Metric, Summary

MOST_NAMED = 6
"""Runs without some result that are named; more are counted."""

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
    """Every effect that `factors` names, from the variants `of` at these seeds; `names` are the variants'.

    Effects are judged at the seeds at which every run has a value, and where runs were lost by ranks, also at those
    that lack nothing else. Where a run has none at any seed they are shown as the others tell them, with what is then
    mixed in, and not judged. A variant that stands in several runs is one run, the first: it was trained once, and
    repeats of the same numbers would pass for independent ones.
    """
    runs = dict(reversed(factors.runs))
    runs = {variant: runs[variant] for variant, _ in factors.runs}
    named = [(names[variant], of[variant]) for variant in runs]
    found, fates, lacking = cells(named, seeds, metric.name, log=metric.log)
    values = np.array(found, dtype=np.float64).reshape(len(runs), len(seeds))
    if metric.log:
        values = np.log(values)
    diverged = worse(metric) * np.array(fates, dtype=np.float64).reshape(values.shape)
    counted = np.logical_and.reduce(~np.isnan(values) | (diverged != 0), axis=0)
    places = {edit: place for place, edit in enumerate(factors.edits)}
    effects = [tuple(places[edit] for edit in edits) for edits in factors.effects]
    levels = np.array(list(runs.values()), dtype=np.float64)
    analysis = statistics.analyse(
        levels,
        effects,
        values,
        size=float(metric.log),
        confidence=ruling.confidence,
        level=ruling.level_of_one,
        only_student=ruling.look,
        gone=diverged,
    )
    gone = [named[row][0] for row in analysis.lost]
    ranked = [] if gone else [seed for seed, counts in zip(seeds, counted, strict=True) if counts]
    notes = [*_not_judged(analysis, seeds, gone, lacking), *_left_out(analysis, seeds, gone, lacking, ranked)]
    notes += _lack_of_fit(analysis, factors, ruling)
    mixed = _mixed(factors, effects, np.delete(levels, analysis.lost, axis=0)) if gone and analysis.runs else {}
    tested = {
        edits: _tested(estimate, factors, metric, ruling, analysis, notes, mixed.get(CROSS.join(edits), ""))
        for edits, estimate in zip(factors.effects, analysis.estimates, strict=True)
    }
    lines = tuple(
        line if line.effect is None else replace(line, term=_named(line.effect, factors)) for line in analysis.lines
    )
    return Analysed(tested, lines, analysis.sphericity)


def averaged(summary: Summary) -> bool:
    """Whether an edit's effect is the plain mean difference over the other edits: every run has some result, or none
    has yet, and levels are balanced over them.
    """
    for _, factors in summary.factors:
        runs = dict(reversed(factors.runs))
        places = [[factors.edits.index(edit) for edit in edits] for edits in factors.effects]
        x = np.array([[1, *(math.prod(levels[place] for place in of) for of in places)] for levels in runs.values()])
        products = x.T @ x
        lost = [not summary.arm(variant).finished for variant in runs]
        if np.count_nonzero(products - np.diag(np.diag(products))) or (any(lost) and not all(lost)):
            return False
    return True


def _named(effect: Sequence[int], factors: Factors) -> str:
    return CROSS.join(factors.edits[place] for place in effect)


def _tested(
    found: Estimate,
    factors: Factors,
    metric: Metric,
    ruling: Ruling,
    analysis: Analysis,
    common: Sequence[str],
    mixed: str,
) -> Tested:
    notes = list(common)
    if found.estimate is None:
        others = ", ".join(_named(effect, factors) for effect in found.entangled)
        notes += [found.reason + (f": {others}" if others else "")] if analysis.runs else []
        return Tested(n=found.n, method=found.method, notes=tuple(notes))
    if mixed:
        notes.append(f"in the runs with results the estimate has in it also {mixed}")
    if found.ranks is not None:
        ranked = by_ranks(_of_values(found, metric, ruling, analysis), found.ranks, ruling)
        return replace(ranked, notes=(*notes, *ranked.notes))
    if found.error == 0 and not analysis.lost and analysis.error_of != "none":
        notes.append("the same at every seed: no spread, so the sign test decides")
    return replace(_of_values(found, metric, ruling, analysis), notes=tuple(notes))


def _of_values(found: Estimate, metric: Metric, ruling: Ruling, analysis: Analysis) -> Tested:
    """What the values of runs tell: of survivors, where some were lost."""
    if analysis.error_of == "none":
        return Tested(n=found.n, estimate=found.estimate, method=found.method)
    judged = not analysis.lost
    over_seeds = judged and analysis.error_of == "seeds" and found.error is not None
    margin = metric.margin if judged else None
    return Tested(
        n=found.n,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        tost_low=found.tost_low,
        tost_high=found.tost_high,
        sd=found.error * math.sqrt(found.n) if over_seeds and found.error is not None else None,
        df=found.df,
        p=found.p if judged else None,
        p_equivalent=None if margin is None else found.p_equivalent(margin),
        method="repeated" if ruling.look and found.method == "student" else found.method,
        error=found.error,
        differences=found.over_seeds,
    )


Lacking = Mapping[str, Mapping[str, Sequence[Seed]]]
"""By reason at which seeds which runs have no value."""


def _not_judged(analysis: Analysis, seeds: Sequence[Seed], gone: Sequence[str], lacking: Lacking) -> list[str]:
    """Why there is no verdict, or no interval either, or what stands for the error."""
    notes = []
    if not analysis.runs:
        return [f"no run has a result ({', '.join(lacking)})"]
    if gone:
        why = ", ".join(reason for reason, runs in lacking.items() if any(name in runs for name in gone))
        notes.append(f"no verdict: {_some(gone)} {'has' if len(gone) == 1 else 'have'} no result ({why})")
    if analysis.error_of == "lack of fit":
        notes.append("one seed: the error is what the effects asked for leave unexplained, other interactions too")
    elif analysis.error_of == "none" and len(seeds) == 1:
        notes.append("no interval: as many effects as runs, and one seed, leave nothing to tell how far runs vary")
    elif analysis.error_of == "none":
        every = "every run that has one at all" if gone else "every run"
        at = f"one seed alone, {seeds[analysis.complete[0]]}, has" if analysis.complete else "no seed has"
        ranked = any(estimate.ranks is not None for estimate in analysis.estimates)
        what = "no interval" if ranked else "no interval and no verdict"
        notes.append(f"{what}: {at} a result of {every}, and two are the least that tell an error")
    return notes


def _left_out(
    analysis: Analysis, seeds: Sequence[Seed], gone: Sequence[str], lacking: Lacking, ranked: Sequence[Seed]
) -> list[str]:
    """The seeds that lack some of the runs that have results, by what they lack; the `ranked` only have ranks."""
    reasons: dict[Seed, str] = {}
    for position, seed in enumerate(seeds):
        if position in analysis.complete:
            continue
        told = []
        for why, runs in lacking.items():
            names = [name for name, at in runs.items() if seed in at and name not in gone]
            told += [f"{why} for {_some(names)}"] if names else []
        reasons[seed] = ", ".join(told)
    if not analysis.runs:
        return []
    only_ranked = {seed: why for seed, why in reasons.items() if seed in ranked}
    others = {seed: why for seed, why in reasons.items() if seed not in ranked}
    return [
        *missing(only_ranked, "not in the difference"),
        *missing(others, "left out" if analysis.error_of == "seeds" else "incomplete"),
    ]


def _lack_of_fit(analysis: Analysis, factors: Factors, ruling: Ruling) -> list[str]:
    """That effects not asked for are there, where every run has results and the analysis of variance finds it."""
    alpha = 1 - ruling.confidence
    found = [line.p for line in analysis.lines if line.term == "lack of fit" and line.p is not None and line.p < alpha]
    if analysis.lost or not found:
        return []
    pairs = sum(len(effect) == 2 for effect in factors.effects)
    what = "edits do together what each by itself does not say"
    if pairs == math.comb(len(factors.edits), 2):
        what = "three edits or more do together what pairs do not say"
    elif pairs:
        what = "other pairs, or three edits or more, do together what these do not say"
    left = "what these effects leave unexplained is more than noise"
    return [f"{left} (lack of fit, p {_equals(chance(found[0]))}): {what}"]


def _equals(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"


def _mixed(factors: Factors, effects: Sequence[tuple[int, ...]], levels: Levels) -> dict[str, str]:
    """Of each effect, by name, what else of one to three edits is in its estimate from these runs."""
    told = estimable(levels, effects)
    aliases = tuple(
        Alias(
            term=tuple(factors.edits[place] for place in term),
            other=tuple(factors.edits[place] for place in other),
            times=times,
        )
        for term, other, times in in_estimates(levels, told)
        if other not in effects
    )
    return dict(alias_rows(replace(factors, aliases=aliases)))


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return listed([*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])
