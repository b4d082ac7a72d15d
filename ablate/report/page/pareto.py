"""Two metrics against each other with the Pareto front; and interaction plots of two edits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from ablate.output.words import factor, spoken
from ablate.plan.plan import Factors
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.report.plot import INK, Plot
from ablate.verdict.summary import Arm, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG = 16  # length of a metric's name, in characters, beyond which its axis label has two lines
PAIRS = 4  # maximum number of pairs of edits drawn for each metric; tables have them all


def front_plots(record: PageRecord) -> Iterator[Plot]:
    """Yield the first metric with a better side against each other such one; nothing if fewer than two have values."""
    metrics = [metric for metric in record.seen() if metric.better != "none"]
    every = [arm for arm in record.summary.arms if record.plan.variant(arm.variant).setting.salt == 0]
    for place, other in enumerate(metrics[1:]):
        arms = [arm for arm in every if {metrics[0].name, other.name} <= arm.levels.keys()]
        if len(arms) < 2:
            continue
        left = len(every) - len(arms)
        caption = "Means over seeds ± one standard deviation. A name that would cover another is left out."
        if len(metrics) > 2:
            caption += " The Pareto front is over all metrics: a variant may be on it because of one that is not drawn."
        pair = (metrics[0], other)
        yield Plot(
            name=f"trade-off-{metrics[0].name}-{other.name}",
            id=f"plane-{place}",
            draw=(partial(_plane, record=record, x=metrics[0], y=other, arms=arms),),
            about=f"{spoken(metrics[0].name)} against {spoken(other.name)}. The table Variants has its numbers.",
            caption=caption + (f" Not shown: {left} without a finished seed." if left else ""),
            headline=f"{spoken(metrics[0].name).capitalize()} against {spoken(other.name)}",
            height=3.3,
            columns=(
                "variant",
                "baseline",
                "front",
                *(
                    f"{metric.name}_{name}"
                    for metric in pair
                    for name in ("mean", "log_sd" if metric.log else "sd", "n")
                ),
            ),
            rows=tuple(_numbers(arm, pair, record) for arm in arms),
        )


def _numbers(arm: Arm, metrics: Sequence[Metric], record: PageRecord) -> tuple[str | int | float | None, ...]:
    levels = [arm.levels[metric.name] for metric in metrics]
    marks = (str(arm.variant == record.plan.baseline).lower(), str(arm.variant in record.summary.front).lower())
    return arm.name, *marks, *(number for level in levels for number in (level.mean, level.sd, level.n))


def _plane(axes: Axes, record: PageRecord, x: Metric, y: Metric, arms: Sequence[Arm]) -> None:
    front = set(record.summary.front)
    seen: set[str] = set()
    for arm in arms:
        base, best = arm.variant == record.plan.baseline, arm.variant in front
        kind = "Pareto front" if best else "dominated"
        ink, marker = (INK["front"], "D") if best else (INK["faint"], "o")
        if base:
            kind, ink, marker = f"{panels.short(arm.name, 24)} (baseline)", INK["reference"], "D" if best else "o"
        (across, left, right), (up, low, high) = _spread(arm, x), _spread(arm, y)
        axes.errorbar(
            [across], [up], xerr=[[across - left], [right - across]], yerr=[[up - low], [high - up]],
            fmt=marker, color=ink, ms=5.5, elinewidth=0.9, label=kind if kind not in seen else "_nolegend_",
        )  # fmt: skip
        seen.add(kind)
    sides: tuple[tuple[Literal["x", "y"], Metric], ...] = (("x", x), ("y", y))
    for side, metric in sides:
        means = [arm.levels[metric.name].mean for arm in arms]
        panels.plain_ticks(axes, side, log=metric.log, over=max(means) / min(means) if metric.log else 1.0)
    axes.margins(0.12)
    axes.autoscale_view()
    axes.set(xlabel=_label(x), ylabel=_label(y))
    panels.named_points(axes, [(arm.name, arm.levels[x.name].mean, arm.levels[y.name].mean) for arm in arms])


def _spread(arm: Arm, metric: Metric) -> tuple[float, float, float]:
    level = arm.levels[metric.name]
    sd = level.sd or 0.0
    if metric.log:
        return level.mean, level.mean / factor(sd), level.mean * factor(sd)
    return level.mean, level.mean - sd, level.mean + sd


def _label(metric: Metric) -> str:
    scale = ", log scale" if metric.log else ""
    gap = "\n" if metric.log or len(metric.name) > LONG else " "
    return f"{spoken(metric.name)}{gap}({metric.better} is better{scale})"


def left_out(factors: Factors) -> list[str]:
    return [" × ".join(pair) for pair in _pairs(factors)[PAIRS:]]


def _pairs(factors: Factors) -> list[tuple[str, ...]]:
    return [edits for edits in factors.effects if len(edits) == 2 and set(edits) <= set(factors.edits)]


def interaction_plots(record: PageRecord, factors: Factors, terms: str) -> Iterator[Plot]:
    pairs = _pairs(factors)[:PAIRS]
    for place, metric in enumerate(record.seen() if pairs else ()):
        yield Plot(
            name=f"interaction-{metric.name}" + (f"-{terms}" if terms else ""),
            id=f"interaction-{''.join(c if c.isalnum() else '-' for c in terms)}-{place}",
            draw=tuple(partial(_pair, record=record, factors=factors, metric=metric, pair=pair) for pair in pairs),
            about=f"Means of {spoken(metric.name)} by two edits. The table Runs has the numbers.",
            caption=f"Means of {spoken(metric.name)} over runs and seeds, by the edit named below each panel; solid: "
            "with the edit named above it, dashed: without it. Edits whose lines are not parallel interact.",
            height=2.4,
            panels_across=min(2, len(pairs)),
            legend=False,
            columns=("edit", "other_edit", "has_edit", "has_other_edit", "metric", "mean"),
            rows=tuple(
                (
                    *pair,
                    int(across > 0),
                    int(level > 0),
                    metric.name,
                    _cell_mean(record, factors, metric, pair, across, level),
                )
                for pair in pairs
                for level in (-1, 1)
                for across in (-1, 1)
            ),
        )


def _cell_mean(
    record: PageRecord, factors: Factors, metric: Metric, pair: Sequence[str], across: int, level: int
) -> float:
    first, other = (factors.edits.index(edit) for edit in pair)
    return _mean(record, factors, metric, {first: across, other: level})


def _pair(axes: Axes, record: PageRecord, factors: Factors, metric: Metric, pair: Sequence[str]) -> None:
    for place, level in enumerate((-1, 1)):
        line = [_cell_mean(record, factors, metric, pair, across, level) for across in (-1, 1)]
        axes.plot(
            [0, 1], line, marker="os"[place], ms=4.5, color=INK[f"line{place}"], ls="-" if place else "--", lw=1.4
        )
    axes.set_xlim(-0.3, 1.3)
    axes.set_xticks([0, 1], ["without", "with"], fontsize=8)
    axes.set_xlabel(panels.short(pair[0], 28), fontsize=8)
    axes.set_title(panels.short(pair[1], 28), fontsize=8, loc="left", color=INK["line1"])
    panels.plain_ticks(axes, "y", log=metric.log)
    axes.margins(y=0.25)
    axes.set_ylabel(spoken(metric.name))


def _mean(record: PageRecord, factors: Factors, metric: Metric, levels: dict[int, int]) -> float:
    """The mean over the runs with these levels; the geometric mean on the log scale."""
    means = [level.mean for level in panels.levels_at(record, factors, metric, levels)]
    if not means:
        return math.nan
    return float(np.exp(np.mean(np.log(means)))) if metric.log else float(np.mean(means))
