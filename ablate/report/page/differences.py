"""Paired differences from the baseline over training, which curves that overlap do not show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ablate.output.words import factor, spoken
from ablate.plan.plan import Variant
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.report.plot import INK, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ablate.store.pages import DifferenceCurve

TALL = 2.7  # height of a panel, in inches
CONFIDENCE = 0.95  # confidence of the band, at each step separately
BEYOND = 6.0  # reach of a drawn band, in multiples of the largest mean difference of the second half of training

COLUMNS = ("variant", "metric", "step", "n", "difference", "sd", "low", "high")
"""The numbers behind a plot; where differences are ratios, all but step and n are logarithms."""


def plots(record: PageRecord) -> Iterator[Plot]:
    kinds = dict.fromkeys((course.metric, course.over) for course in record.differences)
    forms = Counter(metric for metric, _ in kinds)
    for metric, over in kinds:
        of = {course.variant: course for course in record.differences if (course.metric, course.over) == (metric, over)}
        suffix = f"-{over}" if forms[metric] > 1 else ""
        groups = panels.groups(record, [record.plan.baseline, *of])
        for place, group in enumerate(groups):
            compared = [variant for variant in group if variant.id in of]
            if not compared:
                continue
            courses = [of[variant.id] for variant in compared]
            yield Plot(
                name=f"differences-{metric}{suffix}" + (f"-{place + 1}" if len(groups) > 1 else ""),
                id=f"difference-{metric.replace('_', '-')}{suffix}-{place}",
                draw=(partial(_panel, record=record, group=group, shown=compared, courses=courses),),
                about=f"{spoken(metric)}, paired differences from the baseline over training. "
                "The tables of verdicts have those at the end.",
                caption=" ".join(_caption(record, metric, courses, two=bool(suffix))),
                height=TALL,
                columns=COLUMNS,
                rows=tuple(
                    row for variant, course in zip(compared, courses, strict=True) for row in _numbers(variant, course)
                ),
            )


def _numbers(variant: Variant, course: DifferenceCurve) -> Iterator[tuple[str | int | float | None, ...]]:
    low, high = band(course)
    each = zip(course.steps, course.n, course.mean, course.sd, low.tolist(), high.tolist(), strict=True)
    for step, n, mean, sd, start, end in each:
        yield (
            variant.name, course.metric, step, n, mean, sd,
            start if math.isfinite(start) else None, end if math.isfinite(end) else None,
        )  # fmt: skip


def _caption(record: PageRecord, metric: str, courses: Sequence[DifferenceCurve], *, two: bool) -> Iterator[str]:
    against = f"against {record.summary.baseline}, paired by seed"
    what = "ratio (geometric mean)" if courses[0].log else "difference"
    form = f", the {courses[0].over} over the parts measured" if two else ""
    yield f"{spoken(metric).capitalize()}{form}: {what} {against}."
    counts = sorted({n for course in courses for n in course.n})
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    band = f"Band: {100 * CONFIDENCE:.0f} % interval at each step separately, by t over n = {n} seeds"
    yield f"{band}; the verdict is on the end of training." if counts[-1] > 1 else "n = 1: no band."
    thinned = [course for course in courses if len(course.steps) < course.measured]
    if thinned:
        yield panels.drawn_steps(thinned[0].measured, len(thinned[0].steps)).strip()


def band(course: DifferenceCurve) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds at each step: mean ± t(n-1)·sd/√n; nan where n is 1."""
    from scipy.special import stdtrit

    n = np.asarray(course.n, dtype=float)
    sd = np.asarray([math.nan if spread is None else spread for spread in course.sd])
    with np.errstate(invalid="ignore"):
        half = stdtrit(np.maximum(n - 1, 1), 0.5 + CONFIDENCE / 2) * sd / np.sqrt(n)
    mean = np.asarray(course.mean)
    return mean - half, mean + half


def _factors(logs: np.ndarray) -> np.ndarray:
    """Return exp(logs): infinite where that overflows, nan where there is no number."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logs))


def _panel(
    axes: Axes,
    record: PageRecord,
    group: Sequence[Variant],
    shown: Sequence[Variant],
    courses: Sequence[DifferenceCurve],
) -> None:
    log = courses[0].log
    reach = 0.0
    for variant, course in zip(shown, courses, strict=True):
        place = list(group).index(variant)
        colour = panels.colour(place, group, record)
        low, high = band(course)
        steps = np.asarray(course.steps, dtype=float)
        value = _factors if log else np.asarray
        axes.plot(
            steps,
            value(np.asarray(course.mean)),
            ls=panels.STYLES[place % len(panels.STYLES)],
            color=colour,
            lw=1.5,
            label=panels.short(variant.name),
        )
        axes.fill_between(steps, value(low), value(high), color=colour, alpha=0.13, lw=0)
        late = [abs(mean) for step, mean in zip(course.steps, course.mean, strict=True) if step >= steps[-1] / 2]
        widths = np.abs(np.concatenate([low, high])[np.isfinite(np.concatenate([low, high]))])
        most = max(late, default=0.0)
        reach = max(
            reach, min(float(widths.max(initial=most)), BEYOND * most) if most else float(widths.max(initial=0))
        )
    axes.axhline(1.0 if log else 0.0, color=INK["faint"], lw=1, zorder=0)
    reach = 1.08 * reach or 1.0
    ends = (factor(-reach), factor(reach)) if log else (-reach, reach)
    panels.plain_ticks(axes, "y", log=log, over=ends[1] / ends[0] if log else 1.0)
    axes.set_ylim(*ends)
    panels.by_steps(axes)
    axes.set_ylabel(f"{spoken(courses[0].metric)}, {'ratio' if log else 'difference'}")
