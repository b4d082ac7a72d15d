"""The page of a search as a document: the answer, the front, the confirmation, and the course of the search."""

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
from ablate.report.searched import answer, ask_next, glossary, history, plots, rows
from ablate.report.searched.analysis import SearchAnalysis, analyse
from ablate.report.searched.record import SearchRecord


def page(record: SearchRecord) -> ReportDocument:
    """Return the page. The same record gives the same document."""
    analysis = analyse(record)
    return ReportDocument(
        title=record.question.strip() or record.space,
        about=answer.headline(record),
        parts=tuple(_parts(record, analysis)),
    )


def _parts(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    if record.partial:
        yield Prose(answer.unfinished(record), "warning")
    yield Lead(tuple(answer.answers(record, analysis)))
    if warned := answer.warnings(record, analysis):
        yield BulletList(tuple(warned), "beware")
    if analysis.compared:
        yield _section(rows.front(record, analysis).grid, tuple(_figures(record, analysis)))
        if blocks := tuple(_blocks(record, analysis)):
            yield Section(f"Their edits from {record.reference}", blocks)
    if confirmed := tuple(_confirmed(record)):
        yield Section("Confirmed", confirmed)
    for grid in (
        history.accounts(record),
        history.removed(record),
        history.progress(record, analysis),
        history.rungs(record),
        rows.edits(record, analysis),
    ):
        if grid is not None:
            yield _section(grid)
    yield Section("Cost", (BulletList(tuple(history.cost(record))),))
    yield Section("Next", tuple(_next(record, analysis)))
    everything = rows.everything(record, analysis)
    inside = (Fold(f"{len(everything.rows)} blocks, {everything.note}", (TableOf(everything, bare=True),)),)
    yield Section(everything.title, inside)
    yield Section("What the numbers mean", (BulletList(tuple(glossary.definitions(record))),), folded=True)


def _section(grid: Grid, before: tuple[Part, ...] = ()) -> Section:
    return Section(grid.title, (*before, TableOf(grid, titled=False)))


def _figures(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    if drawn := tuple(Figure(shown(plot), plot.caption) for plot in plots.plots(record, analysis)):
        yield Group(drawn)


def _blocks(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    """Yield what each edit of the shown blocks changes, and the blocks in YAML."""
    for entry in rows.described(record, analysis):
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
    yield from map(TableOf, verdict_tables.tables_of(summary))
    if notes := (*footnotes.peculiarities(summary), *footnotes.in_bits(summary), *summary.notes):
        yield BulletList(tuple(notes), "beware")
    yield Fold("What these numbers mean", (BulletList(tuple(footnotes.definitions(summary, record.defined))),))


def _next(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    yield Prose(f"To {'resume' if record.partial else 'repeat'} this search:")
    yield Verbatim(record.again, "sh")
    if record.head:
        yield Prose(f"Head of the records: {record.head}", "note")
    chosen = ask_next.chosen(record, analysis)
    if chosen is not None:
        yield Prose(ask_next.how(record, chosen))
        yield Verbatim(ask_next.snippet(record, chosen.entry), "yaml")
