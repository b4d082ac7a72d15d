"""What screens are made of: titles, tables, lists, and the colours of verdicts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table

from ablate.output.terminal import Text
from ablate.report import wording
from ablate.verdict.summary import Effect, Summary, Verdict

STYLES: Mapping[Verdict, str] = {
    "better": "green",
    "worse": "red",
    "better_by_rank": "bold green",
    "worse_by_rank": "bold red",
    "equivalent": "cyan",
    "undecided": "yellow",
    "diverged": "bold magenta",
}

WIDE = 100
"""Columns from which a variant's mean and its difference stand side by side."""

ROOMY = 128
"""Columns from which the interval of a comparison by itself stands beside the one that goes with its verdict."""

ADJUSTED = "adjusted"
"""What an interval is called that goes with its verdict."""

GAP = 2
"""Columns between two of a table."""


def title_lines(question: str, space: str, design: str) -> Iterable[RenderableType]:
    """The question, and what asks it."""
    yield Text(question.strip() or space, style="bold")
    yield Text(f"{space} · {design}", style="dim")
    yield Text()


def heading_line(title: str, rest: str) -> Text:
    """The heading of a table, and what the table is."""
    return Text.assemble((title, "bold"), f", {rest}")


def new_table() -> Table:
    """A table as all screens have it."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")


def new_list() -> Table:
    """A list whose lines hang behind their marks."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    return grid


def bullet_list(mark: str, lines: Sequence[str], style: str = "") -> Iterable[RenderableType]:
    """Lines behind a mark, and an empty one; nothing where there are none."""
    if lines:
        grid = new_list()
        for line in lines:
            grid.add_row(mark, Text(line, style=style))
        yield grid
        yield Text()


def add_block(table: Table, name: str, counts: str, rows: Sequence[tuple[str | Text, ...]], *, room: int) -> None:
    """Rows that share a name: it runs down the first column beside them, with the counts below it."""
    label = [Text(line, style="bold") for line in wrapped(name, room)] + [Text(counts, style="dim")] * bool(counts)
    if table.row_count:
        table.add_row()
    for row in rows:
        height = max(str(cell).count("\n") + 1 for cell in row)
        table.add_row(Text("\n").join(label[:height]), *row)
        label = label[height:]
    if label:
        table.add_row(Text("\n").join(label))


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that share a name, and what is counted of it: of each the metric, what is known of it, and its verdict."""

    name: str
    counts: str
    rows: Sequence[tuple[str | Text, ...]]


SHORTEST_METRIC = 5
"""Columns that the name of a metric keeps, however narrow the screen."""


def verdict_table(
    headings: Sequence[str], blocks: Sequence[Block], *, room: int, width: int, right: Sequence[str] = ("n",)
) -> Table:
    """A table of verdicts on a screen of so many columns: where they are too few the metric's name runs over lines.

    So from 70 columns on no word of a verdict is broken or cut off.

    The second of the `headings` is that of metrics and the last that of verdicts; those at the `right` have numbers.
    """
    columns = list(zip(*(row for block in blocks for row in block.rows), strict=True)) or [()] * (len(headings) - 1)
    names = [line for block in blocks for line in (*wrapped(block.name, room), block.counts)]
    fixed = [_widest([heading, *cells]) for heading, cells in zip(headings[2:-1], columns[1:-1], strict=True)]
    least = max(map(len, " ".join([headings[-1], *map(str, columns[-1])]).split()))
    gaps = GAP * (len(headings) - 1)
    left = width - _widest([headings[0], *names]) - sum(fixed) - least - gaps
    table = new_table()
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True, justify="right" if heading in right else "left")
    table.add_column(headings[-1], overflow="fold", min_width=least)
    for block in blocks:
        rows = [("\n".join(wrapped(str(name), max(left, SHORTEST_METRIC), "_")), *rest) for name, *rest in block.rows]
        add_block(table, block.name, block.counts, rows, room=room)
    return table


def _widest(cells: Iterable[str | Text]) -> int:
    return max(cell_len(line) for cell in cells for line in str(cell).split("\n"))


def wrapped(name: str, room: int, signs: str = "=.,/(") -> list[str]:
    """A name over lines of so many columns, broken between words, else behind one of the signs, else anywhere.

    >>> wrapped("residual.gain=1/sqrt(2*depth)", 24)
    ['residual.gain=1/sqrt(', '2*depth)']
    """
    lines = [""]
    for piece in re.findall(rf"[^\s{signs}]*[{signs}]?\s*", name):
        for part in textwrap.wrap(piece.rstrip(), room) if len(piece.rstrip()) > room else [piece]:
            if len((lines[-1] + part).rstrip()) > room:
                lines.append("")
            lines[-1] += part
    return [line.strip() for line in lines if line.strip()]


def difference_heading(summary: Summary) -> str:
    """The heading over differences: what they are given with."""
    kind = interval_kind(summary)
    return f"difference ({kind})" if kind == ADJUSTED else f"difference [{kind}]"


def interval_kind(summary: Summary) -> str:
    """What the intervals shown are: `adjusted` where they go with verdicts, else the confidence of each by itself."""
    adjusted = any(effect.adjusted_low is not None for effect in summary.effects)
    return ADJUSTED if adjusted else f"{100 * summary.confidence:.4g} %"


def by_itself(effects: Iterable[Effect], summary: Summary, width: int) -> tuple[str, ...]:
    """The heading of a column of single intervals, where there are such beside others and room for them."""
    if width < ROOMY or not any(wording.single(effect) for effect in effects):
        return ()
    return (f"by itself [{100 * summary.confidence:.4g} %]",)


def single_interval(effect: Effect | None) -> Text:
    """A single interval, dimmer than the one that goes with the verdict."""
    return Text(wording.single(effect) if effect is not None else "", style="dim")


def styled(effect: Effect, *, wide: bool = True) -> Text:
    """A verdict in its colour, which what is not judged has not; where room is short, what qualifies it is below it."""
    said = wording.verdict(effect)
    style = STYLES[effect.verdict] if effect.judged else "dim"
    return Text(said if wide else said.replace(", ", ",\n", 1), style=style)
