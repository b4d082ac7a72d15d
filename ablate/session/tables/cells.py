"""Cells of a table as names, seeds and numbers, and those that hold nothing, as spreadsheets and loggers say it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from numbers import Real

from ablate.verdict.seeds import Seed

NOTHING = frozenset(("", "na", "n/a", "#n/a", "<na>", "none", "null", "nil", "-", "–", "—", "."))
"""The spellings of an empty cell, in lower case."""
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
"""A seed that is a number; one with more digits is a name."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
"""A number with a decimal comma, or with one between thousands."""
DIVERGED = "diverged"
"""The word that stands for nan in a cell."""


def is_nothing(cell: object) -> bool:
    """Return whether a cell is empty, or says that it is.

    >>> is_nothing("N/A"), is_nothing(None), is_nothing("nan"), is_nothing(0)
    (True, True, False, False)
    """
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in NOTHING)


def name_of(cell: object) -> str:
    """Return a cell as a name: 3.0 is 3, since data frames with missing cells have whole numbers as floats."""
    if is_nothing(cell) or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def seeds_of(cells: Sequence[object]) -> tuple[Seed | None, ...]:
    """Read seeds as whole numbers if all of them are, else as names; None for an empty cell."""
    names = [name_of(cell) for cell in cells]
    whole = all(WHOLE.fullmatch(name) for name in names if name)
    return tuple(None if not name else int(name) if whole else name for name in names)


def has_decimal_commas(cells: Sequence[object]) -> bool:
    """Return whether some cells are numbers with a comma, and no cell has a point in one."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    return any(map(COMMA.fullmatch, texts)) and not any("." in text for text in texts if NUMBER.fullmatch(text))


def number_of(cell: object, *, comma: bool = False) -> float | str | None:
    """Return a cell as a number: None if it is empty, and a text that is not a number unchanged.

    A duration is its seconds. `comma`: numbers have decimal commas.

    >>> number_of("2.5e-1"), number_of("inf"), number_of("NA"), number_of("1,5"), number_of("1,5", comma=True)
    (0.25, inf, None, '1,5', 1.5)
    """
    if is_nothing(cell):
        return None
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    if isinstance(cell, Real | Decimal) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:  # a whole number beyond all floats
            return str(cell)[:40]
    text = str(cell).strip()
    if text.lower() == DIVERGED:
        return math.nan
    if comma and COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if isinstance(cell, bool) or not NUMBER.fullmatch(text):
        return text
    return float(text) if math.isfinite(float(text)) or not text.lstrip("+-")[0].isdigit() else text
