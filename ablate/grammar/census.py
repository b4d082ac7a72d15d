"""The number of blocks of a grammar after its constraints: exact if that can be counted, else an estimate.

Constraints look at few fields. Derivations that agree in those are counted together, rule by rule.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

from ablate.block.catalogue import Branches, Catalogue, InSlot, Sequenced, Several
from ablate.block.expression import Node, Sequence, Series, Value
from ablate.grammar.choices import hole_fields
from ablate.grammar.derivation import Alternatives, Bound, FixedValue, Let, Named, Product, SharedDraw, Template, fill
from ablate.grammar.grammar import Grammar

EXACT_UP_TO = 10**6
SAMPLES = 2_000
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Census:
    """The number of `derivations` before constraints (exact), and of those `admitted` after: exact, or an estimate.

    [`low`, `high`] is Wilson's 95 % interval for the admitted share of `samples` uniform draws, times the number of
    derivations.
    """

    derivations: int
    admitted: int
    low: int
    high: int
    samples: int | None

    @property
    def exact(self) -> bool:
        return self.samples is None


def take_census(grammar: Grammar, *, exact_up_to: int = EXACT_UP_TO, samples: int = SAMPLES, seed: int = 0) -> Census:
    """Count the derivations that the constraints admit: exactly up to `exact_up_to`, else by `samples` draws."""
    total = grammar.count
    if not grammar.constraints:
        return Census(total, total, total, total, None)
    if total <= exact_up_to:
        admitted = _count_admitted(grammar)
        return Census(total, admitted, admitted, admitted, None)
    rng = random.Random(seed)
    hits = sum(not grammar.refusals(grammar.derive(rng.randrange(total))) for _ in range(samples))
    low, high = wilson(hits, samples)
    return Census(total, _share(total, hits / samples), _share(total, low), _share(total, high), samples)


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float]:
    share, spread = hits / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _share(total: int, share: float) -> int:
    """Compute a share of a number that may exceed the range of floats."""
    return total * round(share * 10**12) // 10**12


def _count_admitted(grammar: Grammar) -> int:
    relevant = frozenset(field for constraint in grammar.constraints for field in constraint.fields)
    kinds = _Kinds(relevant, grammar.catalogue).of(grammar.derivations, {})
    return sum(times for block, times in kinds.items() if isinstance(block, Sequence) and not grammar.refusals(block))


class _Kinds:
    """Groups the values of a template by what constraints look at: parts, their order, and the `relevant` fields."""

    def __init__(self, relevant: frozenset[str], catalogue: Catalogue):
        self.relevant, self.catalogue = relevant, catalogue
        self._known: dict[tuple[int, frozenset[tuple[str, int]]], Counter[Value]] = {}

    def of(self, template: Template, bound: Bound) -> Counter[Value]:
        key = (id(template), frozenset(bound.items()))
        if key not in self._known:
            if isinstance(template, Named):
                self._known[key] = self.of(template.body, bound)
            else:
                kinds: Counter[Value] = Counter()
                for value, times in self._each(template, bound):
                    kinds[value] += times
                self._known[key] = kinds
        return self._known[key]

    def _each(self, template: Template, bound: Bound) -> Iterator[tuple[Value, int]]:
        match template:
            case FixedValue(value=value):
                yield self._reduced(value), 1
            case Alternatives(alternatives=alternatives):
                for option in alternatives:
                    yield from self.of(option, bound).items()
            case Product():
                yield from self._combined(template, bound)
            case Let(name=name, drawn=drawn, body=body):
                for k in range(drawn.count):
                    yield from self.of(body, {**bound, name: k}).items()
            case SharedDraw():
                yield self._reduced(template.at(0, bound)), 1

    def _combined(self, template: Product, bound: Bound) -> Iterator[tuple[Value, int]]:
        """Yield every combination of kinds; holes in fields that no constraint looks at only multiply the count."""
        shape = self._reduced(template.shape)
        visible = sorted(index for index, _ in hole_fields(shape, ""))
        unseen = math.prod(hole.count for index, hole in enumerate(template.holes) if index not in visible)
        combinations: list[tuple[tuple[Value, ...], int]] = [((), unseen)]
        for index in visible:
            choices = self.of(template.holes[index], bound)
            combinations = [((*values, value), n * m) for values, n in combinations for value, m in choices.items()]
        places = {index: place for place, index in enumerate(visible)}
        for values, times in combinations:
            filled = [values[places[i]] if i in places else None for i in range(len(template.holes))]
            yield fill(shape, filled), times  # holds relevant fields only, as the shape and the values do

    @overload
    def _reduced(self, value: Node) -> Node: ...

    @overload
    def _reduced(self, value: Node | Sequence) -> Node | Sequence: ...

    @overload
    def _reduced(self, value: Value) -> Value: ...

    def _reduced(self, value: Value) -> Value:
        """Return a value without the fields that no constraint looks at."""
        match value:
            case Node(name=name, fields=fields):
                return Node(name, tuple((f, self._reduced(v) if self._matters(name, f) else None) for f, v in fields))
            case Sequence(parts=parts):
                return Sequence(tuple(self._reduced(part) for part in parts))
            case Series():
                return Series(tuple(self._reduced(child) for child in value))
            case tuple():
                return tuple(self._reduced(child) for child in value)
        return value

    def _matters(self, component: str, field: str) -> bool:
        """Return whether constraints look at a field, or at what it holds: parts, or alternatives of a slot."""
        holding = Sequenced | Branches | InSlot | Several
        return field in self.relevant or isinstance(self.catalogue[component].fields[field], holding)
