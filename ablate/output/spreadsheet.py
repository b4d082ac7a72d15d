"""Texts within a CSV that a spreadsheet opens: what it would take for a formula has an apostrophe in front."""

from __future__ import annotations

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""What a formula begins with, to one spreadsheet or another."""


def no_formula(text: str) -> str:
    """`text` as a cell that stays text. A number stays one; an apostrophe that was there gets another before it.

    >>> no_formula("+qk_norm"), no_formula("+1.5e-3"), no_formula("'a")
    ("'+qk_norm", '+1.5e-3', "''a")
    """
    if not text.startswith((*FORMULAS, "'")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
