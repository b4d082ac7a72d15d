"""Rows of a query as a table, as CSV, as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich import box
from rich.table import Table

DIGITS = 6


def as_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """For a person: floats to six significant digits, nothing cut off, the number of rows below."""
    count = f"{len(rows)} row" + ("" if len(rows) == 1 else "s")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, caption=count, caption_justify="left")
    for index, column in enumerate(columns):
        numeric = any(
            isinstance(row[index], int | float | Decimal) and not isinstance(row[index], bool) for row in rows
        )
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """RFC 4180, header first, floats in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def as_json(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A list of objects; a float that is not finite is the text `NaN`, `Infinity` or `-Infinity`."""
    return json.dumps(
        [{c: _plain(v) for c, v in zip(columns, row, strict=True)} for row in rows], indent=2, default=str
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
