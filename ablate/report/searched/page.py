"""What a search found, as one HTML file that needs no other: no script, no request, nothing to install."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from ablate.report import footnotes, markdown
from ablate.report.searched import answer, ask_next, course, defined, plots, rows
from ablate.report.searched.reckoned import Reckoned, reckon
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.rows import Grid
from ablate.report.searched.style import CSS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may load for the page: nothing."""


def to_html(record: SearchRecord) -> str:
    """The page. The same record gives the same text."""
    found = reckon(record)
    title = escape(record.question.strip() or record.space)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n" + "\n".join(_body(record, found)) + "\n</main>\n</body>\n</html>\n"
    )


def _body(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    yield f'<p class="dim">{escape(" · ".join(answer.headline(record)))}</p>'
    if record.partial:
        yield f'<p class="partial" role="status">{escape(answer.unfinished(record))}</p>'
    yield f'<div class="answer">{_paragraphs(answer.answers(record, found))}</div>'
    if beware := answer.warnings(record, found):
        yield f'<div class="beware">{_list(beware)}</div>'
    if found.compared:
        yield from _section(rows.front(record, found), _figures(record, found))
        yield from _blocks(record, found)
    yield from _confirmed(record)
    yield from _section(course.accounts(record))
    for grid in (
        course.removed(record),
        course.progress(record, found),
        course.rungs(record),
        rows.edits(record, found),
    ):
        if grid is not None:
            yield from _section(grid)
    yield f'<h2 id="cost">Cost</h2>{_list(course.cost(record))}'
    yield from _next(record, found)
    everything = rows.everything(record, found)
    yield f'<h2 id="every-block">{escape(everything.title)}</h2>'
    yield _folded(f"{len(everything.rows)} blocks, {everything.note}", _table(everything))
    yield f'<h2 id="definitions">What the numbers mean</h2>{_list(defined.definitions(record))}'


def _figures(record: SearchRecord, found: Reckoned) -> str:
    captions = (
        (plots.found_plot(record, found), " ".join(_caption(record))),
        (plots.progress_plot(record, found), "The share of the box that is dominated, by blocks begun."),
    )
    shown = "".join(f"<figure>{svg}<figcaption>{escape(text)}</figcaption></figure>\n" for svg, text in captions if svg)
    return f'<div class="plots">{shown}</div>' if shown else ""


def _caption(record: SearchRecord) -> Iterator[str]:
    several = len(record.objectives) > 1
    yield "Each point is a block that finished."
    if len(record.objectives) > 2:
        yield "The front is that of all objectives: a point may be on it for one that is not drawn."
    if several:
        yield "A name that would cover another is left out."
    if record.confirmed is not None:
        yield (
            f"Squares: at fresh seeds, {record.reference}'s mean there and the paired difference from it with its "
            f"{100 * record.confirmed.confidence:g} % interval"
            + ("; the dotted line leads there from the value in the search." if several else ".")
        )


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
        yield from _section(left, level=3)
    for title, heading, cells in markdown.tables_of(summary):
        numbers = tuple(place for place, name in enumerate(heading) if name in _NUMBERS)
        grid = Grid(title=title, note="", heading=heading, rows=tuple(cells), numbers=numbers)
        yield from _section(grid, level=3)
    if notes := [*footnotes.peculiarities(summary), *summary.notes]:
        yield f'<div class="beware">{_list(notes)}</div>'
    yield _folded("What these numbers mean", _list(footnotes.definitions(summary, record.defined)))


_NUMBERS = ("n", "finished", "diverged", "parameters", "FLOPs per sequence")


def _next(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    yield f'<h2 id="next">Next</h2><p>To {"go on with" if record.partial else "repeat"} this search:</p>'
    yield f"<pre>{escape(record.again)}</pre>"
    chosen = ask_next.chosen(record, found)
    if chosen is not None:
        asked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(ask_next.how(record, chosen)))
        yield f"<p>{asked}</p><pre>{escape(ask_next.snippet(record, chosen.entry))}</pre>"


def _section(grid: Grid, before: str = "", level: int = 2) -> Iterator[str]:
    name = "-".join("".join(c if c.isalnum() else " " for c in grid.title.lower()).split())
    yield f'<h{level} id="{name}">{escape(grid.title)}</h{level}>'
    if grid.note:
        yield f'<p class="note">{escape(grid.note[:1].upper() + grid.note[1:])}.</p>'
    if before:
        yield before
    if grid.rows:
        yield _table(grid)
    if grid.caveats:
        yield f'<div class="beware">{_list(grid.caveats)}</div>'
    if grid.remarks:
        yield f'<div class="dim">{_list(grid.remarks)}</div>'


def _table(grid: Grid) -> str:
    """A table that scrolls by itself where it is wider than the page; its first column names the rows."""
    kind = ["n" if place in grid.numbers else "" for place in range(len(grid.heading))]
    head = "".join(_cell("th", text, k, ' scope="col"') for text, k in zip(grid.heading, kind, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            _cell("td" if place else "th", text, kind[place], "" if place else ' scope="row"')
            for place, text in enumerate(row)
        )
        + "</tr>\n"
        for row in grid.rows
    )
    label = escape(grid.title, quote=True)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _cell(tag: str, text: str, kind: str, scope: str) -> str:
    return f"<{tag}{scope}{f' class={kind}' if kind else ''}>{escape(text)}</{tag}>"


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _paragraphs(lines: Iterable[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
