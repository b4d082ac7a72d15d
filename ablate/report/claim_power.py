"""The power of each claim in words, on the plan: its chance of coming true, and of coming true by mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output.numbers import ratio, significant
from ablate.output.words import listed, plural, spoken
from ablate.report.stamps import short
from ablate.statistics import POWER
from ablate.verdict.claim_power import CORRELATION, ClaimPower, Interval
from ablate.verdict.stamp import Stamp


def claim_lines(powers: Sequence[ClaimPower], stamps: Sequence[Stamp], here: str) -> Iterator[str]:
    """Yield the power of each claim of the space `here`, for what it holds, and when the claims were made.

    What several claims share is said once.
    """
    known = [power for power in powers if not power.why]
    yield from map(_line, known)
    for tested in dict.fromkeys(_tested(power) for power in known if power.scale == CORRELATION):
        yield f"correlations are tested {tested}, apart from the rest, as if each seed drew its variants anew"
    for tested in dict.fromkeys(_tested(power) for power in known if power.scale != CORRELATION):
        yield f"claims are tested {tested}; their power is for the sd of the noise floor, its interval that of the sd"
    yield from _by_text(powers, [power.why for power in powers], "no power is known of")
    yield from _by_text(powers, [short(stamp, here) for stamp in stamps], "")


def _by_text(powers: Sequence[ClaimPower], texts: Sequence[str], of: str) -> Iterator[str]:
    """Yield each text that is not empty, after the claims that have it."""
    for text in dict.fromkeys(filter(None, texts)):
        claims = [f"“{power.claim}”" for power, own in zip(powers, texts, strict=True) if own == text]
        noun = "claim" if len(claims) == 1 else "claims"
        yield f"{of} {noun} {listed(claims)}: {text}".lstrip()


def _tested(power: ClaimPower) -> str:
    over = f" over {power.tests} comparisons" if power.tests > 1 else ""
    return f"with {plural(power.n, 'seed')} at level {power.level:.2g}{over}"


def _line(power: ClaimPower) -> str:
    assert power.difference is not None and power.power is not None
    nothing = "" if power.difference.at == 0 else f"{_share(power.if_nothing)} of the time at {_nothing(power)}, and "
    return (
        f"claim “{power.claim}” ({spoken(power.metric)}, {power.of}): {_powered(power)}; it comes true {nothing}"
        f"{_share(power.if_opposite)} of the time at {_opposite(power)}"
    )


def _powered(power: ClaimPower) -> str:
    assert power.difference is not None and power.power is not None
    size, chance = power.difference, power.power
    if power.scale == CORRELATION:
        return f"{_share(chance.at)} power for one of {size.at:g} at each seed"
    if size.at == 0:
        return f"{_interval(chance)} power at no difference"
    if size.low == size.high:
        what = "" if power.given else " (its margin)"
        return f"{_interval(chance)} power for a difference of {_size(power, size.at)}{what}"
    between = f"[{_size(power, size.low)}, {_size(power, size.high)}]"
    return f"{100 * POWER:.0f} % power for a difference of {_size(power, size.at)} {between}"


def _opposite(power: ClaimPower) -> str:
    assert power.opposite is not None and power.difference is not None
    if power.scale == CORRELATION:
        return "the opposite one"
    if power.difference.at == 0:
        return f"one of {_size(power, power.opposite)}"
    return "one as large the other way"


def _nothing(power: ClaimPower) -> str:
    return "none" if power.scale == CORRELATION else "no difference"


def _interval(chance: Interval) -> str:
    return f"{_share(chance.at)} [{_share(chance.low)}, {_share(chance.high)}]"


def _share(chance: float | None) -> str:
    """Return a chance in percent, as exactly as it was simulated.

    >>> _share(0.5), _share(0.0004), _share(0.0), _share(1.0)
    ('50 %', 'less than 0.1 %', 'less than 0.1 %', 'more than 99.9 %')
    """
    assert chance is not None
    if chance < 0.001:
        return "less than 0.1 %"
    if chance > 0.999:
        return "more than 99.9 %"
    return f"{100 * chance:.2g} %" if chance < 0.1 else f"{100 * chance:.0f} %"


def _size(power: ClaimPower, value: float) -> str:
    return f"a factor {ratio(value)}" if power.scale == "log" else significant(value)
