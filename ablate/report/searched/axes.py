"""The axes of a search's plots: of objectives, robust to outliers, and of blocks in the order of their start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from ablate.report.html.drawn import INK
from ablate.report.searched.analysis import SearchAnalysis
from ablate.report.searched.answer import OUTCOMES
from ablate.report.searched.record import Objective, SearchRecord
from ablate.space.design import Goal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 0.9
"""An axis shows about this share of the blocks, and every one that matters; the plot says how many it does not show."""


def scaled(axes: Axes, which: Literal["x", "y"], objective: Objective) -> None:
    """Set up the axis of an objective; on the log scale its ticks stay plain numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    if objective.log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    if objective.log:
        axis.set_minor_locator(NullLocator())
    axis.set_major_locator(MaxNLocator(nbins=5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))


def by_blocks(axes: Axes, count: int) -> None:
    """Set up the axis of blocks in the order of their start: whole numbers from 0."""
    from matplotlib.ticker import MaxNLocator

    axes.set(xlim=(-0.02 * count - 0.3, 1.02 * count - 0.7), xlabel="blocks, in order of start")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def frame(values: Sequence[float], must: Sequence[float], objective: Objective) -> tuple[float, float]:
    """Return the ends of an axis: from the best value, with about `SHOWN` of the values and all of `must` inside."""
    known = np.log(values) if objective.log else np.asarray(values, dtype=float)
    needed = np.log(must) if objective.log else np.asarray(must, dtype=float)
    if objective.goal == "min":
        low, high = min(known.min(), *needed), max(np.quantile(known, SHOWN, method="lower"), *needed)
    else:
        low, high = min(np.quantile(known, 1 - SHOWN, method="higher"), *needed), max(known.max(), *needed)
    pad = 0.07 * (high - low) or 0.05 * (abs(high) or 1.0)
    low, high = float(low - pad), float(high + pad)
    return (float(np.exp(low)), float(np.exp(high))) if objective.log else (low, high)


def labelled(axes: Axes, points: Sequence[tuple[str, float, float]], x: Goal, y: Goal, size: float = 8) -> None:
    """Put names beside points, on the better side; a name that would cover another is left out."""
    right, up = x == "max", y == "max"
    taken: list[tuple[float, float, float]] = []
    for name, across, high in points:
        at_x, at_y = (float(c) * 72 / axes.figure.dpi for c in axes.transData.transform((across, high)))
        width = 0.62 * size * len(name)
        start = at_x if right else at_x - width
        if any(
            abs(at_y - other) < 1.15 * size and start < end and begin < start + width for begin, end, other in taken
        ):
            continue
        taken.append((start, start + width, at_y))
        axes.annotate(
            name, (across, high), (4 if right else -4, 4 if up else -4), textcoords="offset points", fontsize=size,
            ha="left" if right else "right", va="bottom" if up else "top", color=INK["front"],
        )  # fmt: skip


def told_apart(record: SearchRecord, analysis: SearchAnalysis, beyond: int) -> str:
    """Return what a plot does not show: `not shown: 5 diverged, 2 outside the frame`."""
    parts = [f"{n} {OUTCOMES.get(kind, kind)}" for kind, n in record.outcomes.most_common() if kind != "finished"]
    if strange := len(analysis.incomparable):
        parts.append(f"{strange} without a finite value")
    if beyond:
        parts.append(f"{beyond} outside the frame")
    return f"not shown: {', '.join(parts)}" if parts else ""
