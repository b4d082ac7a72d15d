"""Ordered numbers: `{between: [0.1, 1], points: 10, scale: log}`, read into the numbers that it stands for.

They run from the lower end to the higher one, both included, evenly spaced (`linear`) or evenly spaced in their
logarithms (`log`), each rounded to six significant digits. They are computed in decimal arithmetic, so that they are
the same on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal

from ablate.block.scalars import Invalid, shown
from ablate.grammar.derivation import Scale
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, nearest

KEYS = ("between", "points", "scale")
SCALES: tuple[Scale, ...] = ("linear", "log")
MOST_POINTS = 1_000
DIGITS = 6
LARGEST = 1e300
"""The largest number that arithmetic accepts."""
WRITTEN = "such as {between: [0.1, 1], points: 10, scale: linear}; scale is linear or log"
EXACT = Context(prec=30)
ROUNDED = Context(prec=DIGITS)


@dataclass(frozen=True, slots=True)
class Between:
    """Distinct numbers in ascending order, and how they are spaced."""

    numbers: tuple[int | float, ...]
    scale: Scale


def read_between(located: Mapping, problems: Problems) -> Between:
    """Read the numbers of a choice between two; raises Invalid after noting every mistake."""
    complete = _check_keys(located, problems)
    ends, points, scale = (located.get(key) for key in KEYS)
    low_high = None if ends is None else _ends(ends, problems)
    number = None if points is None else _points(points, problems)
    how = None if scale is None else read_scale(scale, problems)
    if how == "log" and low_high is not None and low_high[0] <= 0:
        assert isinstance(ends, Items)
        problems.add("a log scale needs numbers above 0", ends.items[0].span, notes=("or use scale: linear",))
        how = None
    if not complete or low_high is None or number is None or how is None:
        raise Invalid
    numbers = tuple(as_plain(value) for value in spaced(*low_high, number, how))
    if len(set(numbers)) < number:
        message = f"these {number} numbers are not distinct at {DIGITS} significant digits"
        problems.add(message, located["points"].span, notes=("use fewer points, or ends that are further apart",))
        raise Invalid
    return Between(numbers, how)


def spaced(low: Decimal, high: Decimal, points: int, scale: Scale) -> tuple[Decimal, ...]:
    """Compute `points` numbers from `low` to `high`, both included, rounded to six significant digits."""
    steps = Decimal(points - 1)
    if scale == "linear":
        width = EXACT.subtract(high, low)
        inner = [EXACT.add(low, EXACT.divide(EXACT.multiply(width, Decimal(i)), steps)) for i in range(1, points - 1)]
    else:
        start, width = EXACT.ln(low), EXACT.subtract(EXACT.ln(high), EXACT.ln(low))
        logs = (EXACT.divide(EXACT.multiply(width, Decimal(i)), steps) for i in range(1, points - 1))
        inner = [EXACT.exp(EXACT.add(start, log)) for log in logs]
    return tuple(ROUNDED.plus(number) for number in (low, *inner, high))


def as_plain(number: Decimal) -> int | float:
    """Return a number as YAML would read it: a whole one without a point is an int."""
    value = float(number)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _check_keys(located: Mapping, problems: Problems) -> bool:
    """Return whether all keys are present, and no others; if not, note it."""
    unknown = [key for key, _ in located.entries if key.value not in KEYS]
    for key in unknown:
        problems.add_unknown(f"a choice between numbers has no {shown(key)}", key.span, key.text, KEYS, "it has")
    missing = [key for key in KEYS if key not in located]
    meant = {nearest(key.text, missing) for key in unknown}
    for word in missing:
        if word not in meant:
            message = f"a choice between numbers needs `{word}`"
            problems.add(message, located.span, notes=(WRITTEN,))
    return not unknown and not missing


def _ends(located: Located, problems: Problems) -> tuple[Decimal, Decimal] | None:
    if not isinstance(located, Items) or len(located) != 2:
        problems.add("between takes two numbers, the lower one first", located.span, notes=(WRITTEN,))
        return None
    low, high = (read_number(item, "between takes numbers", problems) for item in located)
    if low is None or high is None:
        return None
    if low >= high:
        problems.add("between must go from a lower number to a higher one", located.span, notes=(WRITTEN,))
        return None
    return low, high


def read_number(located: Located, expected: str, problems: Problems) -> Decimal | None:
    """Read a finite number of at most six significant digits; None after a mistake. `expected` is what is said of any
    other value.
    """
    value = located.value if isinstance(located, Scalar) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        got = f", got {shown(located)}" if isinstance(located, Scalar) else ""
        problems.add(f"{expected}{got}", located.span, notes=("plain numbers: no sizes, no arithmetic",))
        return None
    if not abs(value) <= LARGEST:
        problems.add("this number is too large" if math.isfinite(value) else "a number must be finite", located.span)
        return None
    exact = Decimal(str(value))
    if exact != ROUNDED.plus(exact):
        notes = (f"the numbers between the ends are rounded to {DIGITS} digits too",)
        problems.add(f"an end may have at most {DIGITS} significant digits", located.span, notes=notes)
        return None
    return exact


def _points(located: Located, problems: Problems) -> int | None:
    value = located.value if isinstance(located, Scalar) else None
    if type(value) is not int or not 2 <= value <= MOST_POINTS:
        problems.add(f"points must be a whole number from 2 to {MOST_POINTS}", located.span)
        return None
    return value


def read_scale(located: Located, problems: Problems) -> Scale | None:
    """Read how numbers are spaced; None after a mistake."""
    scale = next((scale for scale in SCALES if isinstance(located, Scalar) and located.value == scale), None)
    if scale is None and isinstance(located, Scalar):
        problems.add_unknown(f"unknown scale {shown(located)}", located.span, located.text, SCALES, "one of")
    elif scale is None:
        problems.add(f"scale must be {' or '.join(SCALES)}", located.span)
    return scale
