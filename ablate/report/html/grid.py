"""A table as text: the same for the terminal, Markdown and a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table: what it is, its rows, which columns are numbers, which are not to be broken, what
    they mean, and what to beware of.
    """

    title: str
    note: str
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
