"""`vary` of a factorial or a search: addresses of the space, each with the values that are tried there.

    vary: {model.layers: [4, 8, 16], block.residual.gain: [1, 0.5]}

An address is one that `set` of a variant may have. A factor whose values are all numbers is ordered, from the lowest to
the highest; of any other the first value is the one that the others are compared with. In a search the values of an
address may also be a range: `{from: 1e-4, to: 1e-1, scale: log}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic_core import CoreSchema
from pydantic_core.core_schema import is_instance_schema

from ablate.block.select import Selector, parse_address
from ablate.source.document import shown
from ablate.source.located import Atom, Items, Located, Mapping, Scalar, to_python
from ablate.source.problems import Problems
from ablate.space.dotted import entries_of
from ablate.space.fair import Plain, plain, text_of
from ablate.space.number_range import WRITTEN, NumberRange, is_range, read_range
from ablate.space.override import Override
from ablate.space.variants import BLOCK, Change, check_apart, read_change, read_override

VARY = "vary"
SUCH_AS = "such as vary: {model.layers: [4, 8, 16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorLevel:
    """One value of a factor: as plain data, and as it stands in the space."""

    value: Plain
    written: Located


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedAddress:
    """A factor with several levels; `address` is as written, `words` lead to it. Numbers ascend.

    `range` is what its numbers were written as, if that is no list.
    """

    address: str
    words: tuple[Scalar, ...]
    key: Scalar
    levels: tuple[FactorLevel, ...]
    range: NumberRange | None = None

    @property
    def values(self) -> tuple[Plain, ...]:
        """The values of its levels."""
        return tuple(level.value for level in self.levels)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The values of its levels, with lists as text."""
        return tuple(text_of(value) if isinstance(value, tuple) else value for value in self.values)

    @property
    def in_block(self) -> bool:
        """Return whether it is a field of the block's parts."""
        return self.words[0].text == BLOCK

    @property
    def selector(self) -> Selector:
        """The address of a field of the block's parts."""
        return parse_address(".".join(word.text for word in self.words[1:]))

    @property
    def described(self) -> str:
        """The address and what is tried there, in words."""
        if self.range is None:
            return f"{self.address}: {', '.join(level_texts(self.values))}"
        first, *_, last = level_texts(self.values)
        how = "evenly" if self.range.scale == "linear" else "evenly in their logarithms"
        return f"{self.address}: {first} to {last}, {len(self.levels):,} numbers spaced {how}"

    def override(self, level: FactorLevel) -> Override:
        """Return a level as an override of a block."""
        return Override(self.selector, self.key, level.written)

    def change(self, level: FactorLevel) -> Change:
        """Return a level as a change around the block."""
        return Change(self.address, level.value, self.words, self.key, level.written)


@dataclass(frozen=True, slots=True)
class Vary:
    """The factors of a design, in the order written."""

    factors: tuple[VariedAddress, ...] = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """Accept an instance as part of a document, without validation."""
        return is_instance_schema(cls)

    @property
    def changes(self) -> Iterator[Change]:
        """The levels outside the block, as changes."""
        return (factor.change(level) for factor in self.factors if not factor.in_block for level in factor.levels)


def read_vary(key: Scalar, located: Located, problems: Problems, *, ranges: bool = False) -> Vary | None:
    """Read the section; None after a mistake, which is then in `problems`. `ranges`: an address may have a range."""
    before = len(problems)
    if not isinstance(located, Mapping) or not located.entries:
        message = f"vary must map addresses to lists of values, got {shown(located)}"
        span = key.span if isinstance(located, Mapping) else located.span
        problems.add(message, span, notes=(SUCH_AS,))
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
    seen: list[tuple[Plain, type]] = []
    for item in items:
        value = plain(to_python(item))
        if (value, type(value)) in seen:
            notes = ("list each value once",)
            problems.add(f"{text_of(value)} is listed twice in vary of {address}", item.span, notes=notes)
        seen.append((value, type(value)))
    if len(problems) > before:
        return None
    levels = [FactorLevel(value=plain(to_python(item)), written=item) for item in items]
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
    """Note an address that cannot be varied."""
    if words[0].text == BLOCK:
        read_override(words, key, value, problems)
    else:
        read_change(words, key, value, problems)


def _items(address: str, key: Scalar, located: Located, problems: Problems, *, ranges: bool) -> tuple[Located, ...]:
    """Return the values listed; none after a mistake."""
    text = located.text if isinstance(located, Scalar) else ""
    if not isinstance(located, Items) or not located.items:
        label = f"write a list: [{text}, …]" if text else ""
        message = f"vary of {address}: expected a list of values{', or a range' * ranges}, got {shown(located)}"
        notes = (f"a range is {WRITTEN.removeprefix('such as ')}",) if ranges else () if label else (SUCH_AS,)
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


def without_vary(search: Mapping) -> Mapping:
    """Return a search without its `vary`, which is read apart."""
    return Mapping(tuple(entry for entry in search.entries if entry[0].value != VARY), search.span)


def fill_end(factorial: Mapping) -> Mapping:
    """Return a factorial that ends where it starts, if it has levels and no other end, and without the levels."""
    entries = [*without_vary(factorial).entries]
    if VARY in factorial and "from" in factorial and "to" not in factorial:
        key = factorial.key("from")
        entries.append((replace(key, value="to", text="to"), factorial["from"]))
    return Mapping(tuple(entries), factorial.span)
