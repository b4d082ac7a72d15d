"""Texts within a CSV that a spreadsheet opens: what it would read as a formula gets an apostrophe in front."""

from __future__ import annotations

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""What a formula begins with in one spreadsheet or another."""


def no_formula(text: str) -> str:
    """Return `text` as a cell that stays text. Numbers stay numbers; a leading apostrophe gets another in front.

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
