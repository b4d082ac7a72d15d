"""The screen when a search is over: the answer, the front, what fresh seeds say, and how it came about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ablate.report.searched import answer, ask_next, course, defined, rows
from ablate.report.searched.reckoned import Reckoned, reckon
from ablate.report.searched.record import Entry, SearchRecord
from ablate.report.searched.rows import Grid
from ablate.report.tables import ResultScreen, add_block, bullet_list, heading_line, new_table

MOST = 12
"""Blocks of a front, and edits, that the screen shows; the page has all."""


@dataclass(frozen=True)
class SearchScreen:
    """What a search found, for the terminal. Nothing is cut off at 80 columns."""

    record: SearchRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, found = self.record, reckon(self.record)
        yield Text(record.question.strip() or record.space, style="bold")
        yield Text("\n".join(answer.headline(record)), style="dim")
        yield Text()
        if record.partial:
            yield Text(answer.unfinished(record), style="bold yellow")
            yield Text()
        yield from bullet_list("•", answer.answers(record, found))
        yield from bullet_list("!", answer.warnings(record, found))
        if found.compared:
            yield from _front(record, found, console, options)
        yield from _confirmed(record)
        yield from _accounts(record, found)
        yield from _next(record, found)
        yield from bullet_list("·", defined.definitions(record), style="dim")


def _front(
    record: SearchRecord, found: Reckoned, console: Console, options: ConsoleOptions
) -> Iterable[RenderableType]:
    blocks = rows.shown_blocks(record, found)[: MOST + 1]
    grid = rows.front(record, found)
    yield heading_line(grid.title, grid.note)
    yield _fitting(
        console, options, _wide_front(grid, len(blocks)), _long_front(record, found, blocks),
        _longest_front(record, found, blocks),
    )  # fmt: skip
    yield Text()
    if len(blocks) > 1:
        yield heading_line("Their edits", f"from {record.reference}; what each changes is on the page and in --json")
        list_ = Table.grid(padding=(0, 1))
        list_.add_column(no_wrap=True)
        list_.add_column(overflow="fold")
        for entry in blocks[1:]:
            list_.add_row(Text(entry.name, style="bold"), Text("; ".join(entry.edits) or "none"))
        yield list_
        yield Text()
    if more := len(grid.rows) - len(blocks):
        yield from bullet_list("!", [f"{more} more on the front: see the page, or --json"])


def _wide_front(grid: Grid, most: int) -> Table:
    """A row for each block, the difference beside the value."""
    table = new_table()
    for place, heading in enumerate(grid.heading):
        table.add_column(heading, no_wrap=True, justify="right" if place in grid.numbers else "left")
    for row in grid.rows[:most]:
        table.add_row(Text(row[0], style="bold"), *row[1:])
    return table


def _long_front(record: SearchRecord, found: Reckoned, blocks: list[Entry]) -> Table:
    """A row for each block and objective, the size of the block beside the first."""
    table = _blocks_table(f"against\n{record.reference}", *rows.SIZE)
    for entry in blocks:
        size = rows.size(entry, record)
        lines = [
            (objective.metric, *cells, *(size if place == 0 else ("", "")))
            for place, (objective, cells) in enumerate(zip(record.objectives, rows.cells(entry, record), strict=True))
        ]
        add_block(table, entry.name, "" if entry.number else rows.standing(found), lines, room=16)
    return table


def _longest_front(record: SearchRecord, found: Reckoned, blocks: list[Entry]) -> Table:
    """A row for each block and objective, and for each of its sizes."""
    table = _blocks_table("difference")
    for entry in blocks:
        lines = [
            (objective.metric, *cells)
            for objective, cells in zip(record.objectives, rows.cells(entry, record), strict=True)
        ]
        for name, size in zip(rows.SIZE, rows.size(entry, record), strict=True):
            lines.append((name, "", size) if entry.number else (name, size, ""))
        add_block(table, entry.name, "" if entry.number else rows.standing(found), lines, room=20)
    return table


def _blocks_table(*headings: str) -> Table:
    table = new_table()
    table.add_column("block", no_wrap=True)
    table.add_column("objective", overflow="fold")
    for heading in ("value", *headings):
        table.add_column(heading, no_wrap=True, justify="right")
    return table


def _fitting(console: Console, options: ConsoleOptions, *tables: Table) -> Table:
    """The first that is not wider than the screen; else the last, which then folds."""
    unbounded = options.update(max_width=1_000)
    fits = (table for table in tables if Measurement.get(console, unbounded, table).maximum <= options.max_width)
    return next(fits, tables[-1])


def _confirmed(record: SearchRecord) -> Iterable[RenderableType]:
    if record.confirmed is None:
        return
    yield heading_line(
        "Confirmed", f"at seeds {', '.join(map(str, record.confirm_seeds))}, which the search has not seen"
    )
    yield Text()
    grid = rows.left(record)
    if grid.rows:
        yield from _grid(grid)
    yield ResultScreen(record.confirmed, record.defined, titled=False)


def _accounts(record: SearchRecord, found: Reckoned) -> Iterable[RenderableType]:
    yield from _grid(course.accounts(record))
    removed = course.removed(record)
    if removed.rows:
        yield from _grid(removed)
    if progress := course.progress(record, found):
        yield from _grid(progress)
    if rungs := course.rungs(record):
        yield from _grid(rungs)
    if edits := rows.edits(record, found):
        yield from _grid(edits, most=MOST)
    yield Text("Cost", style="bold")
    yield from bullet_list("•", course.cost(record))


def _grid(grid: Grid, most: int | None = None) -> Iterable[RenderableType]:
    yield heading_line(grid.title, grid.note)
    if grid.rows:
        table = new_table()
        for place, heading in enumerate(grid.heading):
            number = place in grid.numbers
            table.add_column(heading, justify="right" if number else "left", no_wrap=number, overflow="fold")
        for row in grid.rows[:most]:
            table.add_row(*(Text(cell) for cell in row))
        yield table
    if most is not None and len(grid.rows) > most:
        yield Text(f"and {len(grid.rows) - most} more: see the page, or --json", style="dim")
    yield Text()
    yield from bullet_list("!", grid.caveats)
    yield from bullet_list("·", grid.remarks, style="dim")


def _next(record: SearchRecord, found: Reckoned) -> Iterable[RenderableType]:
    yield Text("Next", style="bold")
    yield Text(f"To {'go on with' if record.partial else 'repeat'} this search:")
    yield Padding(Text(record.again, overflow="fold"), (0, 0, 0, 2))
    entry = ask_next.chosen(record, found)
    if entry is not None:
        yield Text()
        yield Text(ask_next.how(record, entry))
        yield Text()
        yield Text(ask_next.snippet(record, entry).rstrip(), overflow="fold")
        yield Text()
        yield from bullet_list(
            "·",
            [f"{edit}: {detail}" for edit, detail in zip(entry.edits, entry.details, strict=False)],
            style="dim",
        )
    else:
        yield Text()
