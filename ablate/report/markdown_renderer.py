"""A report as Markdown: everything except the plots, whose numbers are in its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ablate.output.escape import for_markdown, markdown_code, markdown_fence, markdown_paragraph, markdown_within
from ablate.output.escape import markdown_sentence as written
from ablate.output.escape import markdown_table as table_lines
from ablate.report import document as doc
from ablate.report.document import plain

LEVELS = 6


def render(document: doc.ReportDocument) -> str:
    """Return the text; the same document gives the same text."""
    head = f"# {for_markdown(document.title, ' ')}\n\n{' · '.join(map(written, document.about))}\n"
    return "\n".join([head, *_parts(document.parts, 2)]).rstrip("\n") + "\n"


def _parts(parts: Iterable[doc.Part], level: int) -> Iterator[str]:
    for part in parts:
        yield from _part(part, level)


def _part(part: doc.Part, level: int) -> Iterator[str]:
    match part:
        case doc.Lead(sentences):
            yield from (f"{written(sentence)}\n" for sentence in sentences)
        case doc.Statements(lines):
            yield from (*(f"- {_words(line.words)}" for line in lines), "")
        case doc.Prose(text, kind):
            yield f"**{written(plain(text))}**\n" if kind == "warning" else f"{_words(text)}\n"
        case doc.BulletList(lines, kind):
            yield from _bullets(lines, "**!** " if kind in ("beware", "unequal") else "")
        case doc.Verbatim(text, language):
            yield markdown_fence(language, text.rstrip()) + "\n"
        case doc.VerdictGrid():
            yield from _verdicts(part, level)
        case doc.TableOf(grid, titled, bare):
            yield from _table(grid, level, titled=titled, bare=bare)
        case doc.GroupedTable() | doc.FrontTable():
            yield from _table(part.grid, level)
        case doc.Group(parts) | doc.Stacked(parts):
            yield from _parts(parts, level)
        case doc.Fold():
            yield from _fold(part, level)
        case doc.Section(title, parts, note=note):
            inside = list(_parts(parts, level + 1))
            if inside:
                yield f"{'#' * min(level, LEVELS)} {for_markdown(title)}\n"
                yield from [_note(note)] * bool(note)
                yield from inside
        case doc.Figure():
            pass


def _fold(fold: doc.Fold, level: int) -> Iterator[str]:
    inside = list(_parts(fold.parts, level + 1))
    if inside:
        words = " ".join(filter(None, (written(fold.summary), "; ".join(map(markdown_code, fold.code)))))
        yield " ".join(filter(None, (f"**{for_markdown(fold.name)}**" if fold.name else "", words))) + "\n"
        yield from inside


def _verdicts(grid: doc.VerdictGrid, level: int) -> Iterator[str]:
    rows = [
        (label, *(" ".join(filter(None, (cell.words, cell.number))) for cell in cells)) for label, cells in grid.rows
    ]
    yield f"{'#' * min(level, LEVELS)} {for_markdown(grid.title)}\n"
    yield from (*table_lines(grid.heading, rows), "")


def _table(grid: doc.Grid, level: int, *, titled: bool = True, bare: bool = False) -> Iterator[str]:
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


def _words(words: doc.Words) -> str:
    if isinstance(words, str):
        return written(words)
    first, rest = words[0], plain(words[1:])
    return f"**{for_markdown(first.text)}**{markdown_within(rest)}" if first.tone == "strong" else written(plain(words))


def _bullets(lines: Iterable[str], mark: str = "") -> Iterator[str]:
    items = [f"- {mark}{written(line)}" for line in lines]
    yield from (*items, "") if items else ()
