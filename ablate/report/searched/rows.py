"""The tables of a search's results: the same for the terminal, Markdown and the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ablate.output import words
from ablate.report import effect_tables, wording
from ablate.report.document import Candidate, Column, FrontTable, Grid, GroupedTable, RowGroup, Words
from ablate.report.searched.analysis import SearchAnalysis, difference, edit_counts
from ablate.report.searched.answer import OUTCOMES
from ablate.report.searched.confirmation import ConfirmedDifference, confirmed_differences
from ablate.report.searched.record import Entry, SearchObjective, SearchRecord
from ablate.verdict.summary import Arm, Effect, Metric, Summary

BEST = 10  # number of blocks shown if there is one objective, and so no front


def shown_blocks(record: SearchRecord, analysis: SearchAnalysis) -> list[Entry]:
    """Return the reference, then the front without it; with one objective the `BEST` best blocks."""
    places: Iterable[int] = analysis.front
    if len(record.objectives) == 1:
        places = sorted((p for p in analysis.compared if p > 0), key=lambda p: (analysis.losses[p], p))[:BEST]
    return [*record.entries[:1], *(record.entries[place] for place in places if place > 0)]


def described(record: SearchRecord, analysis: SearchAnalysis) -> list[Entry]:
    """Return the blocks whose edits are listed: those chosen for confirmation, then the others of `shown_blocks`."""
    chosen = [record.entry(name) for name in record.chosen]
    return [*chosen, *(entry for entry in shown_blocks(record, analysis)[1:] if entry.name not in record.chosen)]


def front(
    record: SearchRecord, analysis: SearchAnalysis, blocks: Sequence[Entry] | None = None, remarks: tuple[str, ...] = ()
) -> FrontTable:
    """Return a row for each of the `blocks`, by default `shown_blocks`: values, differences to the reference, size."""
    among = words.plural(len(analysis.compared), "block")
    title, note = "Pareto front", f"{len(analysis.front)} of {among} that finished, dominated by none"
    if len(record.objectives) == 1:
        title, note = "Best", f"by {record.objectives[0].metric}, of {among} that finished"
    return FrontTable(
        title=title,
        note=note,
        reference=record.reference,
        objectives=tuple(objective.metric for objective in record.objectives),
        sizes=SIZE,
        candidates=tuple(
            Candidate(
                entry.name, "" if entry.number else standing(analysis), tuple(cells(entry, record)), size(entry, record)
            )
            for entry in (shown_blocks(record, analysis) if blocks is None else blocks)
        ),
        remarks=remarks,
    )


SIZE = ("parameters", "FLOPs")


def standing(analysis: SearchAnalysis) -> str:
    if len(analysis.better_in) == 1 or analysis.reference is None:
        return "reference"
    return f"reference, {'on the front' if 0 in analysis.front else 'dominated'}"


def cells(entry: Entry, record: SearchRecord) -> list[tuple[str, str]]:
    pairs = []
    for place, objective in enumerate(record.objectives):
        value = number(entry.values[place]) if place < len(entry.values) else "no value"
        apart = difference(entry, record.entries[0], place, objective)
        pairs.append((value, "" if apart is None or entry.number == 0 else apart_in_words(apart, objective)))
    return pairs


def size(entry: Entry, record: SearchRecord) -> tuple[str, str]:
    """Return parameters and FLOPs: of the reference as they are, of others relative to those."""
    base = record.entries[0]
    if entry.number == 0:
        return f"{entry.parameters:,}", f"{entry.flops / 1e6:,.1f} M"
    return wording.change(base.parameters, entry.parameters), wording.change(base.flops, entry.flops)


def number(value: float) -> str:
    """Four significant digits: without an interval it is unknown how many are meaningful."""
    return f"{value:.0f}" if 10_000 <= abs(value) < 1e6 else f"{value:#.4g}".rstrip(".") if value else "0"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def apart_in_words(apart: float, objective: SearchObjective) -> str:
    if objective.log:
        return f"×{words.significant(words.factor(apart))}"
    return ("+" if apart >= 0 else "-") + (words.significant(abs(apart)) if apart else "0")


def remaining_table(record: SearchRecord) -> Grid:
    rows = []
    for pair in confirmed_differences(record):
        searched = "" if pair.searched is None else apart_in_words(pair.searched, pair.objective)
        confirmed = "no pair" if pair.effect.estimate is None else apart_in_words(pair.effect.estimate, pair.objective)
        share = "" if pair.share is None else percent(pair.share)
        mean = "no value" if pair.mean is None else number(pair.mean)
        rows.append((pair.name, pair.objective.metric, number(pair.value), mean, searched, confirmed, share))
    n = words.plural(len(record.confirm_seeds), "fresh seed")
    return Grid(
        title="What remained",
        note=f"of the search's numbers at {n}",
        heading=("block", "objective", "search", "fresh", "search difference", "fresh difference", "kept"),
        rows=tuple(rows),
        numbers=(2, 3, 4, 5, 6),
        remarks=(
            "search: its value in the search, on the tuning split; fresh: mean over the fresh seeds, on the verdict "
            f"split; difference: from {record.reference} at the same seeds; kept: the fresh difference as a share "
            "of the search's, where that was an advantage",
        ),
    )


def confirmation_table(record: SearchRecord, summary: Summary) -> GroupedTable:
    effects = {(effect.after, effect.metric): effect for effect in summary.effects if effect.kind == "baseline"}
    before = {(pair.name, pair.objective.metric): pair for pair in confirmed_differences(record)}
    groups = []
    for arm in summary.arms:
        lines = [
            _confirmed_row(arm, metric, effects.get((arm.variant, metric.name)), before.get((arm.name, metric.name)))
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
            *effect_tables.columns(("metric",), summary),
            Column("search", "number", line=3),
            Column("mean ± sd", line=1),
            *effect_tables.columns(("difference",), summary, difference=2),
            Column("kept", "number", line=3),
            *effect_tables.columns(("n", "verdict"), summary),
        ),
        groups=tuple(groups),
    )


def _confirmed_row(
    arm: Arm, metric: Metric, effect: Effect | None, before: ConfirmedDifference | None
) -> tuple[Words, ...]:
    level = arm.levels.get(metric.name)
    searched = "" if before is None or before.searched is None else apart_in_words(before.searched, before.objective)
    left = "" if before is None or before.share is None else percent(before.share)
    difference = wording.difference(effect) if effect else ""
    counted = wording.seeds_of(level.n if level else 0, effect)
    verdict: tuple[Words, ...] = effect_tables.words(("verdict",), effect) if effect else ("",)
    return metric.name, searched, wording.level(level, metric), difference, left, counted, *verdict


def edits(record: SearchRecord, analysis: SearchAnalysis) -> Grid | None:
    shown = shown_blocks(record, analysis)[1:]
    counts = [count for count in edit_counts(record, shown) if count.shown]
    if not counts:
        return None
    rows = [
        (count.edit, _of(count.shown, len(shown)), _of(count.trained, len(record.trained)), str(count.diverged))
        for count in counts
    ]
    single = len(record.objectives) == 1
    return Grid(
        title="Edits of the best" if single else "Edits on the front",
        note=f"from {record.reference}; blocks that have them",
        heading=("edit", "best" if single else "on the front", "trained", "diverged"),
        rows=tuple(rows),
        numbers=(1, 2, 3),
        caveats=(
            "a description, not a finding: the sampler chose what was trained, and edits occur together; see below for "
            "how to ask which edit matters",
        ),
    )


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def everything(record: SearchRecord, analysis: SearchAnalysis) -> Grid:
    heading = ["no.", "block", "outcome", *(objective.metric for objective in record.objectives)]
    on_front, strangers = {record.entries[place].number for place in analysis.front}, record.strangers
    rows = []
    for entry in record.entries:
        outcome = OUTCOMES.get(entry.outcome, entry.outcome)
        outcome += "" if entry.until is None else f" (values at step {entry.until})"
        values = [number(value) if math.isfinite(value) else str(value) for value in entry.values]
        values += ["no value"] * (len(record.objectives) - len(values))
        marks = ["reference"] if entry.number == 0 else ["front"] if entry.number in on_front else []
        marks += [f"other versions ({entry.versions})"] if entry in strangers else []
        names = "; ".join(entry.edits)
        rows.append((str(entry.number), entry.name, outcome, *values, ", ".join(marks), str(entry.repeats), names))
    n = len(record.objectives)
    return Grid(
        title="Every block trained",
        note="in order of start",
        heading=(*heading, "", "proposed again", f"edits from {record.reference}"),
        rows=tuple(rows),
        numbers=(0, *range(3, 3 + n), 4 + n),
    )
