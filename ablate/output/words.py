"""Words as every screen, page and note prints them: counts, lists, ordinals, times."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

SMOKE = "smoke"
"""The name of profiles that try whether a space runs."""


def of_profile(profile: str | None) -> tuple[str, ...]:
    """Format the profile that a space was run with, for the head of what shows its results.

    >>> of_profile(None), of_profile("paper")
    ((), ('profile paper',))
    """
    if profile is None:
        return ()
    return ("smoke: its verdicts mean nothing" if profile == SMOKE else f"profile {profile}",)


def spoken(name: str) -> str:
    """Format a metric's name for a sentence.

    >>> spoken("peak_kurtosis")
    'peak kurtosis'
    """
    return name.replace("_", " ")


def plural(count: int, noun: str) -> str:
    """Format a count with its noun.

    >>> plural(1, "seed"), plural(5, "seed")
    ('1 seed', '5 seeds')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(number: int) -> str:
    """Format an ordinal, from 1.

    >>> ordinal(2), ordinal(11), ordinal(22)
    ('second', '11th', '22nd')
    """
    if number <= len(ORDINALS):
        return ORDINALS[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def listed(names: Sequence[str]) -> str:
    """Join names for a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def duration(seconds: float) -> str:
    """Format an estimated time in one or two units.

    >>> duration(42), duration(400), duration(5000), duration(300_000)
    ('40 s', '7 min', '1 h 23 min', '3 d 11 h')
    """
    if seconds < 57.5:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def took(seconds: float) -> str:
    """Format a measured time, to at most three digits or to the second.

    >>> took(4.83), took(42.2), took(400), took(5000)
    ('4.8 s', '42 s', '6 min 40 s', '1 h 23 min')
    """
    whole = round(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else duration(seconds)


SIGNS = "=.,/("
"""Characters after which a name may be broken."""


def wrapped(name: str, room: int, signs: str = SIGNS) -> list[str]:
    """Break a name into lines of at most `room` columns: between words, else after one of the signs, else anywhere.

    >>> wrapped("residual.gain=1/sqrt(2*depth)", 24)
    ['residual.gain=1/sqrt(', '2*depth)']
    """
    lines = [""]
    for piece in re.findall(rf"[^\s{signs}]*[{signs}]?\s*", name):
        for part in textwrap.wrap(piece.rstrip(), room) if len(piece.rstrip()) > room else [piece]:
            if len((lines[-1] + part).rstrip()) > room:
                lines.append("")
            lines[-1] += part
    return [line.strip() for line in lines if line.strip()]
