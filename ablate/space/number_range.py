"""A range of numbers at an address that a search varies.

    vary: {recipe.optimizer.adamw.lr: {from: 1e-4, to: 1e-1, scale: log}, model.layers: {from: 2, to: 6, step: 1}}

Without a step the numbers between the ends are as good as continuous, and are rounded, so that they can be read, and so
that two proposals of nearly the same number are one:

    linear   each third significant digit of the distance between the ends: 100 to 1,000 steps of equal size
    log      numbers of three significant digits, each about 1 % above the one before

If that leaves fewer than 100, they have more digits, up to six. All are computed in decimal arithmetic, so that they
are the same on every machine. A scale that is not given is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal

from ablate.grammar.between import DIGITS, EXACT, as_plain, read_number, read_scale
from ablate.grammar.derivation import Scale
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems, nearest, quote

FROM, TO, SCALE, STEP = KEYS = ("from", "to", "scale", "step")
READABLE = 3
"""The significant digits of a number of a range, if they suffice."""
DECADE = 230
"""The numbers from one power of ten to the next: as many as all differ at three digits, since each is 1 % above the one
before."""
ENOUGH = 100
"""A range without a step has at least this many steps, as far as six digits allow."""
MOST = 10_000
"""The most numbers that a step may lead to."""
WRITTEN = "such as {from: 1e-4, to: 1e-1, scale: log}, or {from: 2, to: 6, step: 1}; scale is linear or log"


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers of a range in ascending order, both ends among them, and how they are spaced.

    `low` and `high` are the ends as written, `step` the step; None for a range without one.
    """

    numbers: tuple[int | float, ...]
    scale: Scale
    low: Scalar
    high: Scalar
    step: Scalar | None


def is_range(located: Mapping) -> bool:
    """Return whether a mapping is a range, or meant as one: no address ends in `from` or `to`."""
    return FROM in located or TO in located


def read_range(address: str, located: Mapping, problems: Problems) -> NumberRange | None:
    """Read a range; None after a mistake, which is then in `problems`."""
    before = len(problems)
    _check_keys(address, located, problems)
    low = _number(address, FROM, located, problems)
    high = _number(address, TO, located, problems)
    step = _number(address, STEP, located, problems) if STEP in located else None
    scale: Scale | None = read_scale(located[SCALE], problems) if SCALE in located else "linear"
    if len(problems) > before or low is None or high is None or scale is None:
        return None
    return _read(address, located, low, high, scale, step, problems)


def _read(
    address: str,
    located: Mapping,
    low: Decimal,
    high: Decimal,
    scale: Scale,
    step: Decimal | None,
    problems: Problems,
) -> NumberRange | None:
    """Return the range of these numbers; None if they do not fit together, which is then noted."""
    if low >= high:
        message = f"vary of {address}: from must be below to"
        notes = ("a range goes from its lower end to its higher one",)
        problems.add(message, located[FROM].span, notes=notes, also=((located[TO].span, "this is to"),))
        return None
    if scale == "log" and low <= 0:
        message = f"vary of {address}: a log scale needs numbers above 0"
        problems.add(message, located[FROM].span, notes=("or use scale: linear",))
        return None
    if step is not None and not _is_sound_step(address, located, low, high, step, scale, problems):
        return None
    numbers = stepped(low, high, step) if step is not None else continuous(low, high, scale)
    first, last, by = located[FROM], located[TO], located.get(STEP)
    assert isinstance(first, Scalar)
    assert isinstance(last, Scalar)
    return NumberRange(tuple(map(as_plain, numbers)), scale, first, last, by if isinstance(by, Scalar) else None)


def stepped(low: Decimal, high: Decimal, step: Decimal) -> tuple[Decimal, ...]:
    """Return the numbers from `low` to `high` in steps of this size.

    >>> [str(number) for number in stepped(Decimal(2), Decimal(4), Decimal("0.5"))]
    ['2.0', '2.5', '3.0', '3.5', '4.0']
    """
    return tuple(low + step * i for i in range(int((high - low) / step) + 1))


def continuous(low: Decimal, high: Decimal, scale: Scale) -> tuple[Decimal, ...]:
    """Return the numbers of a range without a step.

    >>> len(continuous(Decimal("1e-4"), Decimal("1e-1"), "log")), len(continuous(Decimal(0), Decimal(1), "linear"))
    (691, 101)
    """
    between = _by_ratio(low, high) if scale == "log" else _by_unit(low, high)
    inside = dict.fromkeys(number for number in between if low < number < high)
    return (low, *inside, high)


def _by_unit(low: Decimal, high: Decimal) -> Iterator[Decimal]:
    """Yield the multiples of the third significant digit of the distance, at six significant digits."""
    unit = Decimal(1).scaleb((high - low).adjusted() - READABLE + 1)
    return _rounded((unit * i for i in range(int(low // unit), int(high // unit) + 1)), DIGITS)


def _by_ratio(low: Decimal, high: Decimal) -> Iterable[Decimal]:
    """Return numbers at equal ratios, powers of ten among them, at the fewest digits, from three to six, at which they
    differ.
    """
    first, last = EXACT.log10(low), EXACT.log10(high)
    per_decade = DECADE
    # Finer than a millionth of a decade no six digits differ.
    while (last - first) * per_decade < ENOUGH and per_decade < 10**DIGITS:
        per_decade *= 2
    places = range(int(first * per_decade) - 1, int(last * per_decade) + 2)
    exact = [EXACT.power(Decimal(10), EXACT.divide(Decimal(place), Decimal(per_decade))) for place in places]
    rounded: list[Decimal] = []
    for digits in range(READABLE, DIGITS + 1):
        rounded = list(_rounded(exact, digits))
        if len(set(rounded)) == len(rounded):
            break
    return rounded


def _rounded(numbers: Iterable[Decimal], digits: int) -> Iterator[Decimal]:
    context = Context(prec=digits)
    return (context.plus(number) for number in numbers)


def _check_keys(address: str, located: Mapping, problems: Problems) -> None:
    unknown = [key for key, _ in located.entries if key.value not in KEYS]
    for key in unknown:
        message = f"vary of {address}: a range has no key {quote(key.text)}"
        problems.add_unknown(message, key.span, key.text, KEYS, "it has")
    missing = [key for key in (FROM, TO) if key not in located]
    meant = {nearest(key.text, missing) for key in unknown}
    for word in missing:
        if word not in meant:
            problems.add(f"vary of {address}: a range needs `{word}`", located.span, notes=(WRITTEN,))


def _number(address: str, key: str, located: Mapping, problems: Problems) -> Decimal | None:
    value: Located | None = located.get(key)
    return None if value is None else read_number(value, f"vary of {address}: {key} must be a number", problems)


def _is_sound_step(
    address: str, located: Mapping, low: Decimal, high: Decimal, step: Decimal, scale: Scale, problems: Problems
) -> bool:
    """Return whether a step leads from one end to the other; if not, note it."""
    place, before = located[STEP].span, len(problems)
    if scale == "log":
        notes = ("leave out step, or list the numbers: [8, 16, 32, 64]",)
        problems.add(f"vary of {address}: a range on the log scale has no step", place, notes=notes)
    elif step <= 0:
        problems.add(f"vary of {address}: step must be greater than 0, got {located[STEP].span.text}", place)
    elif EXACT.remainder(high - low, step) != 0:
        message = f"vary of {address}: steps of this size do not lead from {as_plain(low)} to {as_plain(high)}"
        last = as_plain(low + step * int((high - low) / step))
        problems.add(message, place, notes=(f"set to: {last}, or another step",))
    elif (high - low) / step >= MOST:
        message = f"vary of {address}: a range may have at most {MOST:,} numbers"
        problems.add(message, place, notes=("use a larger step, or none",))
    return len(problems) == before
