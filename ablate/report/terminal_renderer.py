"""A report on a terminal of any width. Words carry every verdict; colour only repeats them.

What does not fit side by side is stacked, and nothing is cut off. Folded parts are only named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

from ablate.output.terminal import Text
from ablate.output.words import SIGNS, wrapped
from ablate.report import document as doc
from ablate.report.document import plain

STYLES: Mapping[doc.Tone, str] = {
    "better": "green",
    "worse": "red",
    "higher": "bright_blue",
    "lower": "blue",
    "better_by_rank": "bold green",
    "worse_by_rank": "bold red",
    "higher_by_rank": "bold bright_blue",
    "lower_by_rank": "bold blue",
    "equivalent": "cyan",
    "undecided": "yellow",
    "diverged": "bold magenta",
    "plain": "",
    "strong": "bold",
    "faint": "dim",
}

MARKS = {"plain": "•", "beware": "!", "unequal": "≠", "power": "~", "remarks": "·"}

ROOMY = 128  # width in columns from which space is not tight

UNBOUNDED = 1_000  # width in columns of a screen on which everything fits side by side

GAP = 2

SHORTEST_METRIC = 5  # characters that the name of a metric keeps, however narrow the screen


@dataclass(frozen=True)
class Screen:
    document: doc.ReportDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.document.title:
            yield Text(self.document.title, style="bold")
            yield Text("\n".join(self.document.about), style="dim")
            yield Text()
        yield from _Layout(console, options).parts(self.document.parts)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The parts of a report on one terminal; an empty line follows each except a paragraph."""

    console: Console
    options: ConsoleOptions

    def parts(self, parts: Iterable[doc.Part]) -> Iterator[RenderableType]:
        for are_folds, group in groupby(parts, lambda part: isinstance(part, doc.Fold)):
            if are_folds:
                yield _folds([part for part in group if isinstance(part, doc.Fold)])
            else:
                for part in group:
                    yield from self._part(part)

    def _part(self, part: doc.Part) -> Iterator[RenderableType]:
        match part:
            case doc.Lead(sentences):
                yield from (*map(Text, sentences), Text())
            case doc.Statements(lines):
                yield from _list([(line.mark, text(line.words)) for line in lines])
            case doc.Prose(words, kind):
                yield text(words, {"plain": "", "note": "dim", "warning": "bold yellow"}[kind])
                if kind == "warning":
                    yield Text()
            case doc.BulletList(lines, kind):
                yield from _bullets(lines, kind)
            case doc.Verbatim(code):
                yield Padding(Text(code.rstrip("\n"), overflow="fold"), (0, 0, 0, 2))
            case doc.VerdictGrid():
                yield from _titled(part.title, "", _verdict_grid(part))
            case doc.TableOf(grid, titled, bare):
                if titled and not bare:
                    yield _heading(grid.title, grid.note)
                if grid.rows:
                    yield self._fitting(_grid(grid), _grid(grid, folded=True))
                remarks, caveats = ((), ()) if bare else (grid.remarks, grid.caveats)
                yield from (*(Text(line, style="dim") for line in remarks), Text(), *_bullets(caveats, "beware"))
            case doc.GroupedTable(title=title, note=note):
                yield from _titled(title, note, self._grouped(part))
            case doc.FrontTable(title=title, note=note, remarks=remarks):
                tables = (_wide_front(part), _long_front(part), _longest_front(part))
                yield from _titled(title, note, self._fitting(*tables), remarks)
            case doc.Group(parts) | doc.Stacked(parts):
                yield from self.parts(parts)
            case doc.Section(title, parts, note=note):
                inside = list(self.parts(parts))
                if inside:
                    yield from (_heading(title, note), *inside)
                if inside and str(inside[-1]):
                    yield Text()
            case doc.Fold():
                yield _folds([part])
            case doc.Figure():
                pass

    def _fitting(self, *tables: Table) -> Table:
        """Return the first table that is not wider than the screen; else the last, whose cells then wrap."""
        unbounded, most = self.options.update(max_width=UNBOUNDED), self.options.max_width
        fits = (table for table in tables if Measurement.get(self.console, unbounded, table).maximum <= most)
        return next(fits, tables[-1])

    def _grouped(self, table: doc.GroupedTable) -> Table:
        width = self.options.max_width
        table = _roomy(table, width)
        if table.side_by_side is not None:
            return _grouped(table, width, wide=width >= table.side_by_side)
        return self._fitting(_grouped(table, UNBOUNDED, wide=True), _grouped(table, width, wide=False))


def text(words: doc.Words, style: str = "") -> Text:
    if isinstance(words, str):
        return Text(words, style=style)
    return Text.assemble(*((span.text, STYLES[span.tone]) for span in words), style=style)


def _heading(title: str, note: str) -> Text:
    return Text.assemble((title, "bold"), f", {note}" if note else "")


def _titled(title: str, note: str, table: Table, remarks: Sequence[str] = ()) -> Iterator[RenderableType]:
    yield _heading(title, note)
    yield table
    yield from (*(Text(line, style="dim") for line in remarks), Text())


def _bullets(lines: Sequence[str], kind: str) -> Iterator[RenderableType]:
    style = "dim" if kind == "remarks" else ""
    yield from _list([(MARKS[kind], Text(line, style=style)) for line in lines])


def _list(lines: Sequence[tuple[str, Text]]) -> Iterator[RenderableType]:
    if lines:
        grid = _aligned()
        for line in lines:
            grid.add_row(*line)
        yield grid
        yield Text()


def _folds(folds: Sequence[doc.Fold]) -> Table:
    grid = _aligned()
    for fold in folds:
        words = " ".join(filter(None, (fold.summary, "; ".join(fold.code))))
        grid.add_row(Text(fold.name, style="bold"), Text(words))
    return grid


def _aligned() -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _new_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")


def _grid(grid: doc.Grid, *, folded: bool = False) -> Table:
    table = _new_table()
    for place, name in enumerate(grid.heading):
        side: Literal["left", "right"] = "right" if place in grid.numbers else "left"
        table.add_column(
            name, justify=side, no_wrap=not folded and place in (*grid.numbers, *grid.whole), overflow="fold"
        )
    for first, *others in grid.rows:
        table.add_row(text(first, "bold" if isinstance(first, str) else ""), *map(text, others))
    return table


def _verdict_grid(grid: doc.VerdictGrid) -> Table:
    table = _new_table()
    for heading in grid.heading:
        table.add_column(heading, overflow="fold")
    for label, cells in grid.rows:
        styles = ["" if cell.verdict == "none" else STYLES[cell.verdict] for cell in cells]
        texts = ["\n".join(filter(None, (cell.words, cell.number))) for cell in cells]
        table.add_row(Text(label, style="bold"), *map(Text, texts, styles))
    return table


def _add_group(table: Table, name: str, counts: str, rows: Sequence[Sequence[str | Text]], room: int) -> None:
    """Add rows that share a name: it runs down the first column beside them, with its counts below."""
    label = [Text(line, style="bold") for line in wrapped(name, room)] + [Text(counts, style="dim")] * bool(counts)
    if table.row_count:
        table.add_row()
    for row in rows:
        height = max(str(cell).count("\n") + 1 for cell in row)
        table.add_row(Text("\n").join(label[:height]), *row)
        label = label[height:]
    if label:
        table.add_row(Text("\n").join(label))


def _grouped(grouped: doc.GroupedTable, width: int, *, wide: bool) -> Table:
    """Return a table of groups on a screen of `width` columns: where they are too few, names of metrics are wrapped.

    So from 70 columns on, no word of a verdict is broken or cut off.
    """
    room, shown = (grouped.room[0], grouped) if wide else (grouped.room[1], _stacked(grouped))
    first, *columns = shown.columns
    cells = list(zip(*(row for group in shown.groups for row in group.rows), strict=True)) or [()] * len(columns)
    names = [line for group in shown.groups for line in (*wrapped(group.name, room), group.counts)]
    taken, least = _widest([first.heading, *names]) + GAP * len(columns), {}
    for column, below in zip(columns, cells, strict=True):
        texts = [column.heading, *map(plain, below)]
        if column.kind == "verdict":
            least[column] = max(map(len, " ".join(texts).split()))
        taken += least.get(column, 0 if column.kind == "metric" else _widest(texts))
    table = _new_table()
    table.add_column(first.heading, no_wrap=True)
    for column in columns:
        side: Literal["left", "right"] = "right" if column.kind == "number" else "left"
        whole = column.kind not in ("verdict", "name")
        past: Literal["ellipsis", "fold"] = "ellipsis" if whole else "fold"
        table.add_column(column.heading, justify=side, no_wrap=whole, overflow=past, min_width=least.get(column))
    rooms = {"metric": (max(width - taken, SHORTEST_METRIC), "_"), "name": (room, SIGNS)}
    for group in shown.groups:
        rows = [
            [_cell(words, rooms.get(column.kind)) for words, column in zip(row, columns, strict=True)]
            for row in group.rows
        ]
        _add_group(table, group.name, group.counts, rows, room)
    return table


def _roomy(table: doc.GroupedTable, width: int) -> doc.GroupedTable:
    kept = [place for place, column in enumerate(table.columns) if not column.roomy or width >= ROOMY]
    groups = [
        replace(group, rows=tuple(tuple(row[place - 1] for place in kept[1:]) for row in group.rows))
        for group in table.groups
    ]
    return replace(table, columns=tuple(table.columns[place] for place in kept), groups=tuple(groups))


def _stacked(table: doc.GroupedTable) -> doc.GroupedTable:
    """Return the table with columns that have lines merged into one, and the qualifier of a verdict below it."""
    columns = table.columns
    lines = [[p for p, c in enumerate(columns) if c.line == line] for line in sorted({c.line for c in columns} - {0})]
    first = min((place for line in lines for place in line), default=-1)

    def merge(row: Sequence[doc.Words]) -> Iterator[doc.Words]:
        for place, (words, column) in enumerate(zip(row, columns, strict=True)):
            if place == first:
                below = (", ".join(filter(None, (plain(row[p]) for p in line))) for line in lines)
                yield "\n".join(filter(None, below))
            elif column.kind == "verdict" and table.side_by_side is not None and not isinstance(words, str):
                yield tuple(replace(span, text=span.text.replace(", ", ",\n", 1)) for span in words)
            elif not column.line:
                yield words

    headings = map(plain, merge([column.heading for column in columns]))
    kept = [column for place, column in enumerate(columns) if not column.line or place == first]
    named = (
        replace(column, heading=heading, kind="text" if column.line else column.kind)
        for column, heading in zip(kept, headings, strict=True)
    )
    groups = (replace(g, rows=tuple(tuple(merge(("", *row)))[1:] for row in g.rows)) for g in table.groups)
    return replace(table, columns=tuple(named), groups=tuple(groups))


def _cell(words: doc.Words, room: tuple[int, str] | None) -> Text:
    return text("\n".join(wrapped(words, *room)) if room is not None and isinstance(words, str) else words)


def _widest(cells: Iterable[str]) -> int:
    return max(cell_len(line) for cell in cells for line in cell.split("\n"))


def _wide_front(front: doc.FrontTable) -> Table:
    table = _new_table()
    table.add_column("\nblock", no_wrap=True)
    pairs = (heading for metric in front.objectives for heading in (f"\n{metric}", f"against\n{front.reference}"))
    for heading in (*pairs, *(f"\n{size}" for size in front.sizes)):
        table.add_column(heading, no_wrap=True, justify="right")
    for block in front.candidates:
        name = Text(block.name, style="bold")
        if block.standing:
            name.append(f"\n{block.standing}", style="not bold dim")
        table.add_row(name, *(cell for pair in block.values for cell in pair), *block.size)
    return table


def _long_front(front: doc.FrontTable) -> Table:
    """A row for each block and objective, with the size of the block beside the first."""
    table = _front_table(f"against\n{front.reference}", *front.sizes)
    for block in front.candidates:
        lines = [
            (metric, *pair, *(block.size if place == 0 else ("",) * len(block.size)))
            for place, (metric, pair) in enumerate(zip(front.objectives, block.values, strict=True))
        ]
        _add_group(table, block.name, block.standing, lines, 16)
    return table


def _longest_front(front: doc.FrontTable) -> Table:
    table = _front_table("difference")
    for block in front.candidates:
        lines = [(metric, *pair) for metric, pair in zip(front.objectives, block.values, strict=True)]
        sizes = zip(front.sizes, block.size, strict=True)
        lines += [(name, size, "") if block.standing else (name, "", size) for name, size in sizes]
        _add_group(table, block.name, block.standing, lines, 20)
    return table


def _front_table(*headings: str) -> Table:
    table = _new_table()
    table.add_column("block", no_wrap=True)
    table.add_column("objective", overflow="fold")
    for heading in ("value", *headings):
        table.add_column(heading, no_wrap=True, justify="right")
    return table
