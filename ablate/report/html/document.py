"""One HTML file that needs no other: no script, no request, nothing to install. All text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ablate.output.escape import for_html as escape
from ablate.report.html.grid import Grid
from ablate.report.html.style import CSS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may load for a page: nothing."""


def document(title: str, body: Iterable[str]) -> str:
    """The whole file around the pieces of its body; the title stands on top."""
    shown = escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{shown}</h1>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    )


def section(grid: Grid, before: str = "", level: int = 2) -> Iterator[str]:
    """A table under its heading, with what it means and what to beware of; `before` stands above the table."""
    yield heading(grid.title, level)
    yield from untitled(grid, before)


def untitled(grid: Grid, before: str = "") -> Iterator[str]:
    """A section without its heading."""
    if grid.note:
        yield f'<p class="note">{escape(sentence(grid.note))}</p>'
    if before:
        yield before
    if grid.rows:
        yield table(grid)
    if grid.caveats:
        yield beware(grid.caveats)
    if grid.remarks:
        yield f'<div class="dim">{bullets(grid.remarks)}</div>'


def heading(title: str, level: int = 2) -> str:
    """A heading; its id is made of its words."""
    return f'<h{level} id="{slug(title)}">{escape(title)}</h{level}>'


def slug(title: str) -> str:
    """Words of a title as an id.

    >>> slug("Every block trained")
    'every-block-trained'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def sentence(note: str) -> str:
    """A note as a sentence.

    >>> sentence("each against the step before it")
    'Each against the step before it.'
    """
    return f"{note[:1].upper()}{note[1:]}."


def table(grid: Grid) -> str:
    """A table that scrolls by itself where it is wider than the page; its first column names the rows."""
    columns = range(len(grid.heading))
    kind = ["n" if place in grid.numbers else "w" if place in grid.whole else "" for place in columns]
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


def folded(summary: str, inside: str) -> str:
    """What is opened by a click, and always open on paper."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def figure(svg: str, caption: str) -> str:
    """A plot and what it shows."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>\n"


def figures(shown: Iterable[str], *, small: bool = False) -> str:
    """Figures side by side where there is room, also where it is for `small` ones; nothing where there are none."""
    found = "".join(shown)
    return f'<div class="plots{" small" * small}">{found}</div>' if found else ""


def beware(lines: Iterable[str]) -> str:
    """What a reader should beware of."""
    return f'<div class="beware">{bullets(lines)}</div>'


def paragraphs(lines: Iterable[str]) -> str:
    """A paragraph for each line; what stands between backticks is code, here and in lists."""
    return "".join(f"<p>{with_code(line)}</p>" for line in lines)


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "<ul>" + "".join(f"<li>{with_code(line)}</li>" for line in lines) + "</ul>"


def with_code(text: str) -> str:
    """A sentence in which what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
