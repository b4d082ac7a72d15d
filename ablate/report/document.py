"""A report as a value: sections of sentences, tables and figures, which each renderer shows in its own way.

A page for a browser (`html/renderer.py`) and Markdown (`markdown_renderer.py`) have the same parts in the same order;
what one cannot show it leaves out and says where it is. Texts are plain: what stands between backticks is code, and
escaping is the renderer's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ablate.report.html.grid import Grid
from ablate.verdict.summary import Verdict


@dataclass(frozen=True, slots=True)
class Lead:
    """The answer: the first that is read, a paragraph for each sentence."""

    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph. A `note` says what follows is, a `warning` that it is not the last word."""

    text: str
    kind: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list; of what a reader should beware of, or of remarks, too."""

    lines: tuple[str, ...]
    kind: Literal["plain", "beware", "remarks"] = "plain"


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text as it is: a command, a file, a block. `small` where it is long and hardly ever read."""

    text: str
    language: str = ""
    small: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """What was found of a comparison on a metric: the verdict, in which words, and the difference."""

    verdict: Verdict | Literal["none"]
    words: str = ""
    number: str = ""


@dataclass(frozen=True, slots=True)
class VerdictGrid:
    """Comparisons × metrics at a glance, each cell in the colour of its verdict."""

    title: str
    heading: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its caption, and the key of its shades: each with what it stands for."""

    svg: str
    caption: str
    key: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that stand side by side where there is room: figures, and what belongs to each."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Stacked:
    """Parts that belong together, one below the other, within a group."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """What is opened by a click, under words that say what it is. `name` stands before them, `code` behind."""

    summary: str
    parts: tuple[Part, ...]
    name: str = ""
    code: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table: under its title, or without (`titled`); with its note, remarks and what to beware of, or bare."""

    grid: Grid
    titled: bool = True
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under a heading; `folded` where only who looks for them opens them."""

    title: str
    parts: tuple[Part, ...]
    folded: bool = False


Part: TypeAlias = (
    "Lead | Prose | BulletList | Verbatim | VerdictGrid | Figure | Group | Stacked | Fold | TableOf | Section"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """A report: its title (the question), what asks it in short, and its parts in the order of reading."""

    title: str
    about: tuple[str, ...]
    parts: tuple[Part, ...] = field(default=())
