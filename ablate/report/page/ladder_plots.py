"""Plots of a ladder: the losses of both treatments over training compute, and what the one saves at each size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ablate.output.words import percent, spoken
from ablate.report.comparisons import shown_once
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.report.plot import INK, Plot
from ablate.verdict.summary import SizeComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 64  # points of the line of a law
UNBOUNDED = "; a bar that leaves the plot has no bound there"
NUMBERS = "The table of sizes below has its numbers."
HEIGHT = 2.8  # height of a plot, in inches
ROOM = 1.1  # the factor between the farthest bound and the edge of a plot


def plots(record: PageRecord) -> Iterator[Plot]:
    for place, one in enumerate(shown_once(record.summary)):
        if one.sizes:
            yield _of_losses(one, place)
            yield _of_speed_ups(one, place, record.summary.confidence)


def _of_losses(one: SizeComparison, place: int) -> Plot:
    name = spoken(one.metric)
    return Plot(
        name=panels.slug(f"losses-{one.treatment}-{one.metric}-{one.terms}".rstrip("-")),
        id=f"ladder-losses-{place}",
        draw=(partial(_losses, one=one),),
        about=f"{name} of {_both(one)} over training compute. {NUMBERS}",
        caption=(
            f"Mean {name} of {_both(one)} over training FLOPs, both axes logarithmic. The line is the law of "
            f"{one.baseline}; hollow: the next size, which was not trained, by the laws."
        ),
        headline=f"{name.capitalize()} over training compute",
        height=HEIGHT,
        columns=("size", "trained", "baseline_compute", "compute", "baseline_loss", "loss"),
        rows=tuple(
            (size.size, int(size.trained), size.baseline_compute, size.compute, size.baseline_loss, size.loss)
            for size in one.sizes
        ),
    )


def _of_speed_ups(one: SizeComparison, place: int, confidence: float) -> Plot:
    finite = [size for size in one.sizes if math.isfinite(size.speed_up)]
    unbounded = any(not (size.low > 0 and math.isfinite(size.high)) for size in finite)
    return Plot(
        name=panels.slug(f"speed-up-{one.treatment}-{one.metric}-{one.terms}".rstrip("-")),
        id=f"ladder-speed-up-{place}",
        draw=(partial(_speed_ups, one=one),),
        about=f"Speed-up of {_both(one)} over training compute. {NUMBERS}",
        caption=(
            f"Speed-up of {_both(one)}: the factor by which {one.baseline} would need more compute to reach the same "
            f"loss, with its {percent(confidence)} interval, not adjusted; hollow: the next size"
            f"{UNBOUNDED if unbounded else ''}."
        ),
        headline=f"Speed-up of {_both(one)} over training compute",
        height=HEIGHT,
        legend=False,
        columns=("size", "trained", "compute", "speed_up", "low", "high", "extrapolated"),
        rows=tuple(
            (
                *(size.size, int(size.trained), size.compute),
                *map(panels.finite, (size.speed_up, size.low, size.high)),
                int(size.extrapolated),
            )
            for size in one.sizes
        ),
    )


def _both(one: SizeComparison) -> str:
    return f"{one.treatment} against {one.baseline}" + (f" under {one.terms}" if one.terms else "")


def _losses(axes: Axes, one: SizeComparison) -> None:
    sides = (
        (one.baseline, "line0", "o", [(size.baseline_compute, size.baseline_loss, size.trained) for size in one.sizes]),
        (one.treatment, "line1", "s", [(size.compute, size.loss, size.trained) for size in one.sizes]),
    )
    every = [compute for *_, points in sides for compute, *_ in points]
    if one.exponent is not None and one.factor is not None:
        over = np.geomspace(min(every), max(every), POINTS)
        law = (one.irreducible or 0.0) + one.factor * over**-one.exponent
        axes.plot(over, law, color=INK["line0"], lw=1.0)
    for name, colour, marker, points in sides:
        for trained in (True, False):
            some = [(x, y) for x, y, was in points if was == trained]
            axes.plot(
                [x for x, _ in some],
                [y for _, y in some],
                ls="none",
                marker=marker,
                ms=5,
                color=INK[colour],
                mfc=INK[colour] if trained else "none",
                label=panels.short(name) if trained else None,
            )
    _by_compute(axes, every)
    panels.plain_ticks(axes, "y", log=True)
    axes.set_ylabel(spoken(one.metric))


def _speed_ups(axes: Axes, one: SizeComparison) -> None:
    finite = [size for size in one.sizes if math.isfinite(size.speed_up)]
    known = [1.0, *(v for size in finite for v in (size.low, size.speed_up, size.high) if 0 < v < math.inf)]
    bottom, top = min(known) / ROOM, max(known) * ROOM
    axes.axhline(1.0, color=INK["faint"], lw=1)
    for size in finite:
        low = size.low if size.low > 0 else bottom / ROOM  # without a bound: beyond the axes
        high = size.high if math.isfinite(size.high) else top * ROOM
        axes.errorbar(
            [size.compute],
            [size.speed_up],
            yerr=[[size.speed_up - low], [high - size.speed_up]],
            marker="s",
            ms=5,
            color=INK["line1"],
            mfc=INK["line1"] if size.trained else "none",
            elinewidth=0.9,
            capsize=2,
        )
    _by_compute(axes, [size.compute for size in finite] or [1.0])
    panels.plain_ticks(axes, "y", log=True, over=top / bottom)
    axes.set_ylim(bottom, top)
    axes.set_ylabel("speed-up")


def _by_compute(axes: Axes, compute: list[float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axes.set_xlim(min(compute) / 1.5, max(compute) * 1.5)
    axes.set_xlabel("training FLOPs")
