"""A report as a value: sections of sentences, tables and figures, which each renderer shows in its own way.

Renderers for the terminal (`terminal_renderer.py`), a browser (`html/renderer.py`), Markdown (`markdown_renderer.py`)
and programs (`json_renderer.py`) show the same parts in the same order; what one cannot show it leaves out and says
where it is. Texts are plain: what stands between backticks is code, and escaping is the renderer's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ablate.verdict.summary import Verdict

Tone: TypeAlias = Verdict | Literal["plain", "strong", "faint"]
"""How words are meant: what a sentence is about, what is beside the point, or what a verdict says."""


@dataclass(frozen=True, slots=True)
class StyledText:
    """Words of one tone within a sentence or a cell."""

    text: str
    tone: Tone = "plain"


Words: TypeAlias = str | tuple[StyledText, ...]
"""A text, or one whose parts differ in tone."""


def plain(words: Words) -> str:
    """The words without their tones.

    >>> plain((StyledText("op", "strong"), StyledText(": "), StyledText("better", "better")))
    'op: better'
    """
    return words if isinstance(words, str) else "".join(span.text for span in words)


@dataclass(frozen=True, slots=True)
class Lead:
    """The answer: the first that is read, a paragraph for each sentence."""

    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer behind its mark: • of one change, → of all together, ~ of noise."""

    words: Words
    mark: Literal["•", "→", "~"] = "•"


@dataclass(frozen=True, slots=True)
class Statements:
    """An answer, a sentence for each change."""

    lines: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph. A `note` says what follows is, a `warning` that it is not the last word."""

    text: Words
    kind: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list; of what a reader should beware of, of what was `unequal`, of what can be seen (`power`), or of remarks,
    too.
    """

    lines: tuple[str, ...]
    kind: Literal["plain", "beware", "unequal", "power", "remarks"] = "plain"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table: what it is, its rows, which columns are numbers, which are not to be broken, what
    they mean, and what to beware of.
    """

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
    """A table: under its title, or without (`titled`); with its note, remarks and what to beware of, or bare."""

    grid: Grid
    titled: bool = True
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of groups: its heading, and what its cells are.

    Where they do not fit side by side, the columns with a `line` become one whose cells have that many lines. A
    `roomy` one is left out where there is no room to spare.
    """

    heading: str
    kind: Literal["name", "metric", "text", "number", "verdict"] = "text"
    line: int = 0
    roomy: bool = False


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that share a name, and what is counted of it."""

    name: str
    counts: str
    rows: tuple[tuple[Words, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedTable:
    """A table of comparisons or variants, each with a row for every metric; the first column names them.

    Its columns stand `side_by_side` on screens from so many letters across, or where None is given wherever they fit.
    `room` is how many letters a name has on a line on such a screen, and on a narrower one.
    """

    title: str
    note: str
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]
    side_by_side: int | None = None
    room: tuple[int, int] = (16, 16)

    @property
    def grid(self) -> Grid:
        """The same with the name in every row, and what is counted of it behind."""
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

    `standing` is what the reference is among the others; of these it is empty.
    """

    name: str
    standing: str
    values: tuple[tuple[str, str], ...]
    size: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontTable:
    """The best blocks of a search by their objectives and sizes, against a reference."""

    title: str
    note: str
    reference: str
    objectives: tuple[str, ...]
    sizes: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    remarks: tuple[str, ...] = ()

    @property
    def grid(self) -> Grid:
        """The same with a row for each block."""
        pairs = [heading for metric in self.objectives for heading in (metric, f"against {self.reference}")]
        return Grid(
            title=self.title,
            note=self.note,
            heading=("block", *pairs, *self.sizes),
            rows=tuple(
                (
                    f"{one.name} ({one.standing})" if one.standing else one.name,
                    *(text for pair in one.values for text in pair),
                    *one.size,
                )
                for one in self.candidates
            ),
            numbers=tuple(range(1, 1 + len(pairs) + len(self.sizes))),
            remarks=self.remarks,
        )


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
class Section:
    """Parts under a heading, with a note on what they are; `folded` where only who looks for them opens them."""

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
    """A report: its title (the question), what asks it in short, and its parts in the order of reading.

    One that goes on from another has no title.
    """

    title: str
    about: tuple[str, ...]
    parts: tuple[Part, ...] = field(default=())
