"""Losses and probes over training: the mean over seeds of each variant, and a band of one standard deviation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from ablate.output.words import significant, spoken
from ablate.plan.plan import Variant
from ablate.report.document import Grid
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.report.plot import Draw, Plot
from ablate.space.metrics import BITS, NATS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ablate.store.pages import MetricCurve

Form: TypeAlias = Literal["largest", "mean"]
"""The combination of the values of a metric that is measured at several parts of the model."""
LOSSES = (NATS, BITS, "train_loss")
PEAKS = {"token_correlation_rms": "token_correlation"}
"""Metrics whose largest value is judged under another name than `peak_…`."""
SPAN = 1000.0  # the ratio of the largest to the smallest value of a curve beyond which it is drawn on the log scale
TALL, LOW = 2.7, 2.1  # height of a panel in inches: alone, and as one of two


def names(record: PageRecord) -> tuple[str, ...]:
    there = dict.fromkeys(course.metric for course in record.curves)
    if BITS not in {metric.name for metric in record.summary.metrics}:
        there.pop(BITS, None)  # the curve of the loss again, in another unit
    return (*(metric for metric in LOSSES if metric in there), *(metric for metric in there if metric not in LOSSES))


COLUMNS = ("variant", "metric", "step", "n", "mean", "sd", "log_mean", "log_sd")
"""The numbers behind a plot of curves; logarithms are natural, and missing for values that are not above zero."""


def plots(record: PageRecord, metric: str) -> list[tuple[Plot, tuple[Variant, ...]]]:
    shown_forms = forms(record, metric)
    return [
        plot
        for form in shown_forms
        for plot in _of_form(record, metric, form, f"-{form}" if form != shown_forms[0] else "")
    ]


def _of_form(record: PageRecord, metric: str, form: Form, suffix: str) -> Iterator[tuple[Plot, tuple[Variant, ...]]]:
    of = chosen(record, metric, form)
    for place, group in enumerate(panels.groups(record, of)):
        drawn_here = [of[variant.id] for variant in group]
        whole = _draw(record, group, drawn_here, 0)
        draw: list[Draw] = [whole]
        last = max(course.steps[-1] for course in drawn_here)
        if metric in (NATS, BITS) and sum(step >= last / 2 for step in drawn_here[0].steps) > 2:
            draw.append(_draw(record, group, drawn_here, last / 2))
        plot = Plot(
            name=f"training-{metric}{suffix}" + (f"-{place + 1}" if place else ""),
            id=f"curve-{metric.replace('_', '-')}{suffix}-{place}",
            draw=tuple(draw),
            about=f"{spoken(metric)} over training: mean and standard deviation over seeds of each variant. "
            f"The table below has its last values; the view curves has all.",
            caption=" ".join(_caption(record, metric, group, drawn_here, two=len(draw) > 1)),
            height=TALL if len(draw) == 1 else LOW,
            columns=COLUMNS,
            rows=tuple(
                row for variant, course in zip(group, drawn_here, strict=True) for row in _numbers(variant, course)
            ),
        )
        yield plot, group


def _numbers(variant: Variant, course: MetricCurve) -> Iterator[tuple[str | int | float | None, ...]]:
    columns = (course.steps, course.n, course.mean, course.sd, course.log_mean, course.log_sd)
    yield from ((variant.name, course.metric, *numbers) for numbers in zip(*columns, strict=True))


def forms(record: PageRecord, metric: str) -> tuple[Form, ...]:
    """Forms in which a metric is drawn: of several parts those judged, else the mean; of the whole model only one."""
    judged = {m.name for m in record.summary.metrics}
    peak = bool({f"peak_{metric}", PEAKS.get(metric, "")} & judged)
    by_part = any(course.metric == metric and course.of == "largest" for course in record.curves)
    if peak and metric in judged and by_part:
        return ("largest", "mean")
    return ("largest",) if peak else ("mean",)


def chosen(record: PageRecord, metric: str, form: Form | None = None) -> dict[str, MetricCurve]:
    """Return the curve of each variant: the model's, or that over its parts in a form (None: the first of `forms`)."""
    kinds = ("whole", form or forms(record, metric)[0])
    return {course.variant: course for course in record.curves if course.metric == metric and course.of in kinds}


def is_log(record: PageRecord, metric: str) -> bool:
    """Return whether its judged form is logarithmic, or it is positive and spans more than `SPAN`."""
    if {metric, f"peak_{metric}", PEAKS.get(metric, "")} & record.log_metrics:
        return True
    logs = [log for course in chosen(record, metric).values() for log in course.log_mean]
    known = [log for log in logs if log is not None and math.isfinite(log)]
    return len(known) == len(logs) > 0 and max(known) - min(known) > math.log(SPAN)


def _caption(
    record: PageRecord, metric: str, group: Sequence[Variant], courses: Sequence[MetricCurve], *, two: bool
) -> Iterator[str]:
    what = {"largest": ", the largest over the parts measured", "mean": ", the mean over the parts measured"}
    log = is_log(record, metric)
    mean = "geometric mean over seeds, band: ×÷ one geometric" if log else "mean over seeds, band: ± one"
    yield f"{spoken(metric).capitalize()} over training{what.get(courses[0].of, '')}: {mean} standard deviation."
    if two:
        yield "Below: its second half."
    counts = [course.n[0] for course in courses]
    if min(counts) == max(counts):
        yield f"n = {counts[0]} each."
    else:
        yield "n: " + ", ".join(f"{variant.name} {n}" for variant, n in zip(group, counts, strict=True)) + "."
    if any(_ends(record, variant.id) for variant in group):
        yield "×: a seed diverged there; dotted: the mean of the remaining seeds."
    values = [value for course in courses for value in _values(course, log=log, start=0)]
    if panels.framed(values, log=log, must=[_line(course, log=log)[0] for course in courses])[2]:
        yield "Cut off at the top: a curve, or its band, leaves the frame."
    thinned = [course for course in courses if len(course.steps) < course.measured]
    if thinned:
        yield panels.drawn_steps(thinned[0].measured, len(thinned[0].steps)).strip()


def _draw(record: PageRecord, group: Sequence[Variant], courses: Sequence[MetricCurve], start: float) -> Draw:
    def draw(axes: Axes) -> None:
        metric = courses[0].metric
        log = is_log(record, metric)
        inside: list[float] = []
        for place, (variant, course) in enumerate(zip(group, courses, strict=True)):
            line = np.asarray(_line(course, log=log))
            low, high = _band(course, log=log)
            colour = panels.colour(place, group, record)
            style, label = panels.STYLES[place % len(panels.STYLES)], panels.short(variant.name)
            steps = np.asarray(course.steps, dtype=float)
            fewer = np.asarray(course.n) < course.n[0]
            axes.plot(steps, np.where(fewer, np.nan, line), ls=style, color=colour, lw=1.5, label=label)
            axes.plot(steps, np.where(fewer, line, np.nan), ls=":", color=colour, lw=1.2)
            axes.fill_between(steps, low, high, color=colour, alpha=0.13, lw=0)
            _mark_ends(axes, _ends(record, variant.id), steps, line, colour)
            inside += _values(course, log=log, start=start)
        must = [_line(course, log=log)[0] for course in courses] if start == 0 else []
        bottom, top, _ = panels.framed(inside, log=log, must=must)
        panels.plain_ticks(axes, "y", log=log, over=top / bottom if bottom > 0 else 1.0)
        panels.by_steps(axes)
        axes.set_ylim(bottom, top)
        last = max(course.steps[-1] for course in courses)
        axes.set_xlim(start - 0.02 * last, 1.02 * last or 1.0)
        axes.set_ylabel(spoken(metric) + (", log scale" if log else ""))

    return draw


def _mark_ends(axes: Axes, ends: Mapping[int, int], steps: np.ndarray, line: np.ndarray, colour: str) -> None:
    """Mark with a cross where seeds diverged: on the line, at the last step before that with a value."""
    for step in ends:
        known = [place for place, at in enumerate(steps) if at <= step and math.isfinite(line[place])]
        if known:
            axes.plot([steps[known[-1]]], [line[known[-1]]], "x", color=colour, ms=7, mew=1.8, zorder=5)


def _ends(record: PageRecord, variant: str) -> dict[int, int]:
    """Return the number of seeds of a variant that diverged, by step."""
    ids = {trial.id for trial in record.plan.trials if trial.variant == variant and trial.split == "verdict"}
    counts: dict[int, int] = {}
    for ending in record.endings:
        if ending.trial_id in ids and ending.status == "diverged" and ending.step is not None:
            counts[ending.step] = counts.get(ending.step, 0) + 1
    return counts


def _line(course: MetricCurve, *, log: bool) -> list[float]:
    if log:
        return [math.nan if mean is None or mean > 700 else math.exp(mean) for mean in course.log_mean]
    return [math.nan if mean is None or not math.isfinite(mean) else mean for mean in course.mean]


def _band(course: MetricCurve, *, log: bool) -> tuple[np.ndarray, np.ndarray]:
    middle = np.asarray([math.nan if mean is None else mean for mean in (course.log_mean if log else course.mean)])
    sd = np.asarray([math.nan if spread is None else spread for spread in (course.log_sd if log else course.sd)])
    low, high = middle - sd, middle + sd
    return (np.exp(np.minimum(low, 700)), np.exp(np.minimum(high, 700))) if log else (low, high)


def _values(course: MetricCurve, *, log: bool, start: float) -> list[float]:
    keep = np.asarray(course.steps) >= start
    low, high = _band(course, log=log)
    return [float(value) for part in (np.asarray(_line(course, log=log)), low, high) for value in part[keep]]


def table(record: PageRecord, metric: str) -> Grid:
    log, shown_forms = is_log(record, metric), forms(record, metric)
    rows = []
    for variant, form in product(record.plan.variants, shown_forms):
        course = chosen(record, metric, form).get(variant.id)
        if course is not None:
            named = f"{variant.name}, {form}" if len(shown_forms) > 1 else variant.name
            line = _line(course, log=log)
            sd = (course.log_sd if log else course.sd)[-1]
            spread = "–" if sd is None or not math.isfinite(sd) else f"{math.exp(min(sd, 700)) if log else sd:.3g}"
            ends = sum(_ends(record, variant.id).values())
            rows.append(
                (
                    named, _cell(line[0]), _cell(line[-1]), spread, str(course.n[-1]),
                    f"{course.steps[-1]:,}", str(ends),
                )
            )  # fmt: skip
    heading = ("variant", "first", "last", "sd (factor)" if log else "sd", "n", "at step", "diverged")
    return Grid(
        title=spoken(metric).capitalize(),
        note=f"{spoken(metric)} at the first and the last measured step",
        heading=heading,
        rows=tuple(rows),
        numbers=(1, 2, 3, 4, 5, 6),
    )


def _cell(value: float) -> str:
    return significant(value) if math.isfinite(value) else "–"
