"""The confirmation as one table: the verdicts at fresh seeds beside the search's differences."""

from __future__ import annotations

from ablate.report import wording
from ablate.report.document import Column, GroupedTable, RowGroup, Words
from ablate.report.effect_columns import columns, words
from ablate.report.searched.confirmation import Kept, kept
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.rows import apart_in_words, percent
from ablate.verdict.summary import Arm, Effect, Metric, Summary


def table(record: SearchRecord, summary: Summary) -> GroupedTable:
    """Return a row for each block and metric."""
    effects = {(effect.after, effect.metric): effect for effect in summary.effects if effect.kind == "baseline"}
    before = {(pair.name, pair.objective.metric): pair for pair in kept(record)}
    groups = []
    for arm in summary.arms:
        lines = [
            _row(arm, metric, effects.get((arm.variant, metric.name)), before.get((arm.name, metric.name)))
            for metric in summary.metrics
        ]
        diverged = f"diverged {arm.diverged} of {arm.ended}" if arm.diverged else ""
        groups.append(RowGroup(arm.name, diverged or "reference" * (arm.name == summary.baseline), tuple(lines)))
    seeds = ", ".join(map(str, record.confirm_seeds))
    return GroupedTable(
        title="Confirmed",
        note=f"at seeds {seeds} on the verdict split; the search has seen neither",
        columns=(
            Column("block", "name"),
            *columns(("metric",), summary),
            Column("search", "number", line=3),
            Column("mean ± sd", line=1),
            *columns(("difference",), summary, difference=2),
            Column("kept", "number", line=3),
            *columns(("n", "verdict"), summary),
        ),
        groups=tuple(groups),
    )


def _row(arm: Arm, metric: Metric, effect: Effect | None, before: Kept | None) -> tuple[Words, ...]:
    level = arm.levels.get(metric.name)
    searched = "" if before is None or before.searched is None else apart_in_words(before.searched, before.objective)
    left = "" if before is None or before.share is None else percent(before.share)
    difference = wording.difference(effect) if effect else ""
    counted = wording.seeds_of(level.n if level else 0, effect)
    verdict: tuple[Words, ...] = words(("verdict",), effect) if effect else ("",)
    return metric.name, searched, wording.level(level, metric), difference, left, counted, *verdict
