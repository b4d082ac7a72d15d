"""The metrics of a table: which columns are judged and how, `loss`, `kurtosis:log:margin=5%`, and cells as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

from pydantic import ValidationError

from ablate.source.problems import Problems, quote
from ablate.space.documents import Judged
from ablate.store.table_files import Table

MARGIN = "margin="
SETTINGS = ("log", "linear", "lower", "higher", MARGIN)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetric:
    """A column and how it is judged."""

    name: str
    judged: Judged


def read_metrics(table: Table, texts: Sequence[str], margin: str, problems: Problems) -> tuple[TableMetric, ...]:
    """Read the columns that are judged; mistakes are noted.

    A text is the name of a column, followed by settings after colons: `log`, `higher`, `margin=5%`. If a column's own
    name has colons, its whole name is taken first.
    """
    if not texts:
        ways = (f"--metric is one of its columns: {', '.join(table.columns)}",)
        problems.add(f"which column of {table.name} is to be judged?", notes=ways)
    metrics: dict[str, TableMetric] = {}
    for text in texts:
        name, settings = _parts(text, table)
        if name not in table.columns:
            message = f"{table.name} has no column {quote(name)}"
            problems.add_unknown(message, None, name, table.columns, "--metric is one of its columns")
        elif table.columns.count(name) > 1:
            problems.add(f"{table.name} has two columns {quote(name)}", notes=("name them differently",))
        if name in metrics:
            problems.add(f"--metric {quote(name)} is given twice", notes=("give it once, with all its settings",))
        metrics[name] = TableMetric(name=name, judged=_judged(name, settings, margin, problems))
    return tuple(metric for metric in metrics.values() if metric.name in table.columns)


def _parts(text: str, table: Table) -> tuple[str, list[str]]:
    """Split a text into the longest column name that it begins with, else the part before a colon, and its settings."""
    if text in table.columns:
        return text, []
    known = [column for column in table.columns if text.startswith(f"{column}:")]
    name = max(known, key=len) if known else text.partition(":")[0]
    rest = text[len(name) + 1 :]
    return name, rest.split(":") if rest or text.endswith(":") else []


def _judged(name: str, settings: Sequence[str], margin: str, problems: Problems) -> Judged:
    """Return how a column is judged; wrong settings are noted, and left out."""
    scale: Literal["linear", "log"] = "linear"
    better: Literal["lower", "higher"] = "lower"
    own = margin
    for setting in settings:
        if setting in ("log", "linear"):
            scale = "log" if setting == "log" else "linear"
        elif setting in ("lower", "higher"):
            better = "higher" if setting == "higher" else "lower"
        elif setting.startswith(MARGIN):
            own = setting.removeprefix(MARGIN)
        else:
            message = f"--metric {name}:{setting}: {quote(setting)} is not a setting of a metric"
            problems.add_unknown(message, None, setting, SETTINGS, "the settings are")
    return _with_margin(name, own, scale, better, problems)


def _with_margin(
    name: str, text: str, scale: Literal["linear", "log"], better: Literal["lower", "higher"], problems: Problems
) -> Judged:
    plain = text.replace(" ", "")
    try:
        margin: float | str = plain if plain == "none" or plain.endswith("%") else float(plain)
        return Judged(margin=margin, scale=scale, better=better)
    except (ValueError, ValidationError):
        ways = ("give a share of the baseline's mean such as 1%, a number above zero, or none",)
        problems.add(f"{quote(text)} is not a margin of {name}", notes=ways)
        return Judged(margin="none", scale=scale, better=better)


def number_of(cell: Any) -> float | str | None:
    """Return a cell as a number: None if it is empty, and a text that is not a number unchanged.

    >>> number_of("2.5e-1"), number_of("inf"), number_of(""), number_of("1,5")
    (0.25, inf, None, '1,5')
    """
    if cell is None or cell == "":
        return None
    if isinstance(cell, Real | Decimal) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:  # a whole number beyond all floats
            return str(cell)[:40]
    text = str(cell).strip()
    if isinstance(cell, bool) or not NUMBER.fullmatch(text):
        return text or None
    return float(text) if math.isfinite(float(text)) or not text.lstrip("+-")[0].isdigit() else text
