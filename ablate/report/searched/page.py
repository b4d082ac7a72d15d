"""What a search found, as one HTML file that needs no other: no script, no request, nothing to install."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.output.escape import for_html as escape
from ablate.report import footnotes, markdown
from ablate.report.html.document import (
    beware,
    bullets,
    document,
    figure,
    figures,
    folded,
    paragraphs,
    section,
    table,
    with_code,
)
from ablate.report.html.drawn import shown
from ablate.report.html.grid import Grid
from ablate.report.searched import answer, ask_next, course, defined, plots, rows
from ablate.report.searched.reckoned import Reckoned, reckon
from ablate.report.searched.record import SearchRecord


def to_html(record: SearchRecord) -> str:
    """The page. The same record gives the same text."""
    found = reckon(record)
    return document(record.question.strip() or record.space, _body(record, found))


def _body(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    yield f'<p class="dim">{escape(" · ".join(answer.headline(record)))}</p>'
    if record.partial:
        yield f'<p class="partial" role="status">{escape(answer.unfinished(record))}</p>'
    yield f'<div class="answer">{paragraphs(answer.answers(record, found))}</div>'
    if warned := answer.warnings(record, found):
        yield beware(warned)
    if found.compared:
        yield from section(rows.front(record, found), _figures(record, found))
        yield from _blocks(record, found)
    yield from _confirmed(record)
    yield from section(course.accounts(record))
    for grid in (
        course.removed(record),
        course.progress(record, found),
        course.rungs(record),
        rows.edits(record, found),
    ):
        if grid is not None:
            yield from section(grid)
    yield f'<h2 id="cost">Cost</h2>{bullets(course.cost(record))}'
    yield from _next(record, found)
    everything = rows.everything(record, found)
    yield f'<h2 id="every-block">{escape(everything.title)}</h2>'
    yield folded(f"{len(everything.rows)} blocks, {everything.note}", table(everything))
    yield f'<h2 id="definitions">What the numbers mean</h2>{bullets(defined.definitions(record))}'


def _figures(record: SearchRecord, found: Reckoned) -> str:
    return figures(figure(shown(plot), plot.caption) for plot in plots.plots(record, found))


def _blocks(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    """What each edit of the shown blocks changes, and the blocks in YAML."""
    blocks = rows.described(record, found)
    if not blocks:
        return
    yield f'<h3 id="edits-of-blocks">Their edits from {escape(record.reference)}</h3>'
    for entry in blocks:
        edits = [
            f"<li><code>{escape(edit)}</code> {escape(detail)}</li>"
            for edit, detail in zip(entry.edits, entry.details, strict=False)
        ]
        names = "; ".join(f"<code>{escape(edit)}</code>" for edit in entry.edits) or "none"
        yield (
            f"<details><summary><b>{escape(entry.name)}</b> {names}</summary><ul>{''.join(edits)}</ul>"
            f'<pre class="wrap">{escape(entry.name)}: {escape(entry.block)}</pre></details>'
        )


def _confirmed(record: SearchRecord) -> Iterator[str]:
    summary = record.confirmed
    if summary is None:
        return
    seeds = ", ".join(map(str, record.confirm_seeds))
    yield f'<h2 id="confirmed">Confirmed</h2><p class="note">At seeds {seeds}, on the verdict split of the text: '
    yield "the search has seen neither.</p>"
    if (left := rows.left(record)).rows:
        yield from section(left, level=3)
    for title, heading, cells in markdown.tables_of(summary):
        numbers = tuple(place for place, name in enumerate(heading) if name in _NUMBERS)
        grid = Grid(title=title, note="", heading=heading, rows=tuple(cells), numbers=numbers)
        yield from section(grid, level=3)
    if notes := [*footnotes.peculiarities(summary), *summary.notes]:
        yield beware(notes)
    yield folded("What these numbers mean", bullets(footnotes.definitions(summary, record.defined)))


_NUMBERS = ("n", "finished", "diverged", "parameters", "FLOPs per sequence")


def _next(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    yield f'<h2 id="next">Next</h2><p>To {"go on with" if record.partial else "repeat"} this search:</p>'
    yield f"<pre>{escape(record.again)}</pre>"
    chosen = ask_next.chosen(record, found)
    if chosen is not None:
        asked = with_code(ask_next.how(record, chosen))
        yield f"<p>{asked}</p><pre>{escape(ask_next.snippet(record, chosen.entry))}</pre>"
