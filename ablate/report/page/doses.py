"""Plots of a metric over the levels of an ordered factor (dose and response)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ablate.output.words import percent, spoken
from ablate.plan.plan import Factors, VariedFactor
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.report.plot import INK, SERIES, Plot
from ablate.space.vary import as_numbers, level_texts
from ablate.statistics.paired import student_interval
from ablate.verdict.summary import Level, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EDITS = 2  # maximum number of edits by whose presence curves are told apart; over the others they are means


@dataclass(frozen=True, slots=True)
class DoseCurve:
    """A curve over the levels of a factor: its name, and at each level the mean and its interval (NaN without one)."""

    name: str
    points: tuple[tuple[float, float, float], ...]


def plots(record: PageRecord, factors: Factors, terms: str) -> Iterator[Plot]:
    ordered = [(place, factor) for place, factor in enumerate(factors.varied) if factor.scale != "nominal"]
    for metric in record.seen() if ordered else ():
        for place, factor in ordered:
            curves = _curves(record, factors, place, metric)
            name = panels.slug("-".join(word for word in ("levels", factor.address, metric.name, terms) if word))
            yield Plot(
                name=name,
                id=name,
                draw=(partial(_panel, factor=factor, curves=curves, metric=metric),),
                about=f"Means of {spoken(metric.name)} by {factor.address}. The table Runs has the numbers.",
                caption=_caption(record, factors, metric),
                headline=f"{spoken(metric.name).capitalize()} by {factor.address}",
                height=2.8,
                columns=("factor", "level", "curve", "metric", "mean", "low", "high"),
                rows=tuple(
                    (factor.address, text, curve.name, metric.name, *map(panels.finite, point))
                    for curve in curves
                    for text, point in zip(level_texts(factor.values), curve.points, strict=True)
                ),
            )


def _caption(record: PageRecord, factors: Factors, metric: Metric) -> str:
    text = (
        f"Means of {spoken(metric.name)} over seeds, each with its {percent(record.summary.confidence)} interval, "
        "which also has what all runs of a seed share: effects are surer than these intervals look."
    )
    if len(factors.edits) > EDITS or (len(factors.varied) > 1 and factors.edits) or len(factors.varied) > 2:
        text += (
            " A point is the mean of all runs with its level and the edits named; its interval is then the mean of "
            "theirs, which is at least as wide as its own."
        )
    return text


def _curves(record: PageRecord, factors: Factors, place: int, metric: Metric) -> list[DoseCurve]:
    """Return a curve for each combination of the first edits; without edits, for each level of another factor."""
    edits, curves = len(factors.edits), []
    for fixed, name in _groups(factors, place):
        points = [
            _point(record, factors, {**fixed, edits + place: level}, metric)
            for level in range(len(factors.varied[place].values))
        ]
        if any(math.isfinite(mean) for mean, *_ in points):
            curves.append(DoseCurve(name, tuple(points)))
    return curves


def _groups(factors: Factors, place: int) -> list[tuple[Mapping[int, int], str]]:
    """Return the levels that each curve has, by the position of the edit or factor in a run, and its name."""
    edits, others = len(factors.edits), [i for i in range(len(factors.varied)) if i != place]
    if not edits and others and len(factors.varied[others[0]].values) <= SERIES:
        other = factors.varied[others[0]]
        return [({others[0]: i}, f"{other.address}={text}") for i, text in enumerate(level_texts(other.values))]
    first = factors.edits[:EDITS]
    groups: list[tuple[Mapping[int, int], str]] = []
    for signs in product((-1, 1), repeat=len(first)):
        present = [edit for edit, sign in zip(first, signs, strict=True) if sign > 0]
        without = "without edits" if len(first) == edits else f"without {' and '.join(first)}"
        name = " and ".join(present) if present else without if first else "all runs"
        groups.append((dict(enumerate(signs)), name))
    return groups


def _point(record: PageRecord, factors: Factors, at: Mapping[int, int], metric: Metric) -> tuple[float, float, float]:
    """Return the mean over the runs with these levels and the ends of its interval."""
    levels = panels.levels_at(record, factors, metric, at)
    if not levels:
        return math.nan, math.nan, math.nan
    means = np.array([level.mean for level in levels])
    mean = float(np.mean(np.log(means) if metric.log else means))
    low, high = _interval(mean, levels, record.summary.confidence)
    if metric.log:
        return math.exp(mean), math.exp(low), math.exp(high)
    return mean, low, high


def _interval(mean: float, levels: Sequence[Level], confidence: float) -> tuple[float, float]:
    halves = []
    for level in levels:
        if level.sd is None or level.n < 2:
            return math.nan, math.nan
        _, high = student_interval(0.0, level.sd / math.sqrt(level.n), level.n - 1, (1 - confidence) / 2)
        halves.append(high)
    half = float(np.mean(halves))
    return mean - half, mean + half


def _panel(axes: Axes, factor: VariedFactor, curves: Sequence[DoseCurve], metric: Metric) -> None:
    from matplotlib.ticker import NullLocator

    x = as_numbers(factor.values) or []
    axes.set_xscale("log" if factor.scale == "log" else "linear")
    for place, curve in enumerate(curves):
        mean, low, high = (np.array(each) for each in zip(*curve.points, strict=True))
        axes.errorbar(
            x, mean, yerr=np.nan_to_num(np.stack([mean - low, high - mean])), marker="osD^vP"[place % 6], ms=4.5,
            color=INK[f"line{place % SERIES}"], ls=panels.STYLES[place % len(panels.STYLES)], lw=1.4, elinewidth=0.9,
            capsize=2, label=panels.short(curve.name),
        )  # fmt: skip
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(x, level_texts(factor.values), fontsize=8)
    axes.set_xlabel(panels.short(factor.address) + (" (log scale)" if factor.scale == "log" else ""), fontsize=8)
    panels.plain_ticks(axes, "y", log=metric.log)
    axes.margins(x=0.08, y=0.15)
    axes.set_ylabel(spoken(metric.name))
