"""What a search has found as a document: the answer, the front, what was confirmed, and how it came about."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.report import footnotes, verdict_tables
from ablate.report.document import (
    BulletList,
    Figure,
    Fold,
    Grid,
    Group,
    Lead,
    Part,
    Prose,
    ReportDocument,
    Section,
    TableOf,
    Verbatim,
)
from ablate.report.html.drawn import shown
from ablate.report.searched import answer, ask_next, course, defined, plots, rows
from ablate.report.searched.reckoned import Reckoned, reckon
from ablate.report.searched.record import SearchRecord


def page(record: SearchRecord) -> ReportDocument:
    """The page. The same record gives the same document."""
    found = reckon(record)
    return ReportDocument(
        title=record.question.strip() or record.space,
        about=answer.headline(record),
        parts=tuple(_parts(record, found)),
    )


def _parts(record: SearchRecord, found: Reckoned) -> Iterator[Part]:
    if record.partial:
        yield Prose(answer.unfinished(record), "warning")
    yield Lead(tuple(answer.answers(record, found)))
    if warned := answer.warnings(record, found):
        yield BulletList(tuple(warned), "beware")
    if found.compared:
        yield _section(rows.front(record, found).grid, tuple(_figures(record, found)))
        if blocks := tuple(_blocks(record, found)):
            yield Section(f"Their edits from {record.reference}", blocks)
    if confirmed := tuple(_confirmed(record)):
        yield Section("Confirmed", confirmed)
    for grid in (
        course.accounts(record),
        course.removed(record),
        course.progress(record, found),
        course.rungs(record),
        rows.edits(record, found),
    ):
        if grid is not None:
            yield _section(grid)
    yield Section("Cost", (BulletList(tuple(course.cost(record))),))
    yield Section("Next", tuple(_next(record, found)))
    everything = rows.everything(record, found)
    inside = (Fold(f"{len(everything.rows)} blocks, {everything.note}", (TableOf(everything, bare=True),)),)
    yield Section(everything.title, inside)
    yield Section("What the numbers mean", (BulletList(tuple(defined.definitions(record))),), folded=True)


def _section(grid: Grid, before: tuple[Part, ...] = ()) -> Section:
    return Section(grid.title, (*before, TableOf(grid, titled=False)))


def _figures(record: SearchRecord, found: Reckoned) -> Iterator[Part]:
    if drawn := tuple(Figure(shown(plot), plot.caption) for plot in plots.plots(record, found)):
        yield Group(drawn)


def _blocks(record: SearchRecord, found: Reckoned) -> Iterator[Part]:
    """What each edit of the shown blocks changes, and the blocks in YAML."""
    for entry in rows.described(record, found):
        edits = tuple(f"`{edit}` {detail}" for edit, detail in zip(entry.edits, entry.details, strict=False))
        parts: tuple[Part, ...] = (BulletList(edits), Verbatim(f"{entry.name}: {entry.block}", "yaml"))
        yield Fold("" if entry.edits else "none", parts, name=entry.name, code=entry.edits)


def _confirmed(record: SearchRecord) -> Iterator[Part]:
    summary = record.confirmed
    if summary is None:
        return
    seeds = ", ".join(map(str, record.confirm_seeds))
    yield Prose(f"At seeds {seeds}, on the verdict split of the text: the search has seen neither.", "note")
    if (left := rows.left(record)).rows:
        yield TableOf(left)
    for title, heading, cells in verdict_tables.tables_of(summary):
        numbers = tuple(place for place, name in enumerate(heading) if name in _NUMBERS)
        yield TableOf(Grid(title=title, note="", heading=heading, rows=tuple(cells), numbers=numbers))
    if notes := (*footnotes.peculiarities(summary), *footnotes.in_bits(summary), *summary.notes):
        yield BulletList(tuple(notes), "beware")
    yield Fold("What these numbers mean", (BulletList(tuple(footnotes.definitions(summary, record.defined))),))


_NUMBERS = ("n", "finished", "diverged", "parameters", "FLOPs per sequence")


def _next(record: SearchRecord, found: Reckoned) -> Iterator[Part]:
    yield Prose(f"To {'go on with' if record.partial else 'repeat'} this search:")
    yield Verbatim(record.again, "sh")
    chosen = ask_next.chosen(record, found)
    if chosen is not None:
        yield Prose(ask_next.how(record, chosen))
        yield Verbatim(ask_next.snippet(record, chosen.entry), "yaml")
