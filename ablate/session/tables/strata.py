"""Strata of a table, such as games or tasks: variants are compared within each, on a scale of its own.

Scores of strata differ in size by more than variants do, so those of a stratum are divided by their mean size in it,
over all variants alike; ratios (`:log`) need no scale. What is asked is one of two things, and must be said:

    --inference these   the mean over these strata: runs vary within each (`statistics/strata.py`)
    --inference alike   that of strata like these: what a variant does in one is a single number, and strata vary
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from statistics import fmean

from ablate.output.words import listed
from ablate.session.tables.question import TableQuestion
from ablate.session.tables.runs import RunEnd, TableRuns
from ablate.session.tables.steps import TableRun
from ablate.source.problems import Problems
from ablate.space.documents import Judged
from ablate.verdict.finals import Final
from ablate.verdict.seeds import Seed

THESE, ALIKE = "these", "alike"
WAYS = (
    f"--inference {THESE}: over these strata alone, whose runs vary",
    f"--inference {ALIKE}: over strata like these, each of which is one number",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedRuns:
    """Runs whose numbers are on the scale of their stratum; `strata` has that of each seed, where runs are the unit."""

    runs: TableRuns
    strata: Mapping[Seed, str]


def check_strata(question: TableQuestion, metrics: Mapping[str, Judged], problems: Problems) -> None:
    """Note strata without an inference, one without the other, and what has no meaning within strata."""
    for option, value in (("--floor", question.floor), ("--sd", question.sd)):
        if question.within is not None and value is not None:
            message = f"{option} and --within are two ways to judge"
            problems.add(message, notes=("a floor is of runs on one scale: leave out one of them",))
    for name, judged in metrics.items() if question.within is not None else ():
        if judged.scale != "log" and isinstance(judged.margin, float):
            message = f"a margin of {judged.margin:g}: numbers of {name} are divided by their mean size in each stratum"
            problems.add(message, notes=("give a share of the baseline's mean, such as 1%",))
    if question.within is None and question.inference is not None:
        problems.add("--inference is about strata", notes=("--within names their column, or leave it out",))
    elif question.within is not None and question.inference not in (THESE, ALIKE):
        problems.add(f"--within {question.within}: what is asked about its strata?", notes=WAYS)


def in_strata(runs: TableRuns, metrics: Mapping[str, Judged], question: TableQuestion, baseline: str) -> StratifiedRuns:
    """Put the numbers of runs on the scale of their stratum, and runs together where strata are the unit."""
    scaled = _scaled(runs, metrics)
    if question.inference == ALIKE:
        joined = _together(scaled, runs.strata, metrics)
        own = {run.seed: str(run.seed) for run in joined}
        notes = (*runs.notes, *_told(joined, own, metrics, question, baseline))
        return StratifiedRuns(runs=TableRuns(ends=joined, notes=notes), strata={})
    notes = (*runs.notes, *_told(scaled, runs.strata, metrics, question, baseline))
    return StratifiedRuns(runs=replace(runs, ends=scaled, notes=notes), strata=runs.strata)


def _scaled(runs: TableRuns, metrics: Mapping[str, Judged]) -> dict[TableRun, RunEnd]:
    sizes: dict[tuple[str, str], list[float]] = {}
    for run, end in runs.ends.items():
        for name, value in end.final["metrics"].items():
            sizes.setdefault((runs.strata[run.seed], name), []).append(abs(value))

    def scale(run: TableRun, name: str) -> float:
        return 1.0 if metrics[name].scale == "log" else fmean(sizes[runs.strata[run.seed], name]) or 1.0

    def of(run: TableRun, end: RunEnd) -> RunEnd:
        values = {name: value / scale(run, name) for name, value in end.final["metrics"].items()}
        final: Final = {**end.final, "metrics": values}
        return replace(end, final=final)

    return {run: of(run, end) for run, end in runs.ends.items()}


def _together(
    ends: Mapping[TableRun, RunEnd], strata: Mapping[Seed, str], metrics: Mapping[str, Judged]
) -> dict[TableRun, RunEnd]:
    """Return a run for each variant and stratum: the mean of those that finished, unless one diverged."""
    groups: dict[tuple[str, str], list[tuple[TableRun, RunEnd]]] = {}
    for run, end in ends.items():
        groups.setdefault((run.variant, strata[run.seed]), []).append((run, end))
    joined: dict[TableRun, RunEnd] = {}
    for (variant, stratum), group in groups.items():
        run = TableRun(variant=variant, seed=stratum, rows=tuple(row for run, _ in group for row in run.rows))
        lost = next((end for _, end in group if end.final["status"] == "diverged"), None)
        done = [end.final["metrics"] for _, end in group if end.final["status"] == "finished"]
        if lost is not None or not done:
            joined[run] = lost or group[0][1]
            continue
        names = dict.fromkeys(name for values in done for name in values)
        means = {name: _mean([values[name] for values in done if name in values], metrics[name]) for name in names}
        joined[run] = RunEnd(final={"status": "finished", "step": 0, "metrics": means})
    return joined


def _mean(values: Sequence[float], judged: Judged) -> float:
    """Return the mean of some runs; the geometric one where ratios are judged."""
    return math.exp(fmean(map(math.log, values))) if judged.scale == "log" else fmean(values)


def _told(
    ends: Mapping[TableRun, RunEnd],
    strata: Mapping[Seed, str],
    metrics: Mapping[str, Judged],
    question: TableQuestion,
    baseline: str,
) -> Iterator[str]:
    """Tell how numbers were scaled, and the difference of each variant in each stratum."""
    linear = [name for name, judged in metrics.items() if judged.scale != "log"]
    if linear:
        yield f"{listed(linear)} of each {question.within} divided by its mean size there, over all runs"
    values: dict[tuple[str, str], dict[Seed, float]] = {}
    for run, end in ends.items():
        for name, value in end.final["metrics"].items() if end.final["status"] == "finished" else ():
            values.setdefault((name, run.variant), {})[run.seed] = value
    for name, judged in metrics.items():
        before = values.get((name, baseline), {})
        for variant in dict.fromkeys(run.variant for run in ends if run.variant != baseline):
            after = values.get((name, variant), {})
            shared = before.keys() & after.keys() if question.in_pairs or question.inference == ALIKE else None
            shown = ", ".join(_each(before, after, shared, strata, judged))
            yield f"{variant} against {baseline}, {name} in each {question.within}: {shown}"


def _each(
    before: Mapping[Seed, float],
    after: Mapping[Seed, float],
    shared: Set[Seed] | None,
    strata: Mapping[Seed, str],
    judged: Judged,
) -> Iterator[str]:
    """Yield the difference in each stratum, over the seeds that both sides share, if runs have partners."""
    for stratum in dict.fromkeys(strata.values()):
        sides = [
            [value for seed, value in side.items() if strata[seed] == stratum and (shared is None or seed in shared)]
            for side in (before, after)
        ]
        if not all(sides):
            yield f"{stratum} not on both sides"
            continue
        x, y = (_mean(side, judged) for side in sides)
        yield f"{stratum} ×{y / x:.3g}" if judged.scale == "log" else f"{stratum} {y - x:+.3g}"
