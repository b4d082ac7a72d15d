"""What fresh seeds say, as one table for the terminal: the verdicts beside what the search had seen."""

from __future__ import annotations

from rich.table import Table

from ablate.output.terminal import Text
from ablate.report import wording
from ablate.report.parts import difference_heading
from ablate.report.searched.held import Kept, kept
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.rows import apart_in_words, percent
from ablate.report.tables import STYLES, add_block, new_table
from ablate.verdict.summary import Arm, Effect, Metric, Summary


def table(record: SearchRecord, summary: Summary, *, wide: bool = False) -> Table:
    """A row for each block and metric; where it is not `wide`, its numbers stand one below the other."""
    columns = new_table()
    difference = difference_heading(summary)
    columns.add_column("block", no_wrap=True)
    columns.add_column("metric", no_wrap=wide, overflow="fold")
    if wide:
        columns.add_column("search", no_wrap=True, justify="right")
        columns.add_column("mean ± sd", no_wrap=True)
        columns.add_column(difference, no_wrap=True)
        columns.add_column("left", no_wrap=True, justify="right")
    else:
        columns.add_column(f"mean ± sd\n{difference}\nsearch, left", no_wrap=True)
    columns.add_column("n", no_wrap=True, justify="right")
    columns.add_column("verdict", overflow="fold")
    effects = {(one.after, one.metric): one for one in summary.effects if one.kind == "baseline"}
    before = {(one.name, one.objective.metric): one for one in kept(record)}
    for arm in summary.arms:
        lines = [
            _row(arm, metric, effects.get((arm.variant, metric.name)), before.get((arm.name, metric.name)), wide)
            for metric in summary.metrics
        ]
        label = f"diverged {arm.diverged} of {arm.ended}" if arm.diverged else ""
        add_block(columns, arm.name, label or "reference" * (arm.name == summary.baseline), lines, room=16)
    return columns


def _row(arm: Arm, metric: Metric, effect: Effect | None, before: Kept | None, wide: bool) -> tuple[str | Text, ...]:
    level = arm.levels.get(metric.name)
    mean, difference = wording.level(level, metric), wording.difference(effect) if effect else ""
    searched = "" if before is None or before.searched is None else apart_in_words(before.searched, before.objective)
    left = "" if before is None or before.share is None else percent(before.share)
    together = ", ".join(filter(None, (searched, left)))
    numbers = (searched, mean, difference, left) if wide else ("\n".join(filter(None, (mean, difference, together))),)
    counted = wording.seeds_of(level.n if level else 0, effect)
    verdict = Text(wording.verdict(effect), style=STYLES[effect.verdict]) if effect else Text()
    return metric.name, *numbers, counted, verdict
