"""The rows of a query as a table, as CSV, as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table

from ablate.output.escape import no_formula
from ablate.output.terminal import Text
from ablate.source.problems import drawn

DIGITS = 6
LOGARITHMS = ("estimate", "adjusted_low", "adjusted_high")
"""Columns of effects and verdicts that hold logarithms for metrics on the log scale."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The rows for the terminal: a table if it is no wider than that, else each row as a list of names and values.

    `folded` keeps the table and wraps its cells. Floats have six significant digits. `no_rows` is shown for no rows.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    folded: bool = False
    no_rows: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows and self.no_rows:
            yield Text(self.no_rows)
            return
        table = self._table()
        if (
            self.folded
            or Measurement.get(console, options.update(max_width=10_000), table).maximum <= options.max_width
        ):
            yield table
        else:
            yield from self._records()
        yield Text(f"{len(self.rows)} row" + ("" if len(self.rows) == 1 else "s"), style="dim")
        if self._may_be_logarithms():
            yield Text(
                "For metrics that are judged with `scale: log`, estimate, sd, margin and the ends of intervals are "
                "natural logarithms of ratios; the columns ratio, ratio_low, … of `effects` hold the ratios.",
                style="dim",
            )

    def _may_be_logarithms(self) -> bool:
        if not set(LOGARITHMS) & set(self.columns):
            return False
        return "scale" not in self.columns or "log" in {row[list(self.columns).index("scale")] for row in self.rows}

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for index, column in enumerate(self.columns):
            values = [row[index] for row in self.rows]
            numeric = any(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in values)
            table.add_column(Text(drawn(column)), justify="right" if numeric else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(_cell(value) for value in row))
        return table

    def _records(self) -> Iterator[RenderableType]:
        for number, row in enumerate(self.rows, 1):
            record = Table.grid(padding=(0, 2))
            record.add_column(style="dim", no_wrap=True)
            record.add_column(overflow="fold")
            for column, value in zip(self.columns, row, strict=True):
                record.add_row(Text(drawn(column)), _cell(value))
            yield Text(f"row {number}", style="bold")
            yield record


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, spreadsheet: bool = False) -> str:
    """CSV by RFC 4180, floats in full; a `spreadsheet` gets a byte order mark, and apostrophes before formulas."""
    text = io.StringIO(newline="")
    # With this line terminator the csv module quotes cells with carriage returns as well as line feeds.
    writer = csv.writer(text, lineterminator="\r\n")
    for row in (columns, *rows):
        writer.writerow([no_formula(cell) if spreadsheet and isinstance(cell, str) else cell for cell in row])
        text.seek(text.tell() - 2)
        text.truncate()
        text.write("\n")
    return ("\ufeff" if spreadsheet else "") + text.getvalue()


def as_json(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a list of objects; a float that is not finite is the text `NaN`, `Infinity` or `-Infinity`.

    Of columns with the same name all but the first have their place in the table behind it: `n`, `n:2`.
    """
    names = [c if c not in columns[:place] else f"{c}:{place + 1}" for place, c in enumerate(columns)]
    return json.dumps([dict(zip(names, map(_plain, row), strict=True)) for row in rows], indent=2, default=str)


def _cell(value: Any) -> Text:
    """Return a value literally: brackets are not markup, and nothing moves the cursor."""
    if value is None:
        return Text("")
    shown = f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
    return Text("\n".join(drawn(line) for line in shown.split("\n")))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):  # a structure or a map
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
