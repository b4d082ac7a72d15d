"""Words and numbers as every screen, page and note prints them: counts, lists, ordinals, times; estimates."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence

SMOKE = "smoke"  # the name of profiles that try whether a space runs


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


SIGNS = "=.,/("  # characters after which a name may be broken


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


# Numbers, rounded to two uncertain digits of their interval.

MOST_DECIMALS = 6
MOST_DIGITS = 15  # digits that a number with an exponent may have after its first: all that float64 has
MORE_DECIMALS = 2  # decimals that an estimate near zero may have beyond those of its interval
NEAR_ONE = 0.01  # a factor closer to one than this is shown with two digits of its distance from one
FIXED = (1e-5, 1e9)
"""Where the largest of the numbers that are shown together is not within this range, all of them have an exponent."""
NARROW = 0.1
"""An interval of factors with a half-width below this share of its lower end has the decimals of the half-width."""


def percent(share: float) -> str:
    """Format a share as a percentage, to three digits.

    >>> percent(0.05), percent(0.0016)
    ('5 %', '0.16 %')
    """
    return f"{100 * share:.3g} %"


def factor(log: float) -> float:
    """Return exp(log), infinite if that overflows; nan of nan."""
    return math.inf if log > 700 else math.exp(log)


def decimals(uncertainty: float) -> int:
    """Return how many decimals, up to `MOST_DECIMALS`, show two significant digits of an uncertainty above zero.

    >>> decimals(0.0143), decimals(22.0)
    (3, 0)
    """
    if not math.isfinite(uncertainty):
        return 0
    return min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(uncertainty))))


def significant(value: float) -> str:
    """Format a number to three significant digits, without an exponent where that stays short.

    >>> significant(1234.5), significant(0.5), significant(2e-7)
    ('1234', '0.500', '2e-07')
    """
    if 1000 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".") if 1e-3 <= abs(value) < 1000 else f"{value:.3g}"


def ratio(log: float) -> str:
    """Format a factor to three significant digits, or to two of its distance from one if that is small.

    >>> ratio(0.5), ratio(0.0004)
    ('1.65', '1.00040')
    """
    value = factor(log)
    off = abs(value - 1)
    return f"{value:.{decimals(off)}f}" if 1e-6 < off < NEAR_ONE else significant(value)


def interval(estimate: float | None, low: float | None, high: float | None, *, log: bool) -> str:
    """Format a difference, or a ratio if `log`, with its interval; `no value` if there is none.

    >>> interval(-0.012, -0.02, -0.004, log=False), interval(0.0093, -1.5, 1.5, log=False)
    ('-0.0120 [-0.0200, -0.0040]', '+0.009 [-1.5, +1.5]')
    """
    if estimate is None:
        return "no value"
    return ("×" if log else "") + with_interval(estimate, low, high, log=log, turned=False)


def with_interval(estimate: float, low: float | None, high: float | None, *, log: bool, turned: bool) -> str:
    """Format `estimate [low, high]`; `turned` gives the size of a decrease as a positive number or factor above one."""
    values = [estimate]
    if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
        values += [low, high]
    if turned and estimate < 0:
        values = [-estimate, *(-value for value in reversed(values[1:]))]
    numbers = _rounded(values, log=log, sign="" if turned else "+")
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]" if len(numbers) > 1 else numbers[0]


def _rounded(values: Sequence[float], *, log: bool, sign: str) -> list[str]:
    if log:
        return _factors([factor(value) for value in values])
    half = values[2] / 2 - values[1] / 2 if len(values) > 1 else 0.0
    if not half:
        return [_signed(f"{value:{sign}z.4g}", sign) for value in values]
    if not _is_fixed(values):
        return [_signed(_scientific(value, half, sign), sign) for value in values]
    places = decimals(half)
    # An estimate that a wide interval would round to zero shows its first digit.
    first = _first_digit(values[0]) if round(values[0], places) == 0 else 0
    own = first if places < first <= min(places + MORE_DECIMALS, MOST_DECIMALS) else places
    return [_signed(f"{v:{sign}z.{p}f}", sign) for v, p in zip(values, (own, places, places), strict=True)]


def measured(value: float, uncertainty: float) -> str:
    """Format a number to the second significant digit of its uncertainty above zero.

    >>> measured(2.31049, 0.0112), measured(2.31049e-200, 1.12e-202)
    ('2.310', '2.310e-200')
    """
    if _is_fixed([value, uncertainty]):
        return f"{value:.{decimals(uncertainty)}f}"
    return _scientific(value, uncertainty, "")


def deviation(sd: float, mean: float) -> str:
    """Format a standard deviation above zero to two digits: as the mean beside it, or with an exponent if that shows 0.

    >>> deviation(0.0112, 2.31), deviation(1.12e-8, 2.31)
    ('0.011', '1.1e-08')
    """
    shown = f"{sd:.{decimals(sd)}f}"
    return shown if _is_fixed([sd, mean]) and float(shown) else f"{sd:.1e}"


def _is_fixed(values: Sequence[float]) -> bool:
    largest = max(map(abs, values))
    return not math.isfinite(largest) or FIXED[0] <= largest < FIXED[1]


def _scientific(value: float, uncertainty: float, sign: str) -> str:
    """Format a number with an exponent, to the second significant digit of its uncertainty, and two digits at least."""
    if not value:
        return "0"
    further = math.floor(math.log10(abs(value))) - math.floor(math.log10(uncertainty)) + 1
    return f"{value:{sign}.{min(max(further, 1), MOST_DIGITS)}e}"


def _first_digit(value: float) -> int:
    return -math.floor(math.log10(abs(value))) if value else 0


def _signed(number: str, sign: str) -> str:
    return number if float(number) else number.removeprefix(sign)


def _factors(values: Sequence[float]) -> list[str]:
    """Format factors to three significant digits, or if their interval is narrow to two digits of its half-width."""
    if len(values) == 1:
        return [ratio(math.log(values[0])) if 0 < values[0] < math.inf else significant(values[0])]
    half = (values[2] - values[1]) / 2
    if not 0 < half < NARROW * values[1]:
        return [significant(value) for value in values]
    return [f"{value:.{decimals(half)}f}" for value in values]


def chance(p: float | None) -> str:
    """Format a p-value or a level: two significant digits, no exponent; empty if there is none.

    >>> chance(0.0314), chance(2e-7)
    ('0.031', '< 0.0001')
    """
    if p is None:
        return ""
    return "< 0.0001" if p < 1e-4 else f"{p:.{decimals(p)}f}" if p < 0.99 else f"{p:.2f}"
