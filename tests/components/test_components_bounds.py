"""Every bound that a component declares holds: where the value is read, and where it is known only at the sizes."""

import re

import pytest
from builders import CATALOGUE, architecture, node
from component_contract import hosts
from reading import read_block

from ablate.block.arithmetic import number_text
from ablate.block.catalogue import Arithmetic, Bounded
from ablate.block.expression import print_block
from ablate.errors import InputError
from ablate.plan.size import cost

pytestmark = pytest.mark.fast


def beyond(kind):
    """A value just beyond each bound, and what is then asked for."""
    if kind.whole:
        yield (kind.at_least or 0) + 0.5, "a whole number"
    for limit, step, words in (
        (kind.at_least, -1, "of at least"),
        (kind.at_most, 1, "of at most"),
        (kind.above, 0, "above"),
        (kind.below, 0, "below"),
    ):
        if limit is not None:
            yield limit + step, f"a number {words} {number_text(limit)}"


BEYOND = [
    pytest.param(spec, field, value, expected, id=f"{spec.name}-{field}-{value:g}")
    for spec in CATALOGUE
    for field, kind in spec.fields.items()
    if isinstance(kind, Bounded)
    for value, expected in beyond(kind)
]


@pytest.mark.parametrize(("spec", "field", "value", "expected"), BEYOND)
def test_a_value_beyond_a_bound_is_refused_where_it_is_written(spec, field, value, expected):
    block = next(hosts(node(spec.name, **{field: value}), spec))
    said = re.escape(f"error: expected {expected}, got {number_text(value)}\n")
    with pytest.raises(InputError, match=said + r"(.*\n)+.*\^"):
        read_block(print_block(block, CATALOGUE), defaults=False)


@pytest.mark.parametrize(("spec", "field", "value", "expected"), BEYOND)
def test_and_where_its_value_is_known_at_the_sizes_alone(spec, field, value, expected):
    sized = isinstance(spec.fields[field], Arithmetic)
    written = f"depth-depth+{value!r}" if sized else value
    block = next(hosts(node(spec.name, **{field: written}), spec))
    said = re.escape(f"{spec.name}.{field} is ") + ".*" + re.escape(f"\n  = give {expected}")
    with pytest.raises(InputError, match=said) as refused:
        cost(architecture(block), CATALOGUE)
    assert ("in layer 1 of 2" in str(refused.value)) == sized


def test_there_are_bounds_of_both_kinds():
    """So that the tests above are about something."""
    kinds = {type(case.values[0].fields[case.values[1]]) for case in BEYOND}
    assert len(kinds) == 2 and len(BEYOND) > 30
