"""The terminal when a search is over: the answer, the front, what fresh seeds say, and how it came about, in brief.

What it leaves out is on the page, and it says how much that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

from ablate.output.terminal import Text
from ablate.report import footnotes
from ablate.report.searched import answer, ask_next, confirmed, course, defined, rows
from ablate.report.searched.reckoned import Reckoned, reckon
from ablate.report.searched.record import Entry, SearchRecord
from ablate.report.tables import add_block, bullet_list, heading_line, new_table

MOST = 6
"""Blocks of a front, beside the reference, that the screen shows; the page has all."""
DESCRIBED = 4
"""Blocks whose edits the screen lists."""


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
        yield from bullet_list("!", [*answer.warnings(record, found), *course.failures(record)])
        if found.compared:
            yield from _front(record, found, console, options)
            yield from _edits(record, found)
        yield from _confirmed(record, console, options)
        yield Text("Course", style="bold")
        yield from bullet_list("•", course.counts(record, found))
        yield from _next(record, found)
        yield from bullet_list("·", defined.briefly(record), style="dim")


def shown(record: SearchRecord, found: Reckoned, most: int = MOST) -> list[Entry]:
    """The reference and so many of `rows.shown_blocks`: the chosen first, then those that beat the reference.

    They stand in the order in which they stand there.
    """
    blocks = rows.shown_blocks(record, found)
    beating = {record.entries[place].number for place in found.beating}
    order = sorted(blocks[1:], key=lambda one: (one.name not in record.chosen, one.number not in beating))
    kept = {one.number for one in [*blocks[:1], *order[:most]]}
    return [one for one in blocks if one.number in kept]


def _front(
    record: SearchRecord, found: Reckoned, console: Console, options: ConsoleOptions
) -> Iterable[RenderableType]:
    blocks = shown(record, found)
    yield heading_line(*rows.front_title(record, found))
    tables = (_wide_front, _long_front, _longest_front)
    yield fitting(console, options, *(table(record, found, blocks) for table in tables))
    yield from _more(len(rows.shown_blocks(record, found)) - len(blocks))
    yield Text()


def _edits(record: SearchRecord, found: Reckoned) -> Iterable[RenderableType]:
    blocks = rows.described(record, found)
    if not blocks:
        return
    yield heading_line("Edits", f"from {record.reference}; what each changes is on the page")
    list_ = Table.grid(padding=(0, 1))
    list_.add_column(no_wrap=True)
    list_.add_column(overflow="fold")
    for entry in blocks[:DESCRIBED]:
        list_.add_row(Text(entry.name, style="bold"), Text("; ".join(entry.edits) or "none"))
    yield list_
    yield from _more(len(blocks) - DESCRIBED)
    yield Text()


def _more(count: int) -> Iterable[RenderableType]:
    if count > 0:
        yield Text(f"and {count} more on the page", style="dim")


def _wide_front(record: SearchRecord, found: Reckoned, blocks: Sequence[Entry]) -> Table:
    """A row for each block, the difference beside the value."""
    table = new_table()
    table.add_column("\nblock", no_wrap=True)
    for objective in record.objectives:
        table.add_column(f"\n{objective.metric}", no_wrap=True, justify="right")
        table.add_column(f"against\n{record.reference}", no_wrap=True, justify="right")
    for heading in rows.SIZE:
        table.add_column(f"\n{heading}", no_wrap=True, justify="right")
    for entry in blocks:
        name = Text(entry.name, style="bold")
        if entry.number == 0:
            name.append(f"\n{rows.standing(found)}", style="not bold dim")
        pairs = (cell for pair in rows.cells(entry, record) for cell in pair)
        table.add_row(name, *pairs, *rows.size(entry, record))
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


def fitting(console: Console, options: ConsoleOptions, *tables: Table) -> Table:
    """The first that is not wider than the screen; else the last, which then folds."""
    unbounded = options.update(max_width=1_000)
    fits = (table for table in tables if Measurement.get(console, unbounded, table).maximum <= options.max_width)
    return next(fits, tables[-1])


def _confirmed(record: SearchRecord, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
    summary = record.confirmed
    if summary is None:
        return
    seeds = ", ".join(map(str, record.confirm_seeds))
    yield heading_line("Confirmed", f"at seeds {seeds} on the verdict split; the search has seen neither")
    yield fitting(console, options, confirmed.table(record, summary, wide=True), confirmed.table(record, summary))
    yield Text()
    yield from bullet_list("!", [*footnotes.peculiarities(summary), *summary.notes])


def _next(record: SearchRecord, found: Reckoned) -> Iterable[RenderableType]:
    yield Text("Next", style="bold")
    yield Text(f"To {'go on with' if record.partial else 'repeat'} this search:")
    yield _commands(record.again)
    chosen = ask_next.chosen(record, found)
    if chosen is not None:
        yield Text(ask_next.briefly(record, chosen))
        yield _commands(*ask_next.COMMANDS)
    yield Text()


def _commands(*lines: str) -> Padding:
    return Padding(Text("\n".join(lines), overflow="fold"), (0, 0, 0, 2))
