"""Heat maps: probes by layer and step, in shades that all variants of a metric share; kernels of tokens by position."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ablate.output.words import significant, spoken
from ablate.plan.plan import Variant
from ablate.report.document import Grid
from ablate.report.page import panels
from ablate.report.page.curves import is_log
from ablate.report.page.record import PageRecord
from ablate.report.plot import INK, SHADES, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ablate.store.pages import Kernel, LayerCurve

FIRST = 6  # number of variants whose heat maps are shown at first; those of the others are folded
BEFORE = ("embedding", "positions", "position", "entry_norm")  # parts of a model that stand before its layers
ENCODER = "encoder "  # the start of the names of the layers of an encoder where a decoder follows
OF_ENCODER = "encoder_norm"  # the part behind an encoder's layers
WIDE_RANGE = 20.0  # values that span more than this factor are shaded by their logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Shades:
    """Shades: `edges` are the values at which each begins, equally spaced in logarithms if `log`."""

    edges: tuple[float, ...]
    log: bool

    def shade(self, value: float) -> int:
        return min(SHADES - 1, max(0, int(np.searchsorted(self.edges, value, side="right")) - 1))


def names(record: PageRecord) -> tuple[str, ...]:
    parts: dict[str, set[str]] = {}
    for course in record.layers:
        parts.setdefault(course.metric, set()).add(course.part)
    return tuple(metric for metric, of in parts.items() if len(of) > 1)


COLUMNS = ("variant", "metric", "part", "step", "n", "mean")


def plots(record: PageRecord, metric: str) -> list[tuple[Plot, tuple[Variant, ...]]]:
    of: dict[str, list[LayerCurve]] = {}
    for course in record.layers:
        if course.metric == metric:
            of.setdefault(course.variant, []).append(course)
    if not any(known(course) for courses in of.values() for course in courses):
        return []
    scale = scale_of(record, metric)
    variants = [variant for variant in record.plan.variants if variant.id in of]
    parts = in_order(course.part for courses in of.values() for course in courses)
    caption = f"{spoken(metric).capitalize()} by layer (first at the bottom) and step; {about(record, metric)}"
    grouped = []
    for start in range(0, len(variants), FIRST):
        group = tuple(variants[start : start + FIRST])
        plot = Plot(
            name=f"layers-{metric}" + (f"-{start // FIRST + 1}" if start else ""),
            id=f"map-{metric.replace('_', '-')}-{start // FIRST}",
            draw=tuple(
                partial(_map, variant=variant, courses=of[variant.id], parts=parts, scale=scale) for variant in group
            ),
            about=f"{spoken(metric)} by layer and step, a heat map per variant. The table below has the last step.",
            caption=caption,
            height=0.6 + max(0.5, min(2.2, 0.1 * len(parts))),
            panels_across=min(2, len(group)),
            legend=False,
            key_title=f"{spoken(metric)}, by layer (upwards) and step (to the right)",
            key=tuple((f"shade{shade}", text) for shade, text in key(scale)),
            columns=COLUMNS,
            rows=tuple(
                (variant.name, course.metric, course.part, *numbers)
                for variant in group
                for course in of[variant.id]
                for numbers in zip(course.steps, course.n, course.mean, strict=True)
            ),
        )
        grouped.append((plot, group))
    return grouped


def scale_of(record: PageRecord, metric: str) -> Shades:
    values = [value for course in record.layers if course.metric == metric for value in known(course)]
    return _scale(values, log=is_log(record, metric))


def _scale(values: Sequence[float], *, log: bool) -> Shades:
    """Return shades from the 1st to the 99th percentile, so that outliers do not stretch them."""
    log = min(values) > 0 and (log or max(values) / min(values) > WIDE_RANGE)
    scaled = np.log(values) if log else np.asarray(values, dtype=float)
    low, high = (float(end) for end in np.quantile(scaled, (0.01, 0.99)))
    if high <= low:
        low, high = float(scaled.min()), float(scaled.max())
    edges = np.linspace(low, high, SHADES + 1)[:-1] if high > low else np.asarray([low])
    return Shades(edges=tuple(float(edge) for edge in (np.exp(edges) if log else edges)), log=log)


def key(scale: Shades) -> list[tuple[int, str]]:
    edges = scale.edges
    if len(edges) == 1:
        return [(0, significant(edges[0]))]
    first, *rest = panels.apart(edges[1:])
    entries = [(0, f"below {first}")]
    entries += [(place, f"from {edge}") for place, edge in enumerate((first, *rest), 1)]
    return entries


def _map(axes: Axes, variant: Variant, courses: Sequence[LayerCurve], parts: Sequence[str], scale: Shades) -> None:
    cells: dict[int, list[tuple[float, float, float]]] = {}
    for course in courses:
        row, edges = float(parts.index(course.part)), _edges(course.steps)
        for place, value in enumerate(course.mean):
            if value is not None and math.isfinite(value):
                _join(cells.setdefault(scale.shade(value), []), row, edges[place], edges[place + 1])
    for shade, boxes in sorted(cells.items()):
        panels.add_boxes(axes, shade, boxes)
    last = max(max(course.steps) for course in courses)
    axes.set_xlim(_edges(courses[0].steps)[0], max(_edges(course.steps)[-1] for course in courses))
    axes.set_ylim(0, len(parts))
    every = max(1, -(-len(parts) // 9))
    layers = [part.removeprefix(ENCODER).isdecimal() for part in parts]
    ticks = [place for place in range(len(parts)) if place % every == 0 or not layers[place]]
    axes.set_yticks([place + 0.5 for place in ticks], [panels.short(parts[place], 12) for place in ticks], fontsize=8)
    axes.set_xticks([0, last // 2, last], [f"{step:,}" for step in (0, last // 2, last)], fontsize=8)
    axes.tick_params(length=2)
    axes.set_title(panels.short(variant.name, 30), fontsize=9, loc="left", color=INK["ink"])


def _join(boxes: list[tuple[float, float, float]], row: float, start: float, end: float) -> None:
    if boxes and boxes[-1][0] == row and boxes[-1][2] == start:
        boxes[-1] = (row, boxes[-1][1], end)
    else:
        boxes.append((row, start, end))


def _edges(steps: Sequence[int]) -> list[float]:
    if len(steps) == 1:
        return [steps[0] - 0.5, steps[0] + 0.5]
    inner = [(step + following) / 2 for step, following in pairwise(steps)]
    return [steps[0] - (inner[0] - steps[0]), *inner, steps[-1] + (steps[-1] - inner[-1])]


def table(record: PageRecord, metric: str) -> Grid:
    of: dict[tuple[str, str], str] = {}
    for course in record.layers:
        if course.metric == metric:
            values = known(course)
            of[course.variant, course.part] = significant(values[-1]) if values else "–"
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
    """Return the parts before the layers, the layers, and the parts after them, in this order; the encoder's first."""

    def place(part: str) -> tuple[int, int, str]:
        of_layers = part.removeprefix(ENCODER)
        first = of_layers.partition(" ")[0]
        layer = int(first) if first.isdecimal() else 0
        if part != of_layers or part == OF_ENCODER:
            return (1 if layer else 2), layer, part
        return (3 if layer else 0 if part in BEFORE else 4), layer, part

    return sorted(set(parts), key=place)


def known(course: LayerCurve) -> list[float]:
    return [mean for mean in course.mean if mean is not None and math.isfinite(mean)]


def _part(part: str) -> str:
    return f"layer {part}" if part[:1].isdecimal() else part


def about(record: PageRecord, metric: str) -> str:
    several = "for several parts of a layer, the largest"
    combined = "for a layer, the norm over all its parameters" if metric == "gradient_norm" else several
    some = next(course for course in record.layers if course.metric == metric)
    return f"means over seeds; {combined}.{panels.drawn_steps(some.measured, len(some.steps))}"


# Kernels of tokens within a sequence: snapshots over training for each variant, at a middle and the last place.

MOST_DRAWN = 6  # maximum number of variants whose kernels are drawn; those of the others are in the view kernels
STEPS = 3  # number of snapshots of a variant, from the first to the last

KERNEL_COLUMNS = ("variant", "place", "step", "n", "i", "j", "value")
"""The numbers behind a plot: the cells on and below the diagonal, of which those above are the mirror image."""


def left_out(record: PageRecord) -> list[str]:
    return [variant.name for variant in _with_some(record)[MOST_DRAWN:]]


def _with_some(record: PageRecord) -> list[Variant]:
    there = {kernel.variant for kernel in record.kernels}
    return [variant for variant in record.plan.variants if variant.id in there]


def kernel_plots(record: PageRecord) -> Iterator[Plot]:
    for place, variant in enumerate(_with_some(record)[:MOST_DRAWN]):
        snapshots = _chosen([kernel for kernel in record.kernels if kernel.variant == variant.id])
        yield Plot(
            name=f"kernels-{variant.name}",
            id=f"kernel-{place}",
            draw=tuple(panels.matrix(k.cells, f"{k.address}, step {k.step:,}") for k in snapshots),
            about=f"Normalised kernel matrices of {variant.name}: rows and columns are positions. "
            "The view kernels has them.",
            caption=f"{variant.name}: cosine similarity of tokens within a sequence, by position, mean over sequences "
            f"and over {snapshots[0].n} seeds; from 0 or less (light) to 1 (dark); 1 everywhere is rank collapse.",
            height=1.7,
            panels_across=len({kernel.step for kernel in snapshots}),
            legend=False,
            key_title=f"cosine similarity of tokens of {panels.short(variant.name, 24)}, by position",
            key=panels.shades(),
            columns=KERNEL_COLUMNS,
            rows=tuple(
                (variant.name, kernel.address, kernel.step, kernel.n, *cell)
                for kernel in snapshots
                for cell in kernel.cells
            ),
        )


def _chosen(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels at a middle and the last place, row by row, at up to three steps from first to last."""
    places = list(dict.fromkeys(kernel.address for kernel in kernels))
    steps = sorted({kernel.step for kernel in kernels})
    some = sorted({steps[round(k * (len(steps) - 1) / (STEPS - 1))] for k in range(STEPS)})
    by = {(kernel.address, kernel.step): kernel for kernel in kernels}
    rows = dict.fromkeys((places[len(places) // 2], places[-1]))
    return [by[place, step] for place in rows for step in some if (place, step) in by]
