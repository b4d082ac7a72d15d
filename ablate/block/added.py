"""Fields that a component got after it was published, and the values at which it is what it was before.

A declaration lists them: `@component("attention", …, added={"gate": None})`. A grammar written before such a field
need not name it: where a grammar gives no default, the field has that value. An identity leaves it out at that value,
so a block means the same, and trains as the same trial, whether it was read before or after the field came.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import Arithmetic, Catalogue, ComponentSpec, GainField, Number, Parts
from ablate.block.expression import Gain, Node, Sequence, Series, Value
from ablate.extension.configured import ADDED, is_added


def added(default: Any) -> Any:
    """Declare a field of a dataclass that came later: `share: str | None = added(None)`."""
    return dataclasses.field(default=default, metadata={ADDED: True})


def told(value: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that its identity has: all but added ones at their default."""
    fields = dataclasses.fields(value)
    return tuple(f.name for f in fields if ADDED not in f.metadata or getattr(value, f.name) != f.default)


def untold(document: Any) -> set[str]:
    """Return the added fields of a pydantic model at their default."""
    added = (name for name, info in type(document).model_fields.items() if is_added(info))
    return {name for name in added if getattr(document, name) == type(document).model_fields[name].get_default()}


def value_before(spec: ComponentSpec, field: str) -> Value:
    """Return the value of an added field at which the component is what it was before; KeyError for another field."""
    plain = spec.added[field]
    match spec.fields[field]:
        case Parts():
            return ()
        case GainField():
            return Gain(Expression(number_text(plain)))
        case Arithmetic() if plain is not None:
            return Expression(number_text(plain))
        case Number():
            return float(plain)
    return plain  # type: ignore[no-any-return]


def without_added(block: Sequence, catalogue: Catalogue) -> Sequence:
    """Return a block in normal form without the added fields that have no effect: for identities, not for building."""
    stripped = _without(block, catalogue)
    assert isinstance(stripped, Sequence)
    return stripped


def _without(value: Value, catalogue: Catalogue) -> Value:
    match value:
        case Node(name=name, fields=fields):
            spec = catalogue[name]
            there = ((field, child) for field, child in fields if not _has_no_effect(spec, field, child))
            return Node(name, tuple((field, _without(child, catalogue)) for field, child in there))
        case Sequence():
            return Sequence(tuple(_without(child, catalogue) for child in value))  # type: ignore[misc]
        case Series():
            return Series(tuple(_without(child, catalogue) for child in value))
        case tuple():
            return tuple(_without(child, catalogue) for child in value)  # type: ignore[return-value]
    return value


def _has_no_effect(spec: ComponentSpec, field: str, value: Value) -> bool:
    return field in spec.added and value == value_before(spec, field)
