"""A report as one self-contained HTML file: no script, no request. All text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ablate.output.escape import for_html as escape
from ablate.report.document import (
    BulletList,
    Cell,
    Figure,
    Fold,
    FrontTable,
    Grid,
    Group,
    GroupedTable,
    Lead,
    Part,
    Prose,
    ReportDocument,
    Section,
    Stacked,
    Statements,
    StyledText,
    TableOf,
    Verbatim,
    VerdictGrid,
    Words,
)
from ablate.report.html.style import CSS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may load for a page: nothing."""


ON_PAPER = '<p class="paper dim">Folded sections are printed only if they were opened before.</p>'


def render(document: ReportDocument) -> str:
    """Return the whole file, with a list of its sections above the first. The same document gives the same text."""
    shown = escape(document.title)
    about = escape(" · ".join(document.about))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{shown}</h1>\n<p class="dim">{about}</p>\n'
        + "\n".join(_body(document))
        + f"\n{ON_PAPER}\n</main>\n</body>\n</html>\n"
    )


def _body(document: ReportDocument) -> Iterator[str]:
    sections = [(part, _part(part, 2)) for part in document.parts]
    titles = [part.title for part, text in sections if isinstance(part, Section) and text]
    listed = False
    for part, text in sections:
        if isinstance(part, Section) and text and not listed:
            links = "".join(f'<li><a href="#{slug(title)}">{escape(title)}</a></li>' for title in titles)
            yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
            listed = True
        if text:
            yield text


def _parts(parts: Iterable[Part], level: int) -> str:
    return "\n".join(filter(None, (_part(part, level) for part in parts)))


def _part(part: Part, level: int) -> str:
    match part:
        case Lead(sentences):
            return f'<div class="answer">{_paragraphs(sentences)}</div>'
        case Statements(lines):
            return f'<div class="answer">{_paragraphs(line.words for line in lines)}</div>'
        case Prose(text, kind):
            status = ' role="status"' if kind == "warning" else ""
            name = {"plain": "", "note": ' class="note"', "warning": ' class="partial"'}[kind]
            return f"<p{name}{status}>{_words(text)}</p>"
        case BulletList(lines, kind):
            marked = "" if kind == "plain" else f' class="{"beware" if kind in ("beware", "unequal") else "dim"}"'
            items = _bullets(lines)
            return f"<div{marked}>{items}</div>" if marked and lines else items if lines else ""
        case Verbatim(text, small=small):
            return f'<pre class="{"long" if small else "wrap"}">{escape(text)}</pre>'
        case VerdictGrid():
            return _verdicts(part)
        case TableOf(grid, titled, bare):
            return _table_of(grid, level, titled=titled, bare=bare)
        case GroupedTable() | FrontTable():
            return _table_of(part.grid, level)
        case Figure():
            return _figure(part)
        case Group(parts):
            inside = "".join(_part(child, level) for child in parts)
            return f'<div class="plots small">{inside}</div>' if inside else ""
        case Stacked(parts):
            return f"<div>{_parts(parts, level)}</div>"
        case Fold():
            return _fold(part, level)
        case Section(title, parts, folded, note):
            inside = _parts(parts, level + 1)
            inside = f"{_note(note)}\n{inside}" if note and inside else inside
            return _section(title, inside, level, folded=folded) if inside else ""


def _section(title: str, inside: str, level: int, *, folded: bool) -> str:
    named = f'<h{level} id="{slug(title)}">{escape(title)}</h{level}>'
    if folded:
        return f'<details class="appendix"><summary>{named}</summary>{inside}</details>'
    return f"{named}\n{inside}"


def slug(title: str) -> str:
    """Return a title as an id.

    >>> slug("Every block trained")
    'every-block-trained'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def _fold(fold: Fold, level: int) -> str:
    """Return a part that a click opens."""
    name = f"<b>{escape(fold.name)}</b> " if fold.name else ""
    marks = "; ".join(f"<code>{escape(mark)}</code>" for mark in fold.code)
    words = " ".join(filter(None, (escape(fold.summary), marks)))
    return f"<details><summary>{name}{words}</summary>{_parts(fold.parts, level + 1)}</details>"


def _verdicts(grid: VerdictGrid) -> str:
    """Return the grid of verdicts; on a narrow screen each row is a card, so that every number stays visible."""
    first, *names = grid.heading
    head = f'<th scope="col">{escape(first)}</th>' + "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(cell, name) for cell, name in zip(cells, names, strict=True))
        + "</tr>\n"
        for label, cells in grid.rows
    )
    return _scrolling(grid.title, head, body, ' class="grid"')


def _scrolling(title: str, head: str, body: str, kind: str = "") -> str:
    """Return a table that scrolls if it is wider than the page."""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(title, quote=True)}"><table{kind}>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell, name: str) -> str:
    number = f"<span>{escape(cell.number)}</span>" if cell.number else ""
    metric = f"<i>{escape(name)}</i>"
    return f'<td class="v-{cell.verdict.replace("_", "-")}">{metric}<b>{escape(cell.words)}</b>{number}</td>'


def _figure(figure: Figure) -> str:
    shades = "".join(
        f'<span><i style="background:var(--shade{shade})"></i>{escape(text)}</span> ' for shade, text in figure.key
    )
    key = f'<div class="key">{shades}</div>' if shades else ""
    return f"<figure>{figure.svg}<figcaption>{escape(figure.caption)}{key}</figcaption></figure>\n"


def _table_of(grid: Grid, level: int, *, titled: bool = True, bare: bool = False) -> str:
    if bare:
        return _table(grid) if grid.rows else ""
    parts = [f'<h{level} id="{slug(grid.title)}">{escape(grid.title)}</h{level}>'] if titled else []
    parts += [_note(grid.note)] if grid.note else []
    parts += [_table(grid)] if grid.rows else []
    parts += [f'<div class="beware">{_bullets(grid.caveats)}</div>'] if grid.caveats else []
    parts += [f'<div class="dim">{_bullets(grid.remarks)}</div>'] if grid.remarks else []
    return "\n".join(parts)


def _note(note: str) -> str:
    return f'<p class="note">{escape(note[:1].upper() + note[1:])}.</p>'


def _table(grid: Grid) -> str:
    """Return a table whose first column names the rows."""
    columns = range(len(grid.heading))
    kind = ["n" if place in grid.numbers else "w" if place in grid.whole else "" for place in columns]
    head = "".join(_entry("th", text, k, ' scope="col"') for text, k in zip(grid.heading, kind, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            _entry("td" if place else "th", text, kind[place], "" if place else ' scope="row"')
            for place, text in enumerate(row)
        )
        + "</tr>\n"
        for row in grid.rows
    )
    return _scrolling(grid.title, head, body)


def _entry(tag: str, words: Words, kind: str, scope: str) -> str:
    inside = escape(words) if isinstance(words, str) else _words(words)
    return f"<{tag}{scope}{f' class={kind}' if kind else ''}>{inside}</{tag}>"


def _paragraphs(lines: Iterable[Words]) -> str:
    return "".join(f"<p>{_words(line)}</p>" for line in lines)


def _bullets(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{with_code(line)}</li>" for line in lines) + "</ul>"


def _words(words: Words) -> str:
    """Return words with their tones: the subject of a sentence is bold, secondary text dim."""
    return with_code(words) if isinstance(words, str) else "".join(map(_span, words))


def _span(span: StyledText) -> str:
    text = escape(span.text)
    if span.tone == "plain":
        return text
    if span.tone == "strong":
        return f"<b>{text}</b>"
    kind = "dim" if span.tone == "faint" else "v-" + span.tone.replace("_", "-")
    return f'<span class="{kind}">{text}</span>'


def with_code(text: str) -> str:
    """Return a sentence in which text between backticks is code.

    Outside of code, no line ends between the sign of an edit and its name, or between a number and its percent sign.
    """
    pieces = re.split(r"`([^`]+)`", escape(text))
    return "".join(f"<code>{piece}</code>" if place % 2 else _together(piece) for place, piece in enumerate(pieces))


def _together(text: str) -> str:
    """Join words that belong on one line by characters at which no line breaks."""
    return re.sub(r"(?<!\S)-(?=\w)", "-\u2060", text).replace(" %", "\u00a0%")
