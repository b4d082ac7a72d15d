"""The date of a claim in words: before or after its results, and what has changed since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ablate.output.words import plural
from ablate.verdict.stamp import Stamp

MOST_ON_A_SCREEN = 4
"""The most changes that a sentence lists; the page, JSON and SQL have all."""
ID_DIGITS = 8


def short(stamp: Stamp, here: str) -> str:
    """Return a stamp for a sentence about a claim of the space `here`."""
    return _told(stamp, here, _few(stamp.changes))


def full(stamp: Stamp, here: str) -> str:
    """Return a stamp with every change."""
    return _told(stamp, here, stamp.changes)


def _told(stamp: Stamp, here: str, changes: Sequence[str]) -> str:
    where = f" in {stamp.space}" if stamp.space not in ("", here) else ""
    by = f" (plan {stamp.plan[:ID_DIGITS]}{where})" if stamp.plan else ""
    if stamp.stamped == "not dated":
        told = ["not dated yet: a run keeps it with its date"]
    elif stamp.stamped == "before results":
        told = [f"stated before results, on {moment(stamp.at)}{by}"]
    else:
        place = f" in {stamp.known_in}" if stamp.known_in not in ("", here) else ""
        when = "not dated" if stamp.at is None else f"stated on {moment(stamp.at)}{by}"
        told = [f"after results: {when}, and what it compares had results on {moment(stamp.known_at)}{place}"]
    if changes:
        told.append(f"since then {', '.join(changes)}")
    if stamp.was:
        told.append(f"before it was: {'; '.join(stamp.was)}")
    return "; ".join(told)


def _few(changes: Sequence[str]) -> Sequence[str]:
    left = len(changes) - MOST_ON_A_SCREEN
    return (*changes[:MOST_ON_A_SCREEN], f"and {plural(left, 'more change')}") if left > 0 else changes


def moment(at: float | None) -> str:
    """Return a moment in words.

    >>> moment(0.0), moment(None)
    ('1970-01-01 00:00 UTC', 'a date that was not recorded')
    """
    return "a date that was not recorded" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
