"""Every comparison with its interval: a panel for each metric, the margin shaded, the verdict in words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ablate.output.words import factor, plural, spoken
from ablate.report import wording
from ablate.report.comparisons import effects_once, subject
from ablate.report.effect_tables import interval_kind
from ablate.report.page.panels import plain_ticks, short
from ablate.report.plot import INK, Plot
from ablate.space.metrics import direction
from ablate.verdict.summary import BY_RANK, Effect, Metric, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = 22  # maximum number of comparisons in one plot: a longer one does not fit on a sheet of paper
ROW, EDGE = 0.38, 0.85  # height in inches of a comparison, and of what surrounds them all
LETTERS = 14.0  # letters per inch of a row
BEYOND = 8.0  # a difference larger than this many times the median does not widen the frame
LOOKS: Mapping[str, tuple[str, str, bool]] = {
    "better": ("better", "o", True),
    "worse": ("worse", "v", True),
    "higher": ("ink", "^", True),
    "lower": ("ink", "v", True),
    "better_by_rank": ("better", "D", False),
    "worse_by_rank": ("worse", "D", False),
    "higher_by_rank": ("ink", "D", False),
    "lower_by_rank": ("ink", "d", False),
    "equivalent": ("same", "s", True),
    "undecided": ("ink", "o", False),
    "diverged": ("fresh", "x", True),
    "noise": ("faint", "d", True),
}
"""For each verdict the colour, the marker, and whether that is filled."""

COLUMNS = (
    "comparison",
    "kind",
    "metric",
    "scale",
    "n",
    "estimate",
    "adjusted_low",
    "adjusted_high",
    "low",
    "high",
    "margin",
    "p",
    "p_adjusted",
    "verdict",
)
"""The numbers behind a forest plot; on the log scale all but p are logarithms."""


def plots(summary: Summary) -> Iterator[Plot]:
    """Yield the plots: one for each metric, several if there are many comparisons, none if there is no estimate."""
    every = effects_once(effect for effect in summary.effects if effect.kind != "trend")
    for place, metric in enumerate(summary.metrics):
        of = [effect for effect in every if effect.metric == metric.name]
        if all(effect.estimate is None for effect in of):
            continue
        for start in range(0, len(of), ROWS):
            part = of[start : start + ROWS]
            frame = _frame(part, metric)
            title = f"{spoken(metric.name)}, every comparison with its interval ({interval_kind(summary)})"
            yield Plot(
                name=f"forest-{metric.name}" + (f"-{start // ROWS + 1}" if len(of) > ROWS else ""),
                id=f"forest-{place}-{start // ROWS}",
                draw=(partial(_panel, effects=part, metric=metric, frame=frame, summary=summary),),
                about=f"{title}. The tables of verdicts have its numbers.",
                caption=" ".join(_caption(metric, len(of), start, part, frame, summary)),
                headline=_headline(part, metric, summary),
                height=EDGE + ROW * len(part),
                columns=COLUMNS,
                rows=tuple(_numbers(effect, summary) for effect in part),
            )


def _headline(part: Sequence[Effect], metric: Metric, summary: Summary) -> str:
    counts = {effect.n for effect in part if effect.estimate is not None} or {0}
    least, most = min(counts), max(counts)
    over = plural(least, "seed") if least == most else f"{least} to {most} seeds"
    what = "Ratios of" if metric.log else "Differences in"
    return f"{what} {spoken(metric.name)} over {over} with their intervals ({interval_kind(summary)})"


def _numbers(effect: Effect, summary: Summary) -> tuple[str | int | float | None, ...]:
    return (
        subject(effect, summary), effect.kind, effect.metric, effect.scale, effect.n, effect.estimate,
        effect.adjusted_low, effect.adjusted_high, effect.low, effect.high, effect.margin, effect.p, effect.p_adjusted,
        effect.verdict if effect.judged else None,
    )  # fmt: skip


def _caption(
    metric: Metric, count: int, start: int, part: Sequence[Effect], frame: tuple[float, float], summary: Summary
) -> Iterator[str]:
    yield f"{spoken(metric.name).capitalize()}" + (
        f", comparisons {start + 1} to {start + len(part)} of {count}." if count > ROWS else "."
    )
    if any(effect.kind == "baseline" for effect in part):
        yield f"Whole variants are against {summary.baseline}."
    if metric.margin is not None:
        yield f"Shaded: the margin of equivalence, {wording.margin(metric)}."
    if any(bound is not None and not frame[0] <= bound <= frame[1] for e in part for bound in wording.bounds(e)):
        yield "An arrow: the interval extends beyond the frame."
    if any(wording.single(effect) for effect in part):
        yield "The thin line below is the unadjusted interval of that comparison."
    if any(effect.estimate is not None and effect.low is None for effect in part):
        yield "A point without a line: one pair, so no interval."
    if any(effect.verdict in BY_RANK.values() for effect in part):
        yield "A hollow diamond: found by ranks over all seeds; its position is the difference among survivors."


def _name(effect: Effect, summary: Summary) -> str:
    against = f" against {summary.baseline}"
    return subject(effect, summary).replace(against, "", 1) if effect.kind == "baseline" else subject(effect, summary)


def _frame(effects: Sequence[Effect], metric: Metric) -> tuple[float, float]:
    """Return the ends of the axis, such that neither an outlying estimate nor a wide interval squashes the rest."""
    estimates = [e.estimate for e in effects if e.estimate is not None and math.isfinite(e.estimate)]
    margin = metric.margin or 0.0
    sizes = [abs(estimate) for estimate in estimates]
    most = max(BEYOND * statistics.median(sizes), 2 * margin) if sizes else margin
    most = most or max(sizes, default=0.0) or 1.0
    core = [0.0, -margin, margin, *(estimate for estimate in estimates if abs(estimate) <= most)]
    low, high = min(core), max(core)
    room = 1.5 * (high - low) or 1.0
    bounds = [end for e in effects for end in wording.bounds(e) if end is not None and math.isfinite(end)]
    low = max(min([low, *bounds]), low - room)
    high = min(max([high, *bounds]), high + room)
    pad = 0.06 * (high - low) or 1.0
    return low - pad, high + pad


def _panel(axes: Axes, effects: Sequence[Effect], metric: Metric, frame: tuple[float, float], summary: Summary) -> None:
    value = factor if metric.log else float
    plain_ticks(axes, "x", log=metric.log, over=factor(frame[1] - frame[0]))
    axes.set_xlim(value(frame[0]), value(frame[1]))
    axes.set_ylim(len(effects) - 0.35, -0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if metric.margin is not None:
        axes.axvspan(value(-metric.margin), value(metric.margin), color=INK["wash"], lw=0, zorder=0)
    axes.axvline(value(0.0), color=INK["faint"], lw=1, zorder=1)
    for row, effect in enumerate(effects):
        _row(axes, row, effect, frame, summary, log=metric.log)
    left, right = (direction(up, metric.better) for up in (False, True))
    axes.set_title(f"← {left}", fontsize=8.5, loc="left", color=INK["ink"])
    axes.set_title(f"{right} →", fontsize=8.5, loc="right", color=INK["ink"])
    axes.set_xlabel(f"{'ratio' if metric.log else 'difference'} in {spoken(metric.name)}")


def _row(axes: Axes, row: int, effect: Effect, frame: tuple[float, float], summary: Summary, *, log: bool) -> None:
    noise = effect.kind == "noise"
    ink, marker, filled = LOOKS["noise" if noise else effect.verdict]
    colour = INK[ink]
    verdict = wording.verdict(effect)
    figure: Any = axes.figure
    room = int(LETTERS * figure.get_figwidth()) - len(verdict)
    paper = {"facecolor": INK["paper"], "edgecolor": "none", "pad": 1.0}
    write = partial(axes.text, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5, bbox=paper)
    write(0.0, row - 0.38, short(_name(effect, summary), room), ha="left", color=INK["ink"])
    write(1.0, row - 0.38, verdict, ha="right", color=colour if ink != "faint" else INK["ink"])
    if effect.estimate is None or not math.isfinite(effect.estimate):
        write(0.0, row + 0.05, "no pair to compare", ha="left", color=INK["faint"])
        return
    value = factor if log else float
    low, high = frame
    first, last = wording.bounds(effect)
    if first is not None and last is not None:
        _line(axes, row, (first, last), frame, colour, 1.8, value)
        for beyond, end, marker_of_end in ((first < low, low, "<"), (last > high, high, ">")):
            if beyond:
                axes.plot([value(end)], [row], marker=marker_of_end, color=colour, ms=5, clip_on=False, zorder=3)
    if wording.single(effect) and effect.low is not None and effect.high is not None:
        _line(axes, row + 0.2, (effect.low, effect.high), frame, colour, 0.7, value)
    if low <= effect.estimate <= high:
        face = colour if filled else INK["paper"]
        axes.plot([value(effect.estimate)], [row], marker=marker, color=colour, mfc=face, ms=5.5, mew=1.4, zorder=4)


def _line(
    axes: Axes,
    height: float,
    ends: tuple[float, float],
    frame: tuple[float, float],
    colour: str,
    width: float,
    value: Callable[[float], float],
) -> None:
    start, end = max(ends[0], frame[0]), min(ends[1], frame[1])
    if start < end:
        shown = [value(start), value(end)]
        axes.plot(shown, [height, height], color=colour, lw=width, solid_capstyle="butt", zorder=2)
