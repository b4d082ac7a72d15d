"""Trained gains over training: a panel for each variant that has any, a line for each gain, shaded by layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ablate.output.words import significant, spoken
from ablate.plan.plan import Variant
from ablate.report.document import Grid
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.report.plot import INK, SHADES, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ablate.store.pages import MetricCurve

FIRST = 6  # number of plots shown at first; the others are folded
ABOUT = {
    "gain": "",
    "gain_mean": ", mean over channels or heads",
    "gain_ratio": ", gain over skip",
    "gain_sd": ", standard deviation over channels or heads",
    "gain_rms": ", root mean square",
}
IN_TABLE = ("gain_sd", "gain_rms")
"""Metrics without a plot of their own: the standard deviation is the band around the mean."""


def courses_of(record: PageRecord) -> list[tuple[Variant, str, list[MetricCurve]]]:
    courses: dict[tuple[str, str], list[MetricCurve]] = {}
    for course in record.gains:
        courses.setdefault((course.variant, course.metric), []).append(course)
    return [
        (variant, metric, courses[variant.id, metric])
        for variant in record.plan.variants
        for metric in ABOUT
        if (variant.id, metric) in courses
    ]


COLUMNS = ("variant", "gain", "metric", "step", "n", "mean", "sd")
"""The numbers behind a plot of gains; the sd is over seeds."""


def plots(record: PageRecord) -> Iterator[tuple[Plot, Variant]]:
    """Yield the plots with their variant; deviations are bands around means, root mean squares only in the table."""
    for place, (variant, metric, courses) in enumerate(courses_of(record)):
        if metric in IN_TABLE:
            continue
        deviations = (course for course in record.gains if (course.variant, course.metric) == (variant.id, "gain_sd"))
        spread = {course.of: course for course in deviations} if metric == "gain_mean" else {}
        thinned = [course for course in courses if len(course.steps) < course.measured]
        steps = panels.drawn_steps(thinned[0].measured, len(thinned[0].steps)) if thinned else ""
        about = f"{variant.name}{ABOUT[metric]}: means over seeds; faint lines are early layers, strong ones late."
        about += " Bands: ± one standard deviation over channels or heads." if spread else ""
        plot = Plot(
            name=f"{metric.replace('gain', 'gains', 1)}-{variant.name}",
            id=f"gains-{place}",
            draw=(partial(_panel, metric=metric, courses=courses, spread=spread),),
            about=f"Trained gains of {variant.name} over training. The table below has first and last values.",
            caption=about + steps,
            headline=f"Trained gains of {variant.name} over training",
            height=2.6,
            columns=COLUMNS,
            rows=tuple(
                (variant.name, course.of, course.metric, *numbers)
                for course in (*courses, *spread.values())
                for numbers in zip(course.steps, course.n, course.mean, course.sd, strict=True)
            ),
        )
        yield plot, variant


def _panel(axes: Axes, metric: str, courses: Sequence[MetricCurve], spread: Mapping[str, MetricCurve]) -> None:
    kinds = list(dict.fromkeys(_kind(course.of) for course in courses))
    layers = [_layer(course.of) for course in courses]
    most = max([layer for layer in layers if layer is not None], default=1)
    labelled: set[str] = set()
    for course, layer in zip(courses, layers, strict=True):
        shade = SHADES - 1 if layer is None else 2 + round((SHADES - 3) * (layer - 1) / max(1, most - 1))
        kind = _kind(course.of)
        label = panels.short(kind, 30) if kind not in labelled and len(kinds) > 1 else "_nolegend_"
        labelled.add(kind)
        line = [math.nan if mean is None or not math.isfinite(mean) else mean for mean in course.mean]
        style = panels.STYLES[kinds.index(kind) % len(panels.STYLES)]
        if course.of in spread and spread[course.of].steps == course.steps:
            sd = [math.nan if mean is None else mean for mean in spread[course.of].mean]
            low, high = ([m + sign * s for m, s in zip(line, sd, strict=True)] for sign in (-1, 1))
            axes.fill_between(course.steps, low, high, color=INK[f"shade{shade}"], alpha=0.15, lw=0)
        axes.plot(course.steps, line, ls=style, color=INK[f"shade{shade}"], lw=1.3, label=label)
    panels.plain_ticks(axes, "y", log=False)
    panels.by_steps(axes)
    axes.set_ylabel("gain" if metric == "gain" else spoken(metric))


def _layer(address: str) -> int | None:
    first, _, rest = address.partition(".")
    number = rest.split(".")[0]
    return int(number) if first == "layers" and number.isdecimal() else None


def _kind(address: str) -> str:
    return address.split(".", 2)[-1] if _layer(address) is not None else address


def table(record: PageRecord) -> Grid:
    rows = []
    for variant, metric, courses in courses_of(record):
        for course in sorted(courses, key=lambda course: (_kind(course.of), _layer(course.of) or 0)):
            known = [mean for mean in course.mean if mean is not None and math.isfinite(mean)]
            ends = (significant(known[0]), significant(known[-1])) if known else ("–", "–")
            sd = course.sd[-1]
            spread = "–" if sd is None or not math.isfinite(sd) else f"{sd:.2g}"
            rows.append((variant.name, f"{course.of}{ABOUT[metric]}", *ends, spread, str(course.n[-1])))
    return Grid(
        title="Trained gains",
        note="at the first and the last measured step, means over seeds",
        heading=("variant", "gain", "first", "last", "sd", "n"),
        rows=tuple(rows),
        numbers=(2, 3, 4, 5),
    )
