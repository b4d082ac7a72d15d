"""The values that occur in any derivation of a grammar, and the sizes that they name."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.block.arithmetic import Expression
from ablate.block.expression import Gain, Value, walk
from ablate.grammar.derivation import Alternatives, FixedValue, Let, Named, Product, SharedDraw, Template


def sizes_derived(template: Template) -> frozenset[str]:
    """Return the sizes, such as `width` and `repetition`, that the arithmetic of any derivation names."""
    whole = list(_values(template, set()))
    values = [*whole, *(child for value in whole for node in walk(value) for _, child in node.fields)]
    written = [value.value if isinstance(value, Gain) else value for value in values]
    return frozenset().union(*(value.names() for value in written if isinstance(value, Expression)))


def _values(template: Template, seen: set[int]) -> Iterator[Value]:
    """Yield every constant, and every shape with its holes; templates that are shared are visited once."""
    if id(template) in seen:
        return
    seen.add(id(template))
    match template:
        case FixedValue(value=value):
            yield value
        case Product(shape=shape, holes=holes):
            yield shape
            for hole in holes:
                yield from _values(hole, seen)
        case Alternatives(alternatives=alternatives):
            for option in alternatives:
                yield from _values(option, seen)
        case Named(body=inner) | SharedDraw(reading=inner):
            yield from _values(inner, seen)
        case Let(drawn=drawn, body=body):
            yield from _values(drawn, seen)
            yield from _values(body, seen)
