"""A report as JSON, for programs that show it in their own way: its texts, its tables, and its verdicts.

A part is an object whose `part` gives its kind. A plot is its caption and the key of its shades, without the drawing.
Words that contain verdicts are the text and its `verdicts`, each with its words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

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
    TableOf,
    Verbatim,
    VerdictGrid,
    Words,
    plain,
)
from ablate.verdict.summary import Verdict


def render(document: ReportDocument) -> dict[str, Any]:
    """Return the content as objects, lists and texts. The same document gives the same content."""
    return {"title": document.title, "about": list(document.about), "parts": _parts(document.parts)}


def _parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [_part(part) for part in parts]


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Lead(sentences):
            return {"part": "lead", "sentences": list(sentences)}
        case Statements(lines):
            return {"part": "statements", "lines": [{"mark": line.mark, "words": _words(line.words)} for line in lines]}
        case Prose(text, kind):
            return {"part": "prose", "kind": kind, "text": _words(text)}
        case BulletList(lines, kind):
            return {"part": "list", "kind": kind, "lines": list(lines)}
        case Verbatim(text, language):
            return {"part": "verbatim", "language": language, "text": text}
        case VerdictGrid(title, heading, rows):
            cells = [{"name": name, "cells": list(map(_cell, of))} for name, of in rows]
            return {"part": "verdicts", "title": title, "heading": list(heading), "rows": cells}
        case TableOf(grid):
            return _table(grid)
        case GroupedTable() | FrontTable():
            return _table(part.grid)
        case Figure(_, caption, key):
            shades = [{"shade": shade, "text": text} for shade, text in key]
            return {"part": "figure", "caption": caption, "key": shades}
        case Group(parts):
            return {"part": "group", "parts": _parts(parts)}
        case Stacked(parts):
            return {"part": "stacked", "parts": _parts(parts)}
        case Fold(summary, parts, name, code):
            return {"part": "fold", "summary": summary, "name": name, "code": list(code), "parts": _parts(parts)}
        case Section(title, parts, folded, note):
            return {"part": "section", "title": title, "note": note, "folded": folded, "parts": _parts(parts)}


def _cell(cell: Cell) -> dict[str, Any]:
    return {"verdict": None if cell.verdict == "none" else cell.verdict, "words": cell.words, "number": cell.number}


def _table(grid: Grid) -> dict[str, Any]:
    return {
        "part": "table",
        "title": grid.title,
        "note": grid.note,
        "heading": list(grid.heading),
        "rows": [list(map(_words, row)) for row in grid.rows],
        "remarks": list(grid.remarks),
        "caveats": list(grid.caveats),
    }


def _words(words: Words) -> str | dict[str, Any]:
    spans = () if isinstance(words, str) else words
    verdicts = [{"verdict": span.tone, "text": span.text} for span in spans if span.tone in get_args(Verdict)]
    return {"text": plain(words), "verdicts": verdicts} if verdicts else plain(words)
