"""The screen at the end of a search: the answer, the front, the confirmation, and the course of the search, in brief.

What it leaves out is on the page; it says how much that is.
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
from ablate.report.searched import answer, ask_next, confirmation_table, history, rows, sections
from ablate.report.searched.analysis import SearchAnalysis, analyse
from ablate.report.searched.record import Entry, SearchRecord

MOST = 6
"""Maximum number of blocks of a front that the screen shows besides the reference; the page has all."""
DESCRIBED = 4
"""Maximum number of blocks whose edits the screen lists."""


def search_screen(record: SearchRecord) -> ReportDocument:
    """Return the results of a search as a document for the terminal."""
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
    yield Section("Progress", (BulletList(tuple(history.counts(record, analysis))),))
    yield Section("Next", tuple(_next(record, analysis)))
    yield BulletList(tuple(sections.briefly(record)), "remarks")


def shown(record: SearchRecord, analysis: SearchAnalysis, most: int = MOST) -> list[Entry]:
    """Return the reference and `most` of `rows.shown_blocks`: the chosen first, then those that beat the reference.

    Their order is that of `rows.shown_blocks`.
    """
    blocks = rows.shown_blocks(record, analysis)
    beating = {record.entries[place].number for place in analysis.beating}
    order = sorted(blocks[1:], key=lambda entry: (entry.name not in record.chosen, entry.number not in beating))
    kept = {entry.number for entry in [*blocks[:1], *order[:most]]}
    return [entry for entry in blocks if entry.number in kept]


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
    yield Prose(f"To {'resume' if record.partial else 'repeat'} this search:")
    yield Verbatim(record.again, "sh")
    chosen = ask_next.chosen(record, analysis)
    if chosen is not None:
        yield Prose(ask_next.briefly(record, chosen))
        yield Verbatim("\n".join(ask_next.COMMANDS), "sh")
