"""A report as Markdown: everything except the plots, whose numbers are in its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ablate.output.escape import for_markdown, markdown_code, markdown_fence, markdown_paragraph, markdown_within
from ablate.output.escape import markdown_sentence as written
from ablate.output.escape import markdown_table as table_lines
from ablate.report.document import (
    BulletList,
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
    TableOf,
    Verbatim,
    VerdictGrid,
    Words,
    plain,
)

LEVELS = 6
"""Number of heading levels in Markdown."""


def render(document: ReportDocument) -> str:
    """Return the text. The same document gives the same text."""
    head = f"# {for_markdown(document.title, ' ')}\n\n{' · '.join(map(written, document.about))}\n"
    return "\n".join([head, *_parts(document.parts, 2)]).rstrip("\n") + "\n"


def _parts(parts: Iterable[Part], level: int) -> Iterator[str]:
    for part in parts:
        yield from _part(part, level)


def _part(part: Part, level: int) -> Iterator[str]:
    match part:
        case Lead(sentences):
            yield from (f"{written(sentence)}\n" for sentence in sentences)
        case Statements(lines):
            yield from (*(f"- {_words(line.words)}" for line in lines), "")
        case Prose(text, kind):
            yield f"**{written(plain(text))}**\n" if kind == "warning" else f"{_words(text)}\n"
        case BulletList(lines, kind):
            yield from _bullets(lines, "**!** " if kind in ("beware", "unequal") else "")
        case Verbatim(text, language):
            yield markdown_fence(language, text.rstrip()) + "\n"
        case VerdictGrid():
            yield from _verdicts(part, level)
        case TableOf(grid, titled, bare):
            yield from _table(grid, level, titled=titled, bare=bare)
        case GroupedTable() | FrontTable():
            yield from _table(part.grid, level)
        case Group(parts) | Stacked(parts):
            yield from _parts(parts, level)
        case Fold():
            yield from _fold(part, level)
        case Section(title, parts, note=note):
            inside = list(_parts(parts, level + 1))
            if inside:
                yield f"{'#' * min(level, LEVELS)} {for_markdown(title)}\n"
                yield from [_note(note)] * bool(note)
                yield from inside
        case Figure():
            pass


def _fold(fold: Fold, level: int) -> Iterator[str]:
    """Yield the content of a fold under its summary; nothing if it holds only plots."""
    inside = list(_parts(fold.parts, level + 1))
    if inside:
        words = " ".join(filter(None, (written(fold.summary), "; ".join(map(markdown_code, fold.code)))))
        yield " ".join(filter(None, (f"**{for_markdown(fold.name)}**" if fold.name else "", words))) + "\n"
        yield from inside


def _verdicts(grid: VerdictGrid, level: int) -> Iterator[str]:
    rows = [
        (label, *(" ".join(filter(None, (cell.words, cell.number))) for cell in cells)) for label, cells in grid.rows
    ]
    yield f"{'#' * min(level, LEVELS)} {for_markdown(grid.title)}\n"
    yield from (*table_lines(grid.heading, rows), "")


def _table(grid: Grid, level: int, *, titled: bool = True, bare: bool = False) -> Iterator[str]:
    if titled:
        yield f"{'#' * min(level, LEVELS)} {for_markdown(grid.title)}\n"
    if grid.note and not bare:
        yield _note(grid.note)
    if grid.rows:
        yield from (*table_lines(grid.heading, [list(map(plain, row)) for row in grid.rows]), "")
    if not bare:
        yield from _bullets(grid.caveats, "**!** ")
        yield from _bullets(grid.remarks)


def _note(note: str) -> str:
    return f"{markdown_paragraph(note[:1].upper() + note[1:])}.\n"


def _words(words: Words) -> str:
    """Return words with the subject of the sentence in bold."""
    if isinstance(words, str):
        return written(words)
    first, rest = words[0], plain(words[1:])
    return f"**{for_markdown(first.text)}**{markdown_within(rest)}" if first.tone == "strong" else written(plain(words))


def _bullets(lines: Iterable[str], mark: str = "") -> Iterator[str]:
    items = [f"- {mark}{written(line)}" for line in lines]
    yield from (*items, "") if items else ()
