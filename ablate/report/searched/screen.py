"""The screen when a search is over: the answer, the front, what fresh seeds say, and how it came about, in brief.

What it leaves out is on the page, and it says how much that is.
"""

from __future__ import annotations

from collections.abc import Iterator

from ablate.report import footnotes
from ablate.report.document import (
    BulletList,
    Fold,
    Part,
    Prose,
    ReportDocument,
    Section,
    Verbatim,
)
from ablate.report.searched import answer, ask_next, confirmation_table, glossary, history, rows
from ablate.report.searched.analysis import SearchAnalysis, analyse
from ablate.report.searched.record import Entry, SearchRecord

MOST = 6
"""Blocks of a front, beside the reference, that the screen shows; the page has all."""
DESCRIBED = 4
"""Blocks whose edits the screen lists."""


def search_screen(record: SearchRecord) -> ReportDocument:
    """What a search found, as a document for the terminal."""
    return ReportDocument(
        title=record.question.strip() or record.space,
        about=answer.headline(record),
        parts=tuple(_parts(record, analyse(record))),
    )


def _parts(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    if record.partial:
        yield Prose(answer.unfinished(record), "warning")
    yield BulletList(tuple(answer.answers(record, analysis)))
    yield BulletList((*answer.warnings(record, analysis), *history.failures(record)), "beware")
    if analysis.compared:
        blocks = shown(record, analysis)
        left_out = len(rows.shown_blocks(record, analysis)) - len(blocks)
        yield rows.front(record, analysis, blocks, tuple(_more(left_out)))
        yield from _edits(record, analysis)
    if record.confirmed is not None:
        yield confirmation_table.table(record, record.confirmed)
        notes = (*footnotes.peculiarities(record.confirmed), *record.confirmed.notes)
        yield BulletList(notes, "beware")
    yield Section("Course", (BulletList(tuple(history.counts(record, analysis))),))
    yield Section("Next", tuple(_next(record, analysis)))
    yield BulletList(tuple(glossary.briefly(record)), "remarks")


def shown(record: SearchRecord, analysis: SearchAnalysis, most: int = MOST) -> list[Entry]:
    """The reference and so many of `rows.shown_blocks`: the chosen first, then those that beat the reference.

    They stand in the order in which they stand there.
    """
    blocks = rows.shown_blocks(record, analysis)
    beating = {record.entries[place].number for place in analysis.beating}
    order = sorted(blocks[1:], key=lambda one: (one.name not in record.chosen, one.number not in beating))
    kept = {one.number for one in [*blocks[:1], *order[:most]]}
    return [one for one in blocks if one.number in kept]


def _edits(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Section]:
    if blocks := rows.described(record, analysis):
        folds = [Fold("" if entry.edits else "none", (), entry.name, entry.edits) for entry in blocks[:DESCRIBED]]
        more = [Prose(line, "note") for line in _more(len(blocks) - DESCRIBED)]
        note = f"from {record.reference}; what each changes is on the page"
        yield Section("Edits", (*folds, *more), note=note)


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"and {count} more on the page"


def _next(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    yield Prose(f"To {'go on with' if record.partial else 'repeat'} this search:")
    yield Verbatim(record.again, "sh")
    chosen = ask_next.chosen(record, analysis)
    if chosen is not None:
        yield Prose(ask_next.briefly(record, chosen))
        yield Verbatim("\n".join(ask_next.COMMANDS), "sh")
