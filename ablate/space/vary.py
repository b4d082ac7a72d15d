"""Vary: addresses of a space with the values that are tried there, and the sizes of a ladder.

    vary: {model.layers: [4, 8, 16], block.residual.gain: [1, 0.5]}

An address is one that `set` of a variant may have. A factor whose values are all numbers is ordered, from the lowest
to the highest; of any other the first value is the one that the others are compared with. In a search the values of
an address may also be a range: `{from: 1e-4, to: 1e-1, scale: log}`. Each size of a ladder has values at several
addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Literal, TypeAlias

from ablate.block.address import Selector, parse_address
from ablate.grammar.derivation import Scale
from ablate.grammar.rules import DIGITS, EXACT, as_plain, read_number, read_scale
from ablate.source.document import shown
from ablate.source.located import Atom, Items, Located, Mapping, Scalar, to_python
from ablate.source.problems import Problems, missing_keys, note_unknown
from ablate.space.documents import AsRead
from ablate.space.fair import Plain, plain, text_of
from ablate.space.overlay import without
from ablate.space.variants import (
    BLOCK,
    Change,
    Changes,
    Override,
    changes_in,
    check_apart,
    entries_of,
    is_inside,
    read_change,
    read_override,
)

VARY = "vary"
SUCH_LEVELS = "such as vary: {model.layers: [4, 8, 16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorLevel:
    value: Plain
    written: Located


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedAddress:
    """A factor with several levels; `address` is as written, `words` lead to it. Numbers ascend.

    `range` is the range that its numbers were written as, None for a list.
    """

    address: str
    words: tuple[Scalar, ...]
    key: Scalar
    levels: tuple[FactorLevel, ...]
    range: NumberRange | None = None

    @property
    def values(self) -> tuple[Plain, ...]:
        return tuple(level.value for level in self.levels)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The values of its levels, with lists as text."""
        return tuple(text_of(value) if isinstance(value, tuple) else value for value in self.values)

    @property
    def in_block(self) -> bool:
        return self.words[0].text == BLOCK

    @property
    def selector(self) -> Selector:
        return parse_address(".".join(word.text for word in self.words[1:]))

    @property
    def described(self) -> str:
        if self.range is None:
            return f"{self.address}: {', '.join(level_texts(self.values))}"
        first, *_, last = level_texts(self.values)
        how = "evenly" if self.range.scale == "linear" else "evenly in their logarithms"
        return f"{self.address}: {first} to {last}, {len(self.levels):,} numbers spaced {how}"

    def override(self, level: FactorLevel) -> Override:
        return Override(self.selector, self.key, level.written)

    def change(self, level: FactorLevel) -> Change:
        return Change(self.address, level.value, self.words, self.key, level.written)


@dataclass(frozen=True, slots=True)
class Vary(AsRead):
    factors: tuple[VariedAddress, ...] = ()

    @property
    def changes(self) -> Iterator[Change]:
        return (factor.change(level) for factor in self.factors if not factor.in_block for level in factor.levels)


def read_vary(key: Scalar, located: Located, problems: Problems, *, ranges: bool = False) -> Vary | None:
    """Read the section; None after a mistake, which is then in `problems`. `ranges`: an address may have a range."""
    before = len(problems)
    if not isinstance(located, Mapping) or not located.entries:
        message = f"vary must map addresses to lists of values, got {shown(located)}"
        span = key.span if isinstance(located, Mapping) else located.span
        problems.add(message, span, notes=(SUCH_LEVELS,))
        return None
    factors: dict[str, VariedAddress] = {}
    whole = (lambda value: not value.entries or is_range(value)) if ranges else (lambda value: not value.entries)
    for words, last, value in entries_of(located, problems, is_value=whole):
        factor = _factor(words, last, value, problems, ranges=ranges)
        if factor is not None:
            check_apart(factor, factors, problems)
            factors[factor.address] = factor
    return None if len(problems) > before else Vary(tuple(factors.values()))


def _factor(
    words: tuple[Scalar, ...], key: Scalar, located: Located, problems: Problems, *, ranges: bool
) -> VariedAddress | None:
    address, before = ".".join(word.text for word in words), len(problems)
    if isinstance(located, Mapping) and located.entries:
        return _ranging(address, words, key, located, problems)
    items = _items(address, key, located, problems, ranges=ranges)
    _check_address(words, key, items[0] if items else located, problems)
    levels = [FactorLevel(value=plain(to_python(item)), written=item) for item in items]
    values = [(level.value, type(level.value)) for level in levels]
    for place, level in enumerate(levels):
        if values[place] in values[:place]:
            message = f"{text_of(level.value)} is listed twice in vary of {address}"
            problems.add(message, level.written.span, notes=("list each value once",))
    if len(problems) > before:
        return None
    numbers = as_numbers([level.value for level in levels])
    if numbers is not None:
        levels = [level for _, level in sorted(zip(numbers, levels, strict=True), key=lambda pair: pair[0])]
    return VariedAddress(address=address, words=words, key=key, levels=tuple(levels))


def _ranging(
    address: str, words: tuple[Scalar, ...], key: Scalar, located: Mapping, problems: Problems
) -> VariedAddress | None:
    """Read an address with a range: each of its numbers is a level, which stands where the range does."""
    before = len(problems)
    _check_address(words, key, located, problems)
    numbers = read_range(address, located, problems)
    if numbers is None or len(problems) > before:
        return None
    inner = (Scalar(number, text_of(number), located.span) for number in numbers.numbers[1:-1])
    written = (numbers.low, *inner, numbers.high)
    levels = (FactorLevel(value=n, written=each) for n, each in zip(numbers.numbers, written, strict=True))
    return VariedAddress(address=address, words=words, key=key, levels=tuple(levels), range=numbers)


def _check_address(words: tuple[Scalar, ...], key: Scalar, value: Located, problems: Problems) -> None:
    if words[0].text == BLOCK:
        read_override(words, key, value, problems)
    else:
        read_change(words, key, value, problems)


def _items(address: str, key: Scalar, located: Located, problems: Problems, *, ranges: bool) -> tuple[Located, ...]:
    text = located.text if isinstance(located, Scalar) else ""
    if not isinstance(located, Items) or not located.items:
        label = f"write a list: [{text}, …]" if text else ""
        message = f"vary of {address}: expected a list of values{', or a range' * ranges}, got {shown(located)}"
        notes = (f"a range is {RANGE_WRITTEN.removeprefix('such as ')}",) if ranges else () if label else (SUCH_LEVELS,)
        problems.add(message, located.span, label=label, notes=notes)
        return ()
    if len(located.items) == 1:
        notes = ("list another value, or set it for all runs, in the space itself",)
        message = f"vary of {address} has a single level: there is nothing to compare it with"
        problems.add(message, located.items[0].span, notes=notes)
        return ()
    return located.items


def as_numbers(values: Sequence[Plain]) -> list[float] | None:
    """Return the values of an ordered factor; None if some are no numbers.

    >>> as_numbers([4, 0.5]), as_numbers([4, "2x"]), as_numbers([True, False])
    ([4.0, 0.5], None, None)
    """
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return numbers if len(numbers) == len(values) else None


def level_texts(values: Sequence[Plain]) -> tuple[str, ...]:
    """Return the values as texts that differ.

    >>> level_texts([4, 1e-8]), level_texts([0.1, 0.10000001])
    (('4', '1e-08'), ('0.1', '0.10000001'))
    """
    texts = tuple(map(text_of, values))
    return texts if len(set(texts)) == len(texts) else tuple(str(value) for value in values)


def fill_end(factorial: Mapping) -> Mapping:
    """Return a factorial without its levels, which ends where it starts if it has levels and no other end."""
    entries = [*without(factorial, VARY).entries]
    if VARY in factorial and "from" in factorial and "to" not in factorial:
        key = factorial.key("from")
        entries.append((replace(key, value="to", text="to"), factorial["from"]))
    return Mapping(tuple(entries), factorial.span)


# A range of numbers at an address that a search varies.
#
#     vary: {recipe.optimizer.adamw.lr: {from: 1e-4, to: 1e-1, scale: log}, model.layers: {from: 2, to: 6, step: 1}}
#
# Without a step the numbers between the ends are as good as continuous, and are rounded, so that they can be read,
# and so that two proposals of nearly the same number are one:
#
#     linear   each third significant digit of the distance between the ends: 100 to 1,000 steps of equal size
#     log      numbers of three significant digits, each about 1 % above the one before
#
# If that leaves fewer than 100, they have more digits, up to six. All are computed in decimal arithmetic, so that
# they are the same on every machine. A scale that is not given is linear.

FROM, TO, SCALE, STEP = RANGE_KEYS = ("from", "to", "scale", "step")
READABLE = 3  # the significant digits of a number of a range, if they suffice
DECADE = 230
"""The numbers from one power of ten to the next: at three digits all differ, since each is 1 % above the one before."""
ENOUGH = 100  # a range without a step has at least this many steps, as far as six digits allow
MOST = 10_000  # the most numbers that a step may lead to
RANGE_WRITTEN = "such as {from: 1e-4, to: 1e-1, scale: log}, or {from: 2, to: 6, step: 1}; scale is linear or log"


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers of a range in ascending order, both ends among them, and their spacing (`scale`).

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
    before = len(problems)
    unknown = note_unknown(located, RANGE_KEYS, problems, f"vary of {address}: a range has no key")
    for word in missing_keys(located, (FROM, TO), unknown):
        problems.add(f"vary of {address}: a range needs `{word}`", located.span, notes=(RANGE_WRITTEN,))
    low, high, step = (
        read_number(located[key], f"vary of {address}: {key} must be a number", problems) if key in located else None
        for key in (FROM, TO, STEP)
    )
    scale: Scale | None = read_scale(located[SCALE], problems) if SCALE in located else "linear"
    if len(problems) > before or low is None or high is None or scale is None:
        return None
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
    """Return numbers at equal ratios, powers of ten among them, at the fewest digits, 3 to 6, at which they differ."""
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


def _is_sound_step(
    address: str, located: Mapping, low: Decimal, high: Decimal, step: Decimal, scale: Scale, problems: Problems
) -> bool:
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


# `sizes` of a ladder: what each size changes in model and recipe, for all treatments alike
#
# `{compare: [pre_ln, op], sizes: [{model.width: 32, recipe.steps: 150}, {model.width: 48, recipe.steps: 300}, …],
# next: {model.width: 96, recipe.steps: 1200}}`: `next` is a size that is not trained: what it would cost, and what it
# would decide.

LawKind: TypeAlias = Literal["power", "saturating"]
"""A law of loss over training compute C: `power` is L = a·C^-b, `saturating` L = E + a·C^-b."""
FEWEST_SIZES: Map[LawKind, int] = {"power": 3, "saturating": 4}
"""The sizes that a law takes: one more than it has parameters."""
SIZES, NEXT = "sizes", "next"
SUCH_SIZES = "such as sizes: [{model.width: 32}, {model.width: 48}, {model.width: 64}]"
NOT_IN_SIZES = {
    "data": "a law is of one text, cut into tokens in one way",
    "model.context": "losses at another context are of other predictions",
}
"""Addresses that sizes cannot change, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSize:
    changed: tuple[Change, ...]
    written: Located = field(compare=False, repr=False)

    @property
    def changes(self) -> Changes:
        return changes_in(self.changed)

    @property
    def name(self) -> str:
        """Its values in words, each after the last word of its address: `width=64 layers=4`."""
        lasts = [change.path[-1].text for change in self.changed]
        return " ".join(
            f"{last if lasts.count(last) == 1 else change.address}={text_of(change.value)}"
            for last, change in zip(lasts, self.changed, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSizes(AsRead):
    """The sizes of a ladder in the order written, and the next one, if it is given."""

    sizes: tuple[LadderSize, ...] = ()
    next: LadderSize | None = None

    @property
    def every(self) -> tuple[LadderSize, ...]:
        return (*self.sizes, *([self.next] if self.next is not None else []))

    @property
    def changes(self) -> Iterator[Change]:
        return (change for size in self.every for change in size.changed)


def read_sizes(ladder: Mapping, problems: Problems) -> LadderSizes | None:
    before = len(problems)
    located = ladder.get(SIZES)
    if located is None:
        problems.add("a ladder needs sizes", ladder.span, notes=(SUCH_SIZES,))
        return None
    if not isinstance(located, Items) or not located.items:
        message = f"sizes of a ladder must be a list of sizes, got {shown(located)}"
        problems.add(message, located.span, notes=(SUCH_SIZES,))
        return None
    sizes = [_size(item, problems) for item in located.items]
    after = _size(ladder[NEXT], problems) if NEXT in ladder else None
    if len(problems) > before:
        return None
    return LadderSizes(sizes=tuple(size for size in sizes if size is not None), next=after)


def _size(located: Located, problems: Problems) -> LadderSize | None:
    if not isinstance(located, Mapping) or not located.entries:
        message = f"a size must map addresses to values, got {shown(located)}"
        problems.add(message, located.span, notes=("such as {model.width: 64, recipe.steps: 600}",))
        return None
    changed: dict[str, Change] = {}
    for words, key, value in entries_of(located, problems):
        if (change := _change(words, key, value, problems)) is not None:
            check_apart(change, changed, problems)
            changed[change.address] = change
    return LadderSize(changed=tuple(changed.values()), written=located)


def _change(words: tuple[Scalar, ...], key: Scalar, value: Located, problems: Problems) -> Change | None:
    address = ".".join(word.text for word in words)
    if words[0].text == BLOCK:
        notes = ("let it depend on the size in the block itself, such as 1/width, or set it in a variant",)
        problems.add(f"{address} is in the block, which is the same at every size", key.span, notes=notes)
        return None
    if (why := next((NOT_IN_SIZES[outer] for outer in NOT_IN_SIZES if is_inside(address, outer)), None)) is not None:
        notes = ("set it for all sizes, in the space itself",)
        problems.add(f"{address} cannot differ between sizes: {why}", key.span, notes=notes)
        return None
    return read_change(words, key, value, problems)
