"""A report as Markdown: everything but the plots, whose numbers are in its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ablate.output.markdown import code, escape, fenced, paragraph
from ablate.output.markdown import sentence as written
from ablate.output.markdown import table as table_lines
from ablate.report.document import (
    BulletList,
    Figure,
    Fold,
    Group,
    Lead,
    Part,
    Prose,
    ReportDocument,
    Section,
    Stacked,
    TableOf,
    Verbatim,
    VerdictGrid,
)
from ablate.report.html.grid import Grid

LEVELS = 6
"""Levels of headings that Markdown has."""


def render(document: ReportDocument) -> str:
    """The text. The same document gives the same text."""
    head = f"# {escape(document.title, ' ')}\n\n{' · '.join(map(written, document.about))}\n"
    return "\n".join([head, *_parts(document.parts, 2)]).rstrip("\n") + "\n"


def _parts(parts: Iterable[Part], level: int) -> Iterator[str]:
    for part in parts:
        yield from _part(part, level)


def _part(part: Part, level: int) -> Iterator[str]:
    match part:
        case Lead(sentences):
            yield from (f"{written(sentence)}\n" for sentence in sentences)
        case Prose(text, kind):
            yield f"**{written(text)}**\n" if kind == "warning" else f"{written(text)}\n"
        case BulletList(lines, kind):
            yield from _bullets(lines, "**!** " if kind == "beware" else "")
        case Verbatim(text, language):
            yield fenced(language, text.rstrip()) + "\n"
        case VerdictGrid():
            yield from _verdicts(part, level)
        case TableOf(grid, titled, bare):
            yield from _table(grid, level, titled=titled, bare=bare)
        case Group(parts) | Stacked(parts):
            yield from _parts(parts, level)
        case Fold():
            yield from _fold(part, level)
        case Section(title, parts):
            inside = list(_parts(parts, level + 1))
            if inside:
                yield f"{'#' * min(level, LEVELS)} {escape(title)}\n"
                yield from inside
        case Figure():
            pass


def _fold(fold: Fold, level: int) -> Iterator[str]:
    """What is inside, under the words it is folded under; nothing where that is plots alone."""
    inside = list(_parts(fold.parts, level + 1))
    if inside:
        words = " ".join(filter(None, (written(fold.summary), "; ".join(map(code, fold.code)))))
        yield " ".join(filter(None, (f"**{escape(fold.name)}**" if fold.name else "", words))) + "\n"
        yield from inside


def _verdicts(grid: VerdictGrid, level: int) -> Iterator[str]:
    rows = [
        (label, *(" ".join(filter(None, (cell.words, cell.number))) for cell in cells)) for label, cells in grid.rows
    ]
    yield f"{'#' * min(level, LEVELS)} {escape(grid.title)}\n"
    yield from (*table_lines(grid.heading, rows), "")


def _table(grid: Grid, level: int, *, titled: bool, bare: bool) -> Iterator[str]:
    if titled:
        yield f"{'#' * min(level, LEVELS)} {escape(grid.title)}\n"
    if grid.note and not bare:
        yield f"{paragraph(grid.note[:1].upper() + grid.note[1:])}.\n"
    if grid.rows:
        yield from (*table_lines(grid.heading, grid.rows), "")
    if not bare:
        yield from _bullets(grid.caveats, "**!** ")
        yield from _bullets(grid.remarks)


def _bullets(lines: Iterable[str], mark: str = "") -> Iterator[str]:
    items = [f"- {mark}{written(line)}" for line in lines]
    yield from (*items, "") if items else ()
