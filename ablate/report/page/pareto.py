"""Two metrics against each other with the variants that none beats; and the means of two edits that interact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ablate.output.numbers import factor
from ablate.output.words import spoken
from ablate.plan.plan import Factors
from ablate.report.html.drawn import INK, Draw, drawn
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.verdict.summary import Arm, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG = 16
"""Characters of a metric's name from which its axis has two lines."""
PAIRS = 4
"""Pairs of edits drawn for each metric; tables have them all."""


def fronts(record: PageRecord) -> list[tuple[str, str]]:
    """The first metric against each other one, with captions; nothing where fewer than two have values."""
    metrics = record.seen()
    every = [arm for arm in record.summary.arms if record.variant(arm.variant).setting.salt == 0]
    found = []
    for place, other in enumerate(metrics[1:]):
        arms = [arm for arm in every if {metrics[0].name, other.name} <= arm.levels.keys()]
        if len(arms) < 2:
            continue
        svg = drawn(
            [lambda axes, o=other, a=arms: _plane(axes, record, metrics[0], o, a)],  # type: ignore[misc]
            f"plane-{place}",
            f"{spoken(metrics[0].name)} against {spoken(other.name)}. The table Variants has its numbers.",
            height=3.3,
            width=panels.WIDTH,
        )
        left = len(every) - len(arms)
        caption = "Means over seeds, with one standard deviation each way. A name that would cover another is left out."
        if len(metrics) > 2:
            caption += " The front is that of all metrics: a variant may be on it for one that is not drawn."
        found.append((svg, caption + (f" Not shown: {left} without a finished seed." if left else "")))
    return found


def _plane(axes: Axes, record: PageRecord, x: Metric, y: Metric, arms: Sequence[Arm]) -> None:
    front = set(record.summary.front)
    seen: set[str] = set()
    for arm in arms:
        base, best = arm.variant == record.plan.baseline, arm.variant in front
        kind = "front" if best else "beaten by another"
        ink, marker = (INK["front"], "D") if best else (INK["faint"], "o")
        if base:
            kind, ink, marker = f"{panels.short(arm.name, 24)} (baseline)", INK["reference"], "D" if best else "o"
        (across, left, right), (up, low, high) = _spread(arm, x), _spread(arm, y)
        axes.errorbar(
            [across], [up], xerr=[[across - left], [right - across]], yerr=[[up - low], [high - up]],
            fmt=marker, color=ink, ms=5.5, elinewidth=0.9, label=kind if kind not in seen else "_nolegend_",
        )  # fmt: skip
        seen.add(kind)
    for which, metric in (("x", x), ("y", y)):
        means = [arm.levels[metric.name].mean for arm in arms]
        panels.plain_ticks(axes, which, log=metric.log, over=max(means) / min(means) if metric.log else 1.0)  # type: ignore[arg-type]
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


def interactions(record: PageRecord, factors: Factors, terms: str) -> list[tuple[str, str]]:
    """For each metric the means of pairs of edits: lines that are not parallel interact."""
    pairs = [one for one in factors.effects if len(one) == 2]
    found = []
    for place, metric in enumerate(record.seen()):
        draw: list[Draw] = [
            lambda axes, p=pair, m=metric: _pair(axes, record, factors, m, p)  # type: ignore[misc]
            for pair in pairs[:PAIRS]
        ]
        if not draw:
            continue
        svg = drawn(
            draw,
            f"interaction-{''.join(c if c.isalnum() else '-' for c in terms)}-{place}",
            f"Means of {spoken(metric.name)} by two edits. The table Runs has the numbers.",
            height=2.4,
            columns=min(2, len(draw)),
            width=panels.WIDTH,
            legend=False,
        )
        more = f" {len(pairs) - PAIRS} more pairs are in the tables alone." if len(pairs) > PAIRS else ""
        about = (
            f"Means of {spoken(metric.name)} over runs and seeds, along the edit below each panel; solid: with the "
            "edit above it, dashed: without. Edits whose lines are not parallel interact."
        )
        found.append((svg, about + more))
    return found


def _pair(axes: Axes, record: PageRecord, factors: Factors, metric: Metric, pair: Sequence[str]) -> None:
    one, other = (factors.edits.index(edit) for edit in pair)
    for place, level in enumerate((-1, 1)):
        line = [_mean(record, factors, metric, {one: across, other: level}) for across in (-1, 1)]
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
    """The mean over the runs with these levels; on the log scale geometric."""
    of = [
        record.summary.arm(id).levels.get(metric.name)
        for id, run in factors.runs
        if all(run[place] == level for place, level in levels.items())
    ]
    means = [level.mean for level in of if level is not None]
    if not means:
        return math.nan
    return float(np.exp(np.mean(np.log(means)))) if metric.log else float(np.mean(means))
