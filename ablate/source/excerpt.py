"""A line of source with carets under a span: tabs, wide and combining characters keep the carets in place."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from ablate.output.escape import written_out
from ablate.source.located import Span

WINDOW = 100
"""Of a longer line, this many characters around the span are shown."""
LEAD = 40
"""How many characters of a long line stay to the left of the span."""
TAB = 4


def excerpt(span: Span, label: str, gutter: int, arrow: str = "-->") -> list[str]:
    """Return four lines: the place, an empty one, the source, the carets with their label."""
    line = span.source.line(span.line)
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    low, high = _window(len(line), start)
    before = ("…" if low else "") + drawn(line[low:start])
    marked = drawn(line[start : min(end, high)], width(before))
    after = drawn(line[min(max(start, end), high) : high], width(before + marked)) + ("…" if high < len(line) else "")
    carets = " " * width(before) + "^" * max(1, width(marked))
    return [
        f"{'':{gutter}}{arrow} {shown_name(span.source.name)}:{span.line}:{span.column}",
        f"{'':{gutter}} |",
        f"{span.line:>{gutter}} | {before}{marked}{after}".rstrip(),
        f"{'':{gutter}} | {carets} {drawn(label)}".rstrip(),
    ]


def _window(length: int, start: int) -> tuple[int, int]:
    if length <= WINDOW:
        return 0, length
    low = max(0, min(start - LEAD, length - WINDOW))
    return low, low + WINDOW


def drawn(text: str, column: int = 0) -> str:
    """Return `text` as one line of a terminal, from `column` on: tabs as spaces, invisible characters as escapes."""
    cells = []
    for character in text:
        if character == "\t":
            cell = " " * (TAB - column % TAB)
        elif character.isprintable():
            cell = character
        else:
            cell = written_out(character)
        column += width(cell)
        cells.append(cell)
    return "".join(cells)


def width(text: str) -> int:
    """Return how many terminal columns `text` fills: two for East Asian wide characters, none for combining ones."""
    return len(text) if text.isascii() else sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def shown_name(name: str) -> str:
    """Return a file's name as it is shown: relative to the current directory when it is below it."""
    path = Path(name)
    try:
        shown = str(path.relative_to(Path.cwd())) if path.is_absolute() else name
    except (ValueError, OSError):  # not below it, or the current directory is gone
        shown = name
    return drawn(shown)
