"""The effects of a factorial's edits on one metric: all its runs at once, seeds as blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate import statistics
from ablate.plan.plan import Factors
from ablate.report.asked import CROSS
from ablate.report.pairing import Side, cells
from ablate.report.summary import Metric
from ablate.report.tested import Ruling, Tested
from ablate.statistics import Estimate, Line
from ablate.statistics.factorial import ErrorOf

MOST_NAMED = 6
"""Runs without some result that are named; more are counted."""


@dataclass(frozen=True, slots=True)
class Analysed:
    """A test of each effect, by its edits, and the lines of the analysis of variance."""

    tested: Mapping[tuple[str, ...], Tested]
    lines: tuple[Line, ...]


def analyse(
    factors: Factors,
    names: Mapping[str, str],
    of: Mapping[str, Side],
    seeds: Sequence[int],
    metric: Metric,
    ruling: Ruling,
) -> Analysed:
    """Every effect that `factors` names, from the variants `of` at these seeds; `names` are the variants'.

    A variant that stands in several runs is one run, the first: it was trained once, and repeats of the same numbers
    would pass for independent ones.
    """
    runs = dict(reversed(factors.runs))
    runs = {variant: runs[variant] for variant, _ in factors.runs}
    named = [(names[variant], of[variant]) for variant in runs]
    found, lost = cells(named, seeds, metric.name, log=metric.log)
    values = np.array(found, dtype=np.float64).reshape(len(runs), len(seeds))
    if metric.log:
        values = np.log(values)
    places = {edit: place for place, edit in enumerate(factors.edits)}
    effects = [tuple(places[edit] for edit in edits) for edits in factors.effects]
    levels = np.array(list(runs.values()), dtype=np.float64)
    analysis = statistics.analyse(levels, effects, values, size=float(metric.log), confidence=ruling.confidence)
    notes = _left_out(lost, values.size)
    tested = {
        edits: _tested(estimate, factors, metric, ruling, analysis.error_of, notes)
        for edits, estimate in zip(factors.effects, analysis.estimates, strict=True)
    }
    lines = tuple(
        line if line.effect is None else replace(line, term=_named(line.effect, factors)) for line in analysis.lines
    )
    return Analysed(tested, lines)


def _named(effect: Sequence[int], factors: Factors) -> str:
    return CROSS.join(factors.edits[place] for place in effect)


def _tested(
    found: Estimate, factors: Factors, metric: Metric, ruling: Ruling, error_of: ErrorOf, notes: tuple[str, ...]
) -> Tested:
    if found.estimate is None:
        others = ", ".join(_named(effect, factors) for effect in found.entangled)
        return Tested(n=found.n, method=found.method, notes=(*notes, found.reason + (f": {others}" if others else "")))
    if error_of == "none":
        why = "no interval: as many effects as runs, and one seed, leave nothing to tell how far runs vary"
        return Tested(n=found.n, estimate=found.estimate, method=found.method, notes=(*notes, why))
    if error_of == "lack of fit":
        notes = (*notes, "one seed: the error is what the effects asked for leave unexplained, other interactions too")
    if found.error == 0:
        notes = (*notes, "the same at every seed: no spread, so the sign test decides")
    return Tested(
        n=found.n,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        tost_low=found.tost_low,
        tost_high=found.tost_high,
        sd=None if found.error is None else found.error * math.sqrt(found.n),
        df=found.df,
        p=found.p,
        p_equivalent=None if metric.margin is None else found.p_equivalent(metric.margin),
        method="repeated" if ruling.look and found.method == "pooled" else found.method,
        notes=notes,
    )


def _left_out(lost: Mapping[str, Mapping[str, Sequence[int]]], cells: int) -> tuple[str, ...]:
    """Which runs are missing at which seeds, by reason; what is left of the table is used as it is."""
    told = []
    for reason, runs in lost.items():
        named = [f"{name} at {_seeds(seeds)}" for name, seeds in list(runs.items())[:MOST_NAMED]]
        more = [f"{len(runs) - MOST_NAMED} more"] if len(runs) > MOST_NAMED else []
        missing = sum(len(seeds) for seeds in runs.values())
        told.append(f"{missing} of {cells} results left out ({reason}): {', '.join([*named, *more])}")
    return tuple(told)


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
