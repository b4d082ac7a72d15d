"""Recipe and block as tuned: the values of a setting applied to those of the space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.block.normal_form import normalise
from ablate.block.select import is_there
from ablate.source.located import Mapping, Scalar
from ablate.source.overlay import overlay
from ablate.source.problems import Problems
from ablate.space.documents import Recipe
from ablate.space.fair import Plain, Tune, TunedField, text_of
from ablate.space.override import Override, with_value
from ablate.space.sections import Sections
from ablate.space.space import Space

Tuned: TypeAlias = tuple[tuple[str, Plain], ...]
"""Values by the names of their fields in `fair.tune`."""


def fields_of(tune: Tune, block: Block, recipe: Recipe, catalogue: Catalogue) -> tuple[TunedField, ...]:
    """Return the fields tuned for a block under a recipe: those that either of them has."""
    return tuple(
        field
        for field in tune.fields
        if (has_field(recipe, field) if field.path else is_there(block, field.address, catalogue))
    )


def has_field(recipe: Recipe, field: TunedField) -> bool:
    """Return whether a recipe has a field; a rate of one optimiser is none of another.

    A setting that came later is not in a recipe at its default, but a value of it was read when the field was.
    """
    value: Any = recipe.model_dump()
    steps = field.path[1:]
    if steps[:1] == ("optimizer",) and len(steps) == 3:
        steps = steps[:2]
    for step in steps:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def recipe_at(space: Space, tuned: Tuned) -> Recipe:
    """Return the recipe of a space with these values."""
    chosen = [(field, field.at(value)) for field, value in _fields(space, tuned) if field.path]
    if not chosen:
        return space.recipe
    over = Mapping((), chosen[0][0].key.span)
    for field, value in chosen:
        nested: Mapping | Any = value
        for step in reversed(field.path):
            nested = Mapping(((Scalar(step, step, field.key.span), nested),), field.key.span)
        over = overlay(over, nested)
    assert isinstance(space.located, Mapping)
    problems = Problems()
    recipe = Sections(space.located, space.grammar, problems, space.origins).recipe_with(over, problems)
    problems.raise_if_any()
    assert recipe is not None
    return recipe


def block_at(space: Space, block: Block, tuned: Tuned, problems: Problems | None = None) -> Block:
    """Return a block with these values, where it has the fields. Raises Invalid for a bad value; `problems` say why."""
    chosen = [(field, value) for field, value in _fields(space, tuned) if not field.path]
    reader = space.grammar.reader_for(Problems() if problems is None else problems)
    for field, value in chosen:
        block = with_value(block, Override(field.address, field.key, field.at(value)), reader)
    return normalise(block, space.grammar.catalogue) if chosen else block


def value_in(recipe: Recipe, field: TunedField) -> str:
    """Return the value of a recipe's field, in words."""
    value: Any = recipe.model_dump()
    for step in field.path[1:]:
        value = value.get(step)
    return text_of(value)


def _fields(space: Space, tuned: Tuned) -> Iterator[tuple[TunedField, Plain]]:
    tune = space.fair.tune
    if isinstance(tune, Tune):
        yield from ((tune.field(name), value) for name, value in tuned)
