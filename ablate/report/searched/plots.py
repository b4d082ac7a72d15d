"""The plots of a search: its blocks by their objectives, and its progress after each.

Only the functions that draw import matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from ablate.output.words import factor, spoken
from ablate.report import wording
from ablate.report.effect_tables import interval_kind
from ablate.report.plot import HEIGHT, INK, Cell, Draw, Plot
from ablate.report.searched.analysis import SearchAnalysis
from ablate.report.searched.answer import OUTCOMES
from ablate.report.searched.confirmation import verdicts
from ablate.report.searched.record import SearchObjective, SearchRecord
from ablate.space.design import Goal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = 14  # maximum number of blocks of a Pareto front that are named in its plot

LONG = 20  # length of a metric's name, in characters, beyond which its axis label has two lines
FRESH = "at fresh seeds, and interval"


def plots(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Plot]:
    if analysis.compared:
        yield _found_plot(record, analysis)
    if len(record.objectives) > 1 and analysis.curve:
        yield _progress_plot(record, analysis)


def _found_plot(record: SearchRecord, analysis: SearchAnalysis) -> Plot:
    """The first objective against each of the others, stacked; with one objective its values over the search."""
    draw: list[Draw] = [
        partial(_plane, record=record, analysis=analysis, x=0, y=other) for other in range(1, len(record.objectives))
    ]
    name = "front" if draw else "values"
    names = [objective.metric for objective in record.objectives]
    fresh = dict(_fresh(record))
    return Plot(
        name=name,
        id=name,
        draw=tuple(draw) or (partial(_over_time, record=record, analysis=analysis),),
        about=f"{_what(record)}. The tables Pareto front or Best and Every block trained have its numbers.",
        caption=" ".join(_caption(record)),
        headline=_what(record),
        height=HEIGHT,
        columns=(
            "number", "block", "outcome", "front", *names,
            *(f"{metric}_fresh{end}" for metric in names for end in ("", "_low", "_high")),
        ),
        rows=tuple(
            (
                entry.number, entry.name, entry.outcome, str(place in analysis.front).lower(),
                *(entry.values or (None,) * len(names)),
                *(end for at in range(len(names)) for end in fresh.get(entry.name, {}).get(at, (None,) * 3)),
            )
            for place, entry in enumerate(record.entries)
        ),
    )  # fmt: skip


def _progress_plot(record: SearchRecord, analysis: SearchAnalysis) -> Plot:
    """The hypervolume over the search; with one objective the other plot shows as much."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (entry.number, entry.name, value) for entry, value in zip(record.entries, analysis.curve, strict=False)
    )
    return Plot(
        name="hypervolume",
        id="progress",
        draw=(partial(_hypervolume, analysis=analysis),),
        about="Hypervolume over the blocks in order of start. The table Progress has its numbers.",
        caption="The share of the box that is dominated, by blocks started.",
        height=2.5,
        columns=("number", "block", "hypervolume"),
        rows=rows,
    )


def _caption(record: SearchRecord) -> Iterator[str]:
    several = len(record.objectives) > 1
    yield "Each point is a block that finished."
    if len(record.objectives) > 2:
        yield "The Pareto front is over all objectives: a point may be on it because of one that is not drawn."
    if several:
        yield "A name that would cover another is left out."
    if record.confirmed is not None:
        yield (
            f"Squares: at fresh seeds, {record.reference}'s mean there and the paired difference from it with its "
            f"interval ({interval_kind(record.confirmed)})"
            + ("; the dotted line leads there from the value in the search." if several else ".")
        )


def _what(record: SearchRecord) -> str:
    names = [spoken(objective.metric) for objective in record.objectives]
    of = f"{names[0]} over the search" if len(names) == 1 else f"{names[0]} against {' and '.join(names[1:])}"
    return f"Every block that finished: {of}"


def _plane(axes: Axes, record: SearchRecord, analysis: SearchAnalysis, x: int, y: int) -> None:
    values = {place: record.entries[place].values for place in analysis.compared}
    goals = record.objectives[x], record.objectives[y]
    fresh = _fresh(record)
    matter = [(value[x], value[y]) for place, value in values.items() if place in analysis.front or place == 0]
    matter += [(ends[x][0], ends[y][0]) for _, ends in fresh if x in ends and y in ends]
    _scaled(axes, "x", goals[0])
    _scaled(axes, "y", goals[1])
    left, right = frame([value[x] for value in values.values()], [at for at, _ in matter], goals[0])
    bottom, top = frame([value[y] for value in values.values()], [at for _, at in matter], goals[1])
    axes.set(xlim=(left, right), ylim=(bottom, top), xlabel=_axis_label(goals[0]), ylabel=_axis_label(goals[1]))
    inside = [p for p, value in values.items() if left <= value[x] <= right and bottom <= value[y] <= top]
    plain = [values[p] for p in inside if p not in analysis.front and p > 0]
    axes.plot([v[x] for v in plain], [v[y] for v in plain], "o", color=INK["faint"], ms=3.5, label="finished")
    _draw_front(axes, record, analysis, x, y)
    if 0 in values:
        label = f"{record.reference} (reference)"
        axes.plot([values[0][x]], [values[0][y]], "+", color=INK["reference"], ms=13, mew=2, label=label)
    _draw_fresh(axes, record, fresh, x, y)
    _margin(axes, record, analysis, len(values) - len(inside))


def _draw_front(axes: Axes, record: SearchRecord, analysis: SearchAnalysis, x: int, y: int) -> None:
    """Draw the front; with two objectives also the line that bounds what it dominates."""
    blocks = sorted((record.entries[place] for place in analysis.front), key=lambda entry: entry.values[x])
    across, up = [entry.values[x] for entry in blocks], [entry.values[y] for entry in blocks]
    goals = record.objectives[x].goal, record.objectives[y].goal
    axes.plot(across, up, "D", color=INK["front"], ms=4.5, label="Pareto front")
    if len(record.objectives) == 2:
        axes.step(across, up, where="post" if goals[0] == "min" else "pre", color=INK["front"], lw=1)
    named = [(entry.name, entry.values[x], entry.values[y]) for entry in blocks if entry.number > 0]
    _labelled(axes, named[:LABELS], *goals)


Ends = dict[int, tuple[float, float, float]]
"""For each objective a value at fresh seeds, and the ends of its interval."""


def _fresh(record: SearchRecord) -> list[tuple[str, Ends]]:
    """The reference's mean there plus the paired difference from it, for each chosen block."""
    if record.confirmed is None:
        return []
    base = next((arm for arm in record.confirmed.arms if arm.name == record.confirmed.baseline), None)
    placed = []
    for name in record.chosen:
        ends: Ends = {}
        for effect in verdicts(record, name):
            place = [objective.metric for objective in record.objectives].index(effect.metric)
            level = None if base is None else base.levels.get(effect.metric)
            if level is None or effect.estimate is None:
                continue
            ends_of = wording.bounds(effect)
            low, high = (effect.estimate if end is None or not math.isfinite(end) else end for end in ends_of)
            ratio = effect.scale == "log"
            middle, start, end = (
                level.mean * factor(d) if ratio else level.mean + d for d in (effect.estimate, low, high)
            )
            ends[place] = (middle, start, end)
        placed.append((name, ends))
    return placed


def _draw_fresh(axes: Axes, record: SearchRecord, fresh: Sequence[tuple[str, Ends]], x: int, y: int) -> None:
    label = FRESH
    for name, ends in fresh:
        if x not in ends or y not in ends:
            continue
        searched = record.entry(name).values
        if searched:
            path = [searched[x], ends[x][0]], [searched[y], ends[y][0]]
            axes.plot(*path, ":", color=INK["fresh"], lw=1)
        _square(axes, ends[x], ends[y], label)
        label = "_nolegend_"
    base = _fresh_reference(record)
    if x in base and y in base:
        axes.plot([base[x]], [base[y]], "x", color=INK["fresh"], ms=8, mew=1.5, label=f"{record.reference}, fresh")


def _square(axes: Axes, across: tuple[float, float, float], up: tuple[float, float, float], label: str) -> None:
    (x, left, right), (y, bottom, top) = across, up
    axes.errorbar(
        [x], [y], xerr=[[x - left], [right - x]], yerr=[[y - bottom], [top - y]], fmt="s", ms=5, mfc=INK["paper"],
        color=INK["fresh"], elinewidth=1, capsize=2, label=label,
    )  # fmt: skip


def _fresh_reference(record: SearchRecord) -> dict[int, float]:
    summary = record.confirmed
    arm = None if summary is None else next((arm for arm in summary.arms if arm.name == summary.baseline), None)
    if arm is None:
        return {}
    levels = {place: arm.levels.get(objective.metric) for place, objective in enumerate(record.objectives)}
    return {place: level.mean for place, level in levels.items() if level is not None}


def _margin(axes: Axes, record: SearchRecord, analysis: SearchAnalysis, beyond: int) -> None:
    axes.set_title(_told_apart(record, analysis, beyond), fontsize=8, loc="right", color=INK["ink"])


def _over_time(axes: Axes, record: SearchRecord, analysis: SearchAnalysis) -> None:
    objective = record.objectives[0]
    values = [record.entries[place].values[0] for place in analysis.compared]
    fresh = [(name, ends[0]) for name, ends in _fresh(record) if 0 in ends]
    _scaled(axes, "y", objective)
    must = [value for value in analysis.curve if value is not None] + [at for _, (at, _, _) in fresh]
    if 0 in analysis.compared:
        must.append(record.entries[0].values[0])
    axes.set_ylim(*frame(values, must, objective))
    _by_blocks(axes, len(record.entries))
    axes.set_ylabel(_axis_label(objective))
    bottom, top = sorted(axes.get_ylim())
    inside = [(place, value) for place, value in zip(analysis.compared, values, strict=True) if bottom <= value <= top]
    axes.plot(*zip(*inside, strict=True), "o", color=INK["faint"], ms=3.5, label="finished")
    known = [(place, value) for place, value in enumerate(analysis.curve) if value is not None]
    axes.step(*zip(*known, strict=True), where="post", color=INK["front"], lw=1.4, label="best so far")
    if 0 in analysis.compared:
        label = f"{record.reference} (reference)"
        axes.axhline(record.entries[0].values[0], color=INK["reference"], ls="--", lw=1, label=label)
    label = FRESH
    names = [entry.name for entry in record.entries]
    for name, ends in fresh:
        place = float(names.index(name))
        _square(axes, (place, place, place), ends, label)
        label = "_nolegend_"
    _margin(axes, record, analysis, len(values) - len(inside))


def _hypervolume(axes: Axes, analysis: SearchAnalysis) -> None:
    known = [(place, value) for place, value in enumerate(analysis.curve) if value is not None]
    places, values = zip(*known, strict=True)
    axes.step(places, values, where="post", color=INK["front"], lw=1.4)
    axes.set_ylim(0, max(0.05, 1.08 * float(np.max(values))))
    _by_blocks(axes, len(analysis.curve))
    axes.set_ylabel("hypervolume")


def _axis_label(objective: SearchObjective) -> str:
    scale = ", log scale" if objective.log else ""
    # a long name takes two lines: beside the plot there is no room for one
    gap = "\n" if len(objective.metric) > LONG else " "
    return f"{spoken(objective.metric)}{gap}({'lower' if objective.goal == 'min' else 'higher'} is better{scale})"


# Axes: of objectives, robust to outliers, and of blocks in the order of their start.

SHOWN = 0.9
"""An axis shows about this share of the blocks, and every one that matters; the plot says how many it does not show."""


def _scaled(axes: Axes, which: Literal["x", "y"], objective: SearchObjective) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    if objective.log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    if objective.log:
        axis.set_minor_locator(NullLocator())
    axis.set_major_locator(MaxNLocator(nbins=5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))


def _by_blocks(axes: Axes, count: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set(xlim=(-0.02 * count - 0.3, 1.02 * count - 0.7), xlabel="blocks, in order of start")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def frame(values: Sequence[float], must: Sequence[float], objective: SearchObjective) -> tuple[float, float]:
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


def _labelled(axes: Axes, points: Sequence[tuple[str, float, float]], x: Goal, y: Goal, size: float = 8) -> None:
    """Names stand on the better side; one that would cover another is left out."""
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


def _told_apart(record: SearchRecord, analysis: SearchAnalysis, beyond: int) -> str:
    parts = [f"{n} {OUTCOMES.get(kind, kind)}" for kind, n in record.outcomes.most_common() if kind != "finished"]
    if strange := len(analysis.incomparable):
        parts.append(f"{strange} without a finite value")
    if beyond:
        parts.append(f"{beyond} outside the frame")
    return f"not shown: {', '.join(parts)}" if parts else ""
