"""Probes by layer: for each variant a map of layers and steps, in shades that all variants of a metric share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ablate.output.words import spoken
from ablate.plan.plan import Variant
from ablate.report.document import Grid
from ablate.report.html.drawn import INK, SHADES, shown
from ablate.report.page import panels
from ablate.report.page.curves import is_log
from ablate.report.page.record import PageRecord
from ablate.report.plot import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ablate.store.pages import LayerCurve

FIRST = 6
"""Variants whose maps are shown at once; those of the others are folded."""
BEFORE = ("embedding", "positions", "position", "entry_norm")
"""Parts of a model that stand before its layers."""
WIDE_RANGE = 20.0
"""Values that differ by more than this factor are shaded by their logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shades:
    """Shades: `edges` are the values at which one goes over into the next, of logarithms or not."""

    edges: tuple[float, ...]
    log: bool

    def shade(self, value: float) -> int:
        """The shade of a value."""
        return min(SHADES - 1, max(0, int(np.searchsorted(self.edges, value, side="right")) - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Maps:
    """The maps of one metric: plots with the variants in each, the first to be shown at once, and the shades."""

    metric: str
    plots: tuple[tuple[str, tuple[Variant, ...]], ...]
    scale: Shades
    steps: tuple[int, int]


def names(record: PageRecord) -> tuple[str, ...]:
    """The metrics that were measured at two parts or more."""
    parts: dict[str, set[str]] = {}
    for course in record.layers:
        parts.setdefault(course.metric, set()).add(course.part)
    return tuple(metric for metric, of in parts.items() if len(of) > 1)


COLUMNS = ("variant", "metric", "part", "step", "n", "mean")
"""What stands behind a map."""


def maps(record: PageRecord, metric: str) -> Maps | None:
    """The maps of a metric; None where it has no finite value."""
    plots = grouped_plots(record, metric)
    if not plots:
        return None
    some = next(course for course in record.layers if course.metric == metric)
    return Maps(
        metric=metric,
        plots=tuple((shown(plot, panels.WIDTH), group) for plot, group in plots),
        scale=_scale_of(record, metric),
        steps=(some.measured, len(some.steps)),
    )


def grouped_plots(record: PageRecord, metric: str) -> list[tuple[Plot, tuple[Variant, ...]]]:
    """The maps of a metric with the variants in each; none where it has no finite value."""
    of: dict[str, list[LayerCurve]] = {}
    for course in record.layers:
        if course.metric == metric:
            of.setdefault(course.variant, []).append(course)
    if not any(known(course) for courses in of.values() for course in courses):
        return []
    scale = _scale_of(record, metric)
    variants = [variant for variant in record.plan.variants if variant.id in of]
    parts = in_order(course.part for courses in of.values() for course in courses)
    some = next(iter(of.values()))[0]
    caption = (
        f"{spoken(metric).capitalize()} by layer, from the first (below) to the last, and step; means over seeds; "
        f"{combined(metric)}.{panels.drawn_steps(some.measured, len(some.steps))}"
    )
    plots = []
    for start in range(0, len(variants), FIRST):
        group = tuple(variants[start : start + FIRST])
        plot = Plot(
            name=f"layers-{metric}" + (f"-{start // FIRST + 1}" if start else ""),
            id=f"map-{metric.replace('_', '-')}-{start // FIRST}",
            draw=tuple(
                lambda axes, v=variant: _map(axes, v, of[v.id], parts, scale)  # type: ignore[misc]
                for variant in group
            ),
            about=f"{spoken(metric)} by layer and step, a map for each variant. The table below has the last step.",
            caption=caption,
            height=0.6 + max(0.5, min(2.2, 0.1 * len(parts))),
            panels_across=min(2, len(group)),
            legend=False,
            key_title=f"{spoken(metric)}, by layer (upwards) and step (to the right)",
            key=tuple((f"shade{shade}", text) for shade, text in _key(scale)),
            columns=COLUMNS,
            rows=tuple(
                (variant.name, course.metric, course.part, *numbers)
                for variant in group
                for course in of[variant.id]
                for numbers in zip(course.steps, course.n, course.mean, strict=True)
            ),
        )
        plots.append((plot, group))
    return plots


def _scale_of(record: PageRecord, metric: str) -> Shades:
    """The shades that all maps of a metric share."""
    values = [one for course in record.layers if course.metric == metric for one in known(course)]
    return _scale(values, log=is_log(record, metric))


def _scale(values: Sequence[float], *, log: bool) -> Shades:
    """Shades from the 1st to the 99th centile, so that single values do not stretch them."""
    log = min(values) > 0 and (log or max(values) / min(values) > WIDE_RANGE)
    scaled = np.log(values) if log else np.asarray(values, dtype=float)
    low, high = (float(one) for one in np.quantile(scaled, (0.01, 0.99)))
    if high <= low:
        low, high = float(scaled.min()), float(scaled.max())
    edges = np.linspace(low, high, SHADES + 1)[:-1] if high > low else np.asarray([low])
    return Shades(edges=tuple(float(one) for one in (np.exp(edges) if log else edges)), log=log)


def key(found: Maps) -> list[tuple[int, str]]:
    """Each shade with the values that it stands for."""
    return _key(found.scale)


def _key(scale: Shades) -> list[tuple[int, str]]:
    edges = scale.edges
    if len(edges) == 1:
        return [(0, panels.number(edges[0]))]
    first, *rest = panels.apart(edges[1:])
    said = [(0, f"below {first}")]
    said += [(place, f"from {edge}") for place, edge in enumerate((first, *rest), 1)]
    return said


def _map(axes: Axes, variant: Variant, courses: Sequence[LayerCurve], parts: Sequence[str], scale: Shades) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    cells: dict[int, list[tuple[float, float, float]]] = {}
    for course in courses:
        row, edges = float(parts.index(course.part)), _edges(course.steps)
        for place, value in enumerate(course.mean):
            if value is not None and math.isfinite(value):
                _join(cells.setdefault(scale.shade(value), []), row, edges[place], edges[place + 1])
    for shade, boxes in sorted(cells.items()):
        corners = [c for row, x, to in boxes for c in ((x, row), (to, row), (to, row + 1), (x, row + 1), (x, row))]
        codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY] * len(boxes)
        axes.add_patch(PathPatch(Path(corners, codes), fc=INK[f"shade{shade}"], lw=0, antialiased=False))
    last = max(max(course.steps) for course in courses)
    axes.set_xlim(_edges(courses[0].steps)[0], max(_edges(course.steps)[-1] for course in courses))
    axes.set_ylim(0, len(parts))
    every = max(1, -(-len(parts) // 9))
    ticks = [place for place in range(len(parts)) if place % every == 0 or not parts[place].isdecimal()]
    axes.set_yticks([place + 0.5 for place in ticks], [panels.short(parts[place], 12) for place in ticks], fontsize=8)
    axes.set_xticks([0, last // 2, last], [f"{step:,}" for step in (0, last // 2, last)], fontsize=8)
    axes.tick_params(length=2)
    axes.set_title(panels.short(variant.name, 30), fontsize=9, loc="left", color=INK["ink"])


def _join(boxes: list[tuple[float, float, float]], row: float, start: float, end: float) -> None:
    """Cells of one shade side by side are one box."""
    if boxes and boxes[-1][0] == row and boxes[-1][2] == start:
        boxes[-1] = (row, boxes[-1][1], end)
    else:
        boxes.append((row, start, end))


def _edges(steps: Sequence[int]) -> list[float]:
    """The borders between steps: half-way."""
    if len(steps) == 1:
        return [steps[0] - 0.5, steps[0] + 0.5]
    inner = [(one + other) / 2 for one, other in pairwise(steps)]
    return [steps[0] - (inner[0] - steps[0]), *inner, steps[-1] + (steps[-1] - inner[-1])]


def table(record: PageRecord, metric: str) -> Grid:
    """The last measured value of each part, a column for each variant."""
    of: dict[tuple[str, str], str] = {}
    for course in record.layers:
        if course.metric == metric:
            values = known(course)
            of[course.variant, course.part] = panels.number(values[-1]) if values else "–"
    variants = [v for v in record.plan.variants if any(variant == v.id for variant, _ in of)]
    parts = in_order(part for _, part in of)
    rows = tuple((_part(part), *(of.get((v.id, part), "") for v in variants)) for part in parts)
    return Grid(
        title=f"{spoken(metric).capitalize()} by layer",
        note=f"{spoken(metric)} at the last measured step, means over seeds",
        heading=("part", *(variant.name for variant in variants)),
        rows=rows,
        numbers=tuple(range(1, len(variants) + 1)),
    )


def in_order(parts: Iterable[str]) -> list[str]:
    """What stands before the layers, the layers, and what stands behind them."""

    def place(part: str) -> tuple[int, int, str]:
        first = part.partition(" ")[0]
        layer = int(first) if first.isdecimal() else 0
        return (1 if layer else 0 if part in BEFORE else 2), layer, part

    return sorted(set(parts), key=place)


def known(course: LayerCurve) -> list[float]:
    """Its finite values, step by step."""
    return [one for one in course.mean if one is not None and math.isfinite(one)]


def _part(part: str) -> str:
    return f"layer {part}" if part[:1].isdecimal() else part


def combined(metric: str) -> str:
    """What the value of a layer is where several of its parts were measured."""
    if metric == "gradient_norm":
        return "of a layer the norm over all its parameters"
    return "of several parts of a layer the largest"
