"""Derivations of a grammar with values beside them: one more choice for each address that a search varies.

A number of such a derivation stands for a derivation of the grammar and a place among the values of each address, the
last one changing fastest. So samplers see values as they see what a rule offers: the address is the name of the choice,
and numbers are ordered, at even distances on their scale.
"""

from __future__ import annotations

from collections.abc import Sequence

from ablate.block import expression
from ablate.grammar.derivation import Alternatives, FixedValue, Hole, Product, Scale, Template, Varied
from ablate.space.vary import FactorLevel, VariedAddress, as_numbers, level_texts

NOTHING = FixedValue(None)
"""What a value adds to the block that the grammar derives."""


def with_values(derivations: Template, factors: Sequence[VariedAddress]) -> Template:
    """Return the derivations of a grammar, each with every combination of values; as they are if nothing is varied."""
    if not factors:
        return derivations
    holes = (derivations, *map(_values, factors))
    shape = expression.Sequence(tuple(Hole(place) for place in range(len(holes))))  # type: ignore[misc]
    return Product(shape, holes)


def apart(k: int, factors: Sequence[VariedAddress]) -> tuple[int, tuple[FactorLevel, ...]]:
    """Return the derivation of the grammar, and the value of each address, that a number stands for."""
    levels: list[FactorLevel] = []
    for factor in reversed(factors):
        k, place = divmod(k, len(factor.levels))
        levels.append(factor.levels[place])
    return k, tuple(reversed(levels))


def _values(factor: VariedAddress) -> Varied:
    words = level_texts(factor.values)
    return Varied(factor.address, Alternatives((NOTHING,) * len(words), words, _scale(factor)))


def _scale(factor: VariedAddress) -> Scale | None:
    """Return how the values are spaced: those of a list count as evenly spaced; None if they are no numbers."""
    if factor.range is not None:
        return factor.range.scale
    return None if as_numbers(factor.values) is None else "linear"
