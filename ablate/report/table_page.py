"""The page of a table of runs that were trained elsewhere: one HTML file that needs no other."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.report import footnotes
from ablate.report.answers import sentences
from ablate.report.html.document import beware, bullets, document, folded, paragraphs, section
from ablate.report.html.grid import Grid
from ablate.report.markdown import tables_of
from ablate.verdict.summary import Summary


def to_html(summary: Summary) -> str:
    """The answer, every comparison, the variants, what to beware of, and what the numbers mean."""
    return document(summary.space, _body(summary))


def _body(summary: Summary) -> Iterator[str]:
    yield f'<div class="answer">{paragraphs(sentence.plain for _, sentence in sentences(summary))}</div>'
    for title, heading, rows in tables_of(summary):
        note = f"{summary.design}; the baseline is {summary.baseline}" if title == "Variants" else ""
        yield from section(Grid(title=title, note=note, heading=heading, rows=tuple(rows)))
    if told := [*footnotes.peculiarities(summary), *summary.notes]:
        yield beware(told)
    yield folded("What the numbers mean", bullets(footnotes.definitions(summary, {})))
