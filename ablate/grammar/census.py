"""How many blocks a grammar has once constraints have spoken: exact where that can be counted, else an estimate.

Constraints look at a few fields only. Derivations that agree in those are counted together, rule by rule, so that the
half million blocks of the shipped grammar come down to some hundred kinds.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ablate.block.catalogue import Branches, Catalogue, Sequenced
from ablate.block.expression import Gain, Node, Sequence, Value
from ablate.grammar.derivation import (
    Alternatives,
    Bound,
    FixedValue,
    Hole,
    Let,
    Named,
    Product,
    SharedDraw,
    Template,
    fill,
)
from ablate.grammar.grammar import Grammar

EXACT_UP_TO = 10**6
SAMPLES = 2_000
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Census:
    """`derivations` before constraints (exact); `admitted` after, exact or within [`low`, `high`] at 95 %.

    The interval is Wilson's for the admitted share of `samples` uniform draws, times the number of derivations.
    """

    derivations: int
    admitted: int
    low: int
    high: int
    samples: int | None

    @property
    def exact(self) -> bool:
        """Whether `admitted` was counted, not estimated."""
        return self.samples is None


def take_census(grammar: Grammar, *, exact_up_to: int = EXACT_UP_TO, samples: int = SAMPLES, seed: int = 0) -> Census:
    """Count what the constraints leave: all derivations up to `exact_up_to`, else `samples` uniform draws."""
    total = grammar.count
    if not grammar.constraints:
        return Census(total, total, total, total, None)
    if total <= exact_up_to:
        admitted = _count_admitted(grammar)
        return Census(total, admitted, admitted, admitted, None)
    rng = random.Random(seed)
    kept = sum(not grammar.refusals(grammar.derive(rng.randrange(total))) for _ in range(samples))
    low, high = wilson(kept, samples)
    return Census(total, _share(total, kept / samples), _share(total, low), _share(total, high), samples)


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a share of `hits` in `n`."""
    share, spread = hits / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _share(total: int, share: float) -> int:
    """A share of a number that may exceed the range of floats."""
    return total * round(share * 10**12) // 10**12


def _count_admitted(grammar: Grammar) -> int:
    asked = frozenset(field for constraint in grammar.constraints for field in constraint.fields)
    kinds = _Kinds(asked, grammar.catalogue)
    found = kinds.of(grammar.derivations, {})
    return sum(times for block, times in found.items() if isinstance(block, Sequence) and not grammar.refusals(block))


class _Kinds:
    """Groups the values of a template by what constraints can see: the parts, their order, and the fields `asked`."""

    def __init__(self, asked: frozenset[str], catalogue: Catalogue):
        self.asked, self.catalogue = asked, catalogue
        self._known: dict[tuple[int, frozenset[tuple[str, int]]], Counter[Value]] = {}

    def of(self, template: Template, bound: Bound) -> Counter[Value]:
        """Each kind of value, and how many derivations are of it."""
        key = (id(template), frozenset(bound.items()))
        if key not in self._known:
            found: Counter[Value] = Counter()
            for value, times in self._each(template, bound):
                found[value] += times
            self._known[key] = found
        return self._known[key]

    def _each(self, template: Template, bound: Bound) -> Iterator[tuple[Value, int]]:
        match template:
            case FixedValue(value=value):
                yield self._seen(value), 1
            case Alternatives(alternatives=alternatives):
                for option in alternatives:
                    yield from self.of(option, bound).items()
            case Named(body=body):
                yield from self.of(body, bound).items()
            case Product():
                yield from self._combined(template, bound)
            case Let(name=name, drawn=drawn, body=body):
                for k in range(drawn.count):
                    yield from self.of(body, {**bound, name: k}).items()
            case SharedDraw():
                yield self._seen(template.at(0, bound)), 1

    def _combined(self, template: Product, bound: Bound) -> Iterator[tuple[Value, int]]:
        """Every combination of kinds; holes in fields that nobody looks at only multiply."""
        shape = self._seen(template.shape)
        visible = sorted(_holes(shape))
        unseen = math.prod(hole.count for index, hole in enumerate(template.holes) if index not in visible)
        combinations: Counter[tuple[Value, ...]] = Counter({(): unseen})
        for index in visible:
            choices = self.of(template.holes[index], bound)
            combinations = Counter(
                {(*values, value): n * m for values, n in combinations.items() for value, m in choices.items()}
            )
        places = {index: place for place, index in enumerate(visible)}
        for values, times in combinations.items():
            filled = [values[places[i]] if i in places else None for i in range(len(template.holes))]
            yield fill(shape, filled), times  # of what is seen only, since the shape and the values are

    def _seen(self, value: Value) -> Value:
        """A value without the fields that nobody looks at."""
        match value:
            case Node(name=name, fields=fields):
                return Node(name, tuple((f, self._seen(v) if self._matters(name, f) else None) for f, v in fields))
            case Sequence(parts=parts):
                return Sequence(tuple(self._seen(part) for part in parts))  # type: ignore[misc]
            case tuple():
                return tuple(self._seen(child) for child in value)  # type: ignore[return-value]
        return value

    def _matters(self, component: str, field: str) -> bool:
        """Fields that are asked for, and those that hold parts, since parts have names."""
        return field in self.asked or isinstance(self.catalogue[component].fields[field], Sequenced | Branches)


def _holes(value: object) -> set[int]:
    """The indices of the holes in a shape."""
    match value:
        case Hole(index=index):
            return {index}
        case Gain(value=Hole(index=index)):
            return {index}
        case Node(fields=fields):
            return {index for _, child in fields for index in _holes(child)}
        case Sequence() | tuple():
            return {index for child in value for index in _holes(child)}
    return set()
