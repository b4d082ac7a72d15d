"""Numbers as every screen, page and note has them, to the two digits that their interval leaves uncertain."""

from __future__ import annotations

import math
from collections.abc import Sequence

NEAR_ONE = 0.01
"""A factor less than this off one is shown by what it is off."""
NARROW = 0.1
"""An interval of factors whose half is less than this share of its lower end has the decimals of its half."""


def percent(share: float) -> str:
    """A share in hundredths, to three digits.

    >>> percent(0.05), percent(0.0016)
    ('5 %', '0.16 %')
    """
    return f"{100 * share:.3g} %"


def factor(log: float) -> float:
    """exp(log), infinite where that is too large a number."""
    return math.exp(log) if log < 700 else math.inf


def decimals(uncertainty: float) -> int:
    """How many decimals (up to 6) show two significant digits of an uncertainty above zero.

    >>> decimals(0.0143), decimals(22.0)
    (3, 0)
    """
    if not math.isfinite(uncertainty):
        return 0
    return min(6, max(0, 1 - math.floor(math.log10(uncertainty))))


def significant(value: float) -> str:
    """Three significant digits, without an exponent where that stays short.

    >>> significant(1234.5), significant(0.5), significant(2e-7)
    ('1234', '0.500', '2e-07')
    """
    if 1000 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".") if 1e-3 <= abs(value) < 1000 else f"{value:.3g}"


def ratio(log: float) -> str:
    """A factor with three significant digits, or two of what it is off one where that is little.

    >>> ratio(0.5), ratio(0.0004)
    ('1.65', '1.00040')
    """
    found = factor(log)
    off = abs(found - 1)
    return f"{found:.{decimals(off)}f}" if 1e-6 < off < NEAR_ONE else significant(found)


def interval(estimate: float | None, low: float | None, high: float | None, *, log: bool) -> str:
    """A difference and its interval as `difference` has them; `no value` where there is none.

    >>> interval(-0.012, -0.02, -0.004, log=False)
    '-0.0120 [-0.0200, -0.0040]'
    """
    if estimate is None:
        return "no value"
    return ("×" if log else "") + with_interval(estimate, low, high, log=log, turned=False)


def with_interval(estimate: float, low: float | None, high: float | None, *, log: bool, turned: bool) -> str:
    """`estimate [low, high]`; `turned` gives the size of a fall as a positive number or a factor above one."""
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
    half = (values[2] - values[1]) / 2 if len(values) > 1 else 0.0
    return [_signed(f"{value:{sign}z.{decimals(half)}f}" if half else f"{value:{sign}z.4g}", sign) for value in values]


def _signed(number: str, sign: str) -> str:
    """Nought has no sign."""
    return number if float(number) else number.removeprefix(sign)


def _factors(values: Sequence[float]) -> list[str]:
    """Three significant digits of factors, or where their interval is narrow two of its half."""
    if len(values) == 1:
        return [ratio(math.log(values[0])) if 0 < values[0] < math.inf else significant(values[0])]
    half = (values[2] - values[1]) / 2
    if not 0 < half < NARROW * values[1]:
        return [significant(value) for value in values]
    return [f"{value:.{decimals(half)}f}" for value in values]


def chance(p: float | None) -> str:
    """A p or a level: two significant digits, and no exponent; empty where there is none.

    >>> chance(0.0314), chance(2e-7)
    ('0.031', '< 0.0001')
    """
    if p is None:
        return ""
    return "< 0.0001" if p < 1e-4 else f"{p:.{decimals(p)}f}" if p < 0.99 else f"{p:.2f}"
