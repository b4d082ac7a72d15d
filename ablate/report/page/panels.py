"""The shared parts of a page's plots: groups of variants and their colours, axes, names beside points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from ablate.output.words import significant
from ablate.plan.plan import Factors, Variant
from ablate.report.page.record import PageRecord
from ablate.report.plot import INK, SERIES, SHADES, Draw
from ablate.verdict.summary import Level, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)))
"""Line styles of the variants of a plot, so that they do not differ by colour alone."""
WIDTH = 4.3  # width of a plot in inches, such that its text stays legible on a phone
NAME = 40  # maximum length of a name in a plot, in characters; tables have the whole name
POWERS = 30.0  # the factor beyond which an axis has its ticks at powers of ten
DECIMALS = 9
FAR = 4.0  # the reach of a curve above the third quartile of all values, in multiples of its distance to the median


def groups(record: PageRecord, ids: Iterable[str]) -> list[tuple[Variant, ...]]:
    """Return the variants that are drawn together: the baseline, and as many others as there are colours."""
    there = set(ids)
    base = [v for v in record.plan.variants if v.id == record.plan.baseline and v.id in there]
    others = [v for v in record.plan.variants if v.id != record.plan.baseline and v.id in there]
    most = SERIES - 1
    parts = [others[start : start + most] for start in range(0, len(others), most)] or [[]]
    return [(*base, *part) for part in parts if base or part]


def levels_at(record: PageRecord, factors: Factors, metric: Metric, at: Mapping[int, int]) -> list[Level]:
    """Return the values of the runs that have the levels `at`, by the place of an edit or a factor in a run."""
    arms = [record.summary.arm(id) for id, run in factors.runs if all(run[i] == level for i, level in at.items())]
    return [arm.levels[metric.name] for arm in arms if metric.name in arm.levels]


def colour(place: int, group: Sequence[Variant], record: PageRecord) -> str:
    has_base = bool(group) and group[0].id == record.plan.baseline
    return INK[f"line{place if has_base else place + 1}"]


def short(name: str, most: int = NAME) -> str:
    """Return a name that fits a plot.

    >>> short("residual.gain=1/sqrt(2*depth)", 12)
    'residual.ga…'
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def slug(text: str) -> str:
    """Return a text that can be the name of a file.

    >>> slug("levels-model.layers")
    'levels-model-layers'
    """
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in text)


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def plain_ticks(axes: Axes, which: Literal["x", "y"], *, log: bool, over: float = 1.0) -> None:
    """Set a few ticks with plain numbers; on the log scale at powers if the axis spans a large factor (`over`)."""
    from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullLocator

    if log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    if log:
        axis.set_minor_locator(NullLocator())
    many: Locator = LogLocator(numticks=5) if log and over > POWERS else MaxNLocator(nbins=5)
    axis.set_major_locator(many)
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value, axis.get_majorticklocs().tolist())))


def tick(value: float, ticks: Sequence[float]) -> str:
    """Return the label of one of these ticks, with as many decimals as all of them need; each alone for powers.

    >>> [tick(one, (5.45, 5.4525, 5.455)) for one in (5.45, 5.4525)]
    ['5.4500', '5.4525']
    """
    places = sorted({float(place) for place in ticks if math.isfinite(place)})
    gaps = [following - place for place, following in pairwise(places)]
    if not gaps or max(gaps) > 5 * min(gaps) or max(abs(places[0]), abs(places[-1])) >= 1e6:
        return f"{value:.4g}"
    for decimals in range(DECIMALS):
        if all(abs(round(place, decimals) - place) < min(gaps) / 100 for place in places):
            return f"{value:z.{decimals}f}"
    return f"{value:.4g}"


def by_steps(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("step")


def framed(values: Sequence[float], *, log: bool, must: Sequence[float] = ()) -> tuple[float, float, bool]:
    """The ends of an axis of curves, and whether it cuts some off, so that outliers do not squash the rest.

    Values that `must` be seen, such as the starts of curves, are within.
    """
    known = np.asarray([value for value in values if math.isfinite(value) and (value > 0 or not log)], dtype=float)
    if not known.size:
        return (1.0, 10.0, False) if log else (0.0, 1.0, False)
    scaled = np.log(known) if log else known
    low, high = float(scaled.min()), float(scaled.max())
    middle, most = (float(quantile) for quantile in np.quantile(scaled, (0.5, 0.75)))
    top = most + FAR * max(most - middle, (most - low) / 2)
    seen = [value for value in must if math.isfinite(value) and (value > 0 or not log)]
    top = max([top, *(math.log(value) if log else value for value in seen)])
    cut = high > top > low
    high = top if cut else high
    pad = 0.05 * (high - low) or 0.05 * (abs(high) or 1.0)
    low, high = low - pad, high + pad
    return (math.exp(low), math.exp(high), cut) if log else (low, high, cut)


def named_points(axes: Axes, points: Sequence[tuple[str, float, float]], size: float = 8) -> int:
    """Put names beside points without covering another name or point; return how many had to be left out."""
    at = [tuple(float(c) * 72 / axes.figure.dpi for c in axes.transData.transform((x, y))) for _, x, y in points]
    box = axes.get_window_extent()
    left, right = (end * 72 / axes.figure.dpi for end in (box.x0, box.x1))
    taken = [(x - 3, x + 3, y - 3, y + 3) for x, y in at]
    missing = 0
    for (name, x, y), (here, high) in zip(points, at, strict=True):
        text = short(name, 28)
        width, tall = 0.58 * size * len(text), 1.1 * size
        for across, up in ((5, 4), (-5, 4), (5, -4), (-5, -4)):
            start = here + across if across > 0 else here + across - width
            base = high + up if up > 0 else high + up - tall
            area = (start, start + width, base, base + tall)
            if start < left or area[1] > right + 30 or any(_meet(area, other) for other in taken):
                continue
            taken.append(area)
            axes.annotate(
                text, (x, y), (across, up), textcoords="offset points", fontsize=size, color=INK["ink"],
                ha="left" if across > 0 else "right", va="bottom" if up > 0 else "top",
            )  # fmt: skip
            break
        else:
            missing += 1
    return missing


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def add_boxes(axes: Axes, shade: int, boxes: Sequence[tuple[float, float, float]]) -> None:
    """Draw boxes of one shade, each by its row, start and end."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corners = [c for row, x, to in boxes for c in ((x, row), (to, row), (to, row + 1), (x, row + 1), (x, row))]
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY] * len(boxes)
    axes.add_patch(PathPatch(Path(corners, codes), fc=INK[f"shade{shade}"], lw=0, antialiased=False))


def matrix(cells: Iterable[tuple[int, int, float]], title: str) -> Draw:
    """Return the panel of a symmetric matrix from its cells on one side of the diagonal, in shades from 0 to 1."""
    there = tuple(cells)

    def draw(axes: Axes) -> None:
        boxes: dict[int, set[tuple[int, int]]] = {}
        size = 1 + max(max(i, j) for i, j, _ in there)
        for i, j, value in there:
            if math.isfinite(value):
                shade = min(SHADES - 1, max(0, math.floor(value * SHADES)))
                boxes.setdefault(shade, set()).update({(i, j), (j, i)})
        for shade, places in sorted(boxes.items()):
            add_boxes(axes, shade, [(y, x, x + 1) for y, x in sorted(places)])
        axes.set_xlim(0, size)
        axes.set_ylim(size, 0)
        axes.set_aspect("equal")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(title, fontsize=8, loc="left", color=INK["ink"])

    return draw


def shades() -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"shade{shade}", f"from {shade / SHADES:g}" if shade else f"below {1 / SHADES:g}") for shade in range(SHADES)
    )


def drawn_steps(measured: int, shown: int) -> str:
    return f" Drawn at {shown} of {measured:,} measured steps." if shown < measured else ""


def apart(values: Sequence[float]) -> list[str]:
    """Return increasing numbers with three significant digits, or more where two would look the same.

    >>> apart([1.121, 1.124, 1.3])
    ['1.121', '1.124', '1.300']
    """
    shown = [significant(value) for value in values]
    for digits in range(4, DECIMALS):
        if len(set(shown)) == len(set(values)):
            break
        shown = [f"{value:#.{digits}g}" for value in values]
    return shown
