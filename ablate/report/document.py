"""A report as a value: sections of sentences, tables and figures, which each renderer shows in its own way.

Each renderer shows the same parts in the same order, leaves out what it cannot show and says where to find it. Texts
are plain: text between backticks is code, and escaping is up to the renderer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ablate.verdict.summary import Verdict

Tone: TypeAlias = Verdict | Literal["plain", "strong", "faint"]
"""The role of words: the subject of a sentence (`strong`), secondary text (`faint`), or a verdict."""


@dataclass(frozen=True, slots=True)
class StyledText:
    text: str
    tone: Tone = "plain"


Words: TypeAlias = str | tuple[StyledText, ...]  # a text, or several parts that differ in tone


def plain(words: Words) -> str:
    """Return the words without their tones.

    >>> plain((StyledText("op", "strong"), StyledText(": "), StyledText("better", "better")))
    'op: better'
    """
    return words if isinstance(words, str) else "".join(span.text for span in words)


@dataclass(frozen=True, slots=True)
class Lead:
    """The answer, which is read first: a paragraph for each sentence."""

    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer: its mark is • for one change, → for all together, ~ for noise."""

    words: Words
    mark: Literal["•", "→", "~"] = "•"


@dataclass(frozen=True, slots=True)
class Statements:
    lines: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph. A `note` explains what follows, a `warning` says that it is not final."""

    text: Words
    kind: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list: plain, of caveats (`beware`), of what was `unequal`, of what is detectable (`power`), or of remarks."""

    lines: tuple[str, ...]
    kind: Literal["plain", "beware", "unequal", "power", "remarks"] = "plain"


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A verbatim text: a command, a file, a block. `small` if it is long and rarely read."""

    text: str
    language: str = ""
    small: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a comparison on a metric: the verdict, its words, and the difference."""

    verdict: Verdict | Literal["none"]
    words: str = ""
    number: str = ""


@dataclass(frozen=True, slots=True)
class VerdictGrid:
    title: str
    heading: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table; `numbers` and `whole` are the places of columns with numbers, and of those that must not be wrapped."""

    title: str
    note: str
    heading: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    numbers: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table, with its title or without (`titled`), and with its note, remarks and caveats or without (`bare`)."""

    grid: Grid
    titled: bool = True
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of groups: its heading, and the kind of its cells.

    Columns with a `line` are merged into one where they do not fit; a `roomy` one is left out where space is tight.
    """

    heading: str
    kind: Literal["name", "metric", "text", "number", "verdict"] = "text"
    line: int = 0
    roomy: bool = False


@dataclass(frozen=True, slots=True)
class RowGroup:
    name: str
    counts: str
    rows: tuple[tuple[Words, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedTable:
    """A table of comparisons or variants, each with a row for every metric; the first column names them.

    Its columns stand side by side on screens of at least `side_by_side` characters, or wherever they fit if None.
    `room` is the number of characters per line of a name on such a screen, and on a narrower one.
    """

    title: str
    note: str
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]
    side_by_side: int | None = None
    room: tuple[int, int] = (16, 16)

    @property
    def grid(self) -> Grid:
        names = [f"{group.name} ({group.counts})" if group.counts else group.name for group in self.groups]
        return Grid(
            title=self.title,
            note=self.note,
            heading=tuple(column.heading for column in self.columns),
            rows=tuple((name, *row) for name, group in zip(names, self.groups, strict=True) for row in group.rows),
            numbers=tuple(place for place, column in enumerate(self.columns) if column.kind == "number"),
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A block that a search found: its value in each objective with the difference to the reference, and its size.

    `standing` is that of the reference among the others, empty for those.
    """

    name: str
    standing: str
    values: tuple[tuple[str, str], ...]
    size: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontTable:
    title: str
    note: str
    reference: str
    objectives: tuple[str, ...]
    sizes: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    remarks: tuple[str, ...] = ()

    @property
    def grid(self) -> Grid:
        pairs = [heading for metric in self.objectives for heading in (metric, f"against {self.reference}")]
        return Grid(
            title=self.title,
            note=self.note,
            heading=("block", *pairs, *self.sizes),
            rows=tuple(
                (
                    f"{block.name} ({block.standing})" if block.standing else block.name,
                    *(text for pair in block.values for text in pair),
                    *block.size,
                )
                for block in self.candidates
            ),
            numbers=tuple(range(1, 1 + len(pairs) + len(self.sizes))),
            remarks=self.remarks,
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its caption, and the key of its shades: each with its meaning."""

    svg: str
    caption: str
    key: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that stand side by side where there is room: figures, each with what belongs to it."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Stacked:
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Parts that a click opens, under a summary. `name` stands before the summary, `code` after it."""

    summary: str
    parts: tuple[Part, ...]
    name: str = ""
    code: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under a heading, with a note on what they are; `folded` if they are closed at first."""

    title: str
    parts: tuple[Part, ...]
    folded: bool = False
    note: str = ""


Part: TypeAlias = (
    "Lead | Statements | Prose | BulletList | Verbatim | VerdictGrid | TableOf | GroupedTable | FrontTable | Figure | "
    "Group | Stacked | Fold | Section"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """A report: its title (the question; none if it continues another), a short description, and its parts in order."""

    title: str
    about: tuple[str, ...]
    parts: tuple[Part, ...] = field(default=())
