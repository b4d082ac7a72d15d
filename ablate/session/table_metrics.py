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
    """A column, and how it is judged."""

    name: str
    judged: Judged


def read_metrics(table: Table, texts: Sequence[str], margin: str, problems: Problems) -> tuple[TableMetric, ...]:
    """The columns that are judged; what is wrong with them is noted.

    A text is the name of a column, and what follows it after colons: `log`, `higher`, `margin=5%`. A column whose name
    has a colon in it is named by itself.
    """
    if not texts:
        ways = (f"--metric is one of its columns: {', '.join(table.columns)}",)
        problems.add(f"which column of {table.name} is judged?", notes=ways)
    found: dict[str, TableMetric] = {}
    for text in texts:
        name, settings = _parts(text, table)
        if name not in table.columns:
            message = f"{table.name} has no column {quote(name)}"
            problems.add_unknown(message, None, name, table.columns, "--metric is one of its columns")
        elif table.columns.count(name) > 1:
            problems.add(f"{table.name} has two columns {quote(name)}", notes=("name them differently",))
        if name in found:
            problems.add(f"--metric {quote(name)} is given twice", notes=("name it once, with all that holds of it",))
        found[name] = TableMetric(name=name, judged=_judged(name, settings, margin, problems))
    return tuple(metric for metric in found.values() if metric.name in table.columns)


def _parts(text: str, table: Table) -> tuple[str, list[str]]:
    """The longest name of a column that it begins with, and what follows; without one, what stands before a colon."""
    if text in table.columns:
        return text, []
    known = [column for column in table.columns if text.startswith(f"{column}:")]
    name = max(known, key=len) if known else text.partition(":")[0]
    rest = text[len(name) + 1 :]
    return name, rest.split(":") if rest or text.endswith(":") else []


def _judged(name: str, settings: Sequence[str], margin: str, problems: Problems) -> Judged:
    """How a column is judged; what is wrong with that is noted, and left out."""
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
            message = f"--metric {name}:{setting}: {quote(setting)} says nothing of a metric"
            problems.add_unknown(message, None, setting, SETTINGS, "what may follow a colon")
    return _with_margin(name, own, scale, better, problems)


def _with_margin(
    name: str, text: str, scale: Literal["linear", "log"], better: Literal["lower", "higher"], problems: Problems
) -> Judged:
    plain = text.replace(" ", "")
    try:
        margin: float | str = plain if plain == "none" or plain.endswith("%") else float(plain)
        return Judged(margin=margin, scale=scale, better=better)
    except (ValueError, ValidationError):
        ways = ("it is a share of the baseline's mean such as 1%, a number above zero, or none",)
        problems.add(f"{quote(text)} is no margin of {name}", notes=ways)
        return Judged(margin="none", scale=scale, better=better)


def number_of(cell: Any) -> float | str | None:
    """A cell as a number: None where it is empty, and a text that is none, as it stands.

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
