"""The tables of what a search found, as text: the same for the terminal, Markdown and the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ablate.output import numbers, words
from ablate.report import wording
from ablate.report.document import Candidate, FrontTable, Grid
from ablate.report.searched.analysis import SearchAnalysis, difference, edit_counts
from ablate.report.searched.answer import OUTCOMES
from ablate.report.searched.confirmation import kept
from ablate.report.searched.record import Entry, Objective, SearchRecord

BEST = 10
"""How many blocks are shown where there is one objective, and so no front."""


def shown_blocks(record: SearchRecord, analysis: SearchAnalysis) -> list[Entry]:
    """The reference, then the front without it; with one objective the `BEST` best blocks."""
    places: Iterable[int] = analysis.front
    if len(record.objectives) == 1:
        places = sorted((p for p in analysis.compared if p > 0), key=lambda p: (analysis.losses[p], p))[:BEST]
    return [*record.entries[:1], *(record.entries[place] for place in places if place > 0)]


def described(record: SearchRecord, analysis: SearchAnalysis) -> list[Entry]:
    """The blocks whose edits are listed: those chosen to be confirmed, then the others of `shown_blocks`."""
    chosen = [record.entry(name) for name in record.chosen]
    return [*chosen, *(entry for entry in shown_blocks(record, analysis)[1:] if entry.name not in record.chosen)]


def front_title(record: SearchRecord, analysis: SearchAnalysis) -> tuple[str, str]:
    """The title of the table of found blocks, and what they are."""
    among = words.plural(len(analysis.compared), "block")
    if len(record.objectives) == 1:
        return "Best", f"by {record.objectives[0].metric}, of {among} that finished"
    return "Front", f"{len(analysis.front)} of {among} that finished, dominated by none"


def front(
    record: SearchRecord, analysis: SearchAnalysis, blocks: Sequence[Entry] | None = None, remarks: tuple[str, ...] = ()
) -> FrontTable:
    """A row for each of the `blocks`, by default `shown_blocks`: values, differences to the reference, size."""
    title, note = front_title(record, analysis)
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
    """What the reference is, and where it stands among several objectives."""
    if len(analysis.better_in) == 1 or analysis.reference is None:
        return "reference"
    return f"reference, {'on the front' if 0 in analysis.front else 'dominated'}"


def cells(entry: Entry, record: SearchRecord) -> list[tuple[str, str]]:
    """For each objective the value, and its difference to the reference."""
    found = []
    for place, objective in enumerate(record.objectives):
        value = number(entry.values[place]) if place < len(entry.values) else "no value"
        apart = difference(entry, record.entries[0], place, objective)
        found.append((value, "" if apart is None or entry.number == 0 else apart_in_words(apart, objective)))
    return found


def size(entry: Entry, record: SearchRecord) -> tuple[str, str]:
    """Parameters and FLOPs: the reference's as they are, the others' against them."""
    base = record.entries[0]
    if entry.number == 0:
        return f"{entry.parameters:,}", f"{entry.flops / 1e6:,.1f} M"
    return wording.change(base.parameters, entry.parameters), wording.change(base.flops, entry.flops)


def number(value: float) -> str:
    """Four significant digits: without an interval there is no saying how many of them mean something."""
    return f"{value:.0f}" if 10_000 <= abs(value) < 1e6 else f"{value:#.4g}".rstrip(".") if value else "0"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"


def apart_in_words(apart: float, objective: Objective) -> str:
    """`-0.0517`, or on the log scale `×0.542`."""
    if objective.log:
        return f"×{numbers.significant(numbers.factor(apart))}"
    return ("+" if apart >= 0 else "-") + (numbers.significant(abs(apart)) if apart else "0")


def left(record: SearchRecord) -> Grid:
    """What fresh seeds left of what the search saw."""
    rows = []
    for one in kept(record):
        searched = "" if one.searched is None else apart_in_words(one.searched, one.objective)
        confirmed = "no pair" if one.effect.estimate is None else apart_in_words(one.effect.estimate, one.objective)
        share = "" if one.share is None else percent(one.share)
        mean = "no value" if one.mean is None else number(one.mean)
        rows.append((one.name, one.objective.metric, number(one.value), mean, searched, confirmed, share))
    n = words.plural(len(record.confirm_seeds), "fresh seed")
    return Grid(
        title="What was left",
        note=f"of the search's numbers at {n}",
        heading=("block", "objective", "search", "fresh", "search, apart", "fresh, apart", "left"),
        rows=tuple(rows),
        numbers=(2, 3, 4, 5, 6),
        remarks=(
            "search: its value in the search, on the tuning split; fresh: mean over the fresh seeds, on the verdict "
            f"split; apart: against {record.reference} at the same seeds; left: the fresh difference as a share of the "
            "search's, where that was an advantage",
        ),
    )


def edits(record: SearchRecord, analysis: SearchAnalysis) -> Grid | None:
    """The edits of `shown_blocks` beside those of all trained; None where there are none."""
    shown = shown_blocks(record, analysis)[1:]
    counts = [one for one in edit_counts(record, shown) if one.shown]
    if not counts:
        return None
    rows = [
        (one.edit, _of(one.shown, len(shown)), _of(one.trained, len(record.trained)), str(one.diverged))
        for one in counts
    ]
    one = len(record.objectives) == 1
    return Grid(
        title="Edits of the best" if one else "Edits on the front",
        note=f"from {record.reference}; blocks that have them",
        heading=("edit", "best" if one else "on the front", "trained", "diverged"),
        rows=tuple(rows),
        numbers=(1, 2, 3),
        caveats=(
            "a description, no finding: the sampler chose what was trained, and edits come together; which edit "
            "matters is asked below",
        ),
    )


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def everything(record: SearchRecord, analysis: SearchAnalysis) -> Grid:
    """Every block, in the order begun; marked are the reference, the front, and other versions than the reference's."""
    heading = ["no.", "block", "became", *(objective.metric for objective in record.objectives)]
    on_front, strangers = {record.entries[place].number for place in analysis.front}, record.strangers
    rows = []
    for entry in record.entries:
        became = OUTCOMES.get(entry.outcome, entry.outcome)
        became += "" if entry.until is None else f" (values at step {entry.until})"
        values = [number(value) if math.isfinite(value) else str(value) for value in entry.values]
        values += ["no value"] * (len(record.objectives) - len(values))
        marks = ["reference"] if entry.number == 0 else ["front"] if entry.number in on_front else []
        marks += [f"other versions ({entry.versions})"] if entry in strangers else []
        names = "; ".join(entry.edits)
        rows.append((str(entry.number), entry.name, became, *values, ", ".join(marks), str(entry.repeats), names))
    n = len(record.objectives)
    return Grid(
        title="Every block trained",
        note="in the order begun",
        heading=(*heading, "", "proposed again", f"edits from {record.reference}"),
        rows=tuple(rows),
        numbers=(0, *range(3, 3 + n), 4 + n),
    )
