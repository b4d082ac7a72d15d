"""Ranges of a search: which numbers they stand for."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from example_counts import examples_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ablate.source.located import Mapping
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.vary import ENOUGH, NumberRange, continuous, read_range

pytestmark = pytest.mark.fast


def read(text: str) -> NumberRange:
    problems, written = Problems(), parse_yaml(text, "range")
    assert isinstance(written, Mapping)
    found = read_range("here", written, problems)
    problems.raise_if_any()
    assert found is not None
    return found


def test_numbers_of_a_log_range_have_three_digits_and_are_a_percent_apart() -> None:
    found = read("{from: 1e-4, to: 1e-1, scale: log}")
    assert found.scale == "log" and found.numbers[0] == 1e-4 and found.numbers[-1] == 1e-1
    assert all(float(f"{number:.3g}") == number for number in found.numbers)
    ratios = [after / before for before, after in pairwise(found.numbers)]
    assert min(ratios) > 1 and max(ratios) < 1.021
    assert {1e-3, 1e-2} < set(found.numbers)
    # As many in each decade: a uniform draw of a place is a log-uniform draw of a number.
    decades = [sum(low <= number < 10 * low for number in found.numbers) for low in (1e-4, 1e-3, 1e-2)]
    assert max(decades) - min(decades) <= 2


def test_numbers_of_a_linear_range_are_evenly_spaced() -> None:
    found = read("{from: 0.1, to: 1}")
    assert found.scale == "linear" and len(found.numbers) == 901
    assert found.numbers[:3] == (0.1, 0.101, 0.102) and found.numbers[-1] == 1
    assert isinstance(found.numbers[-1], int)


def test_a_step_leads_from_end_to_end() -> None:
    assert read("{from: 2, to: 6, step: 1}").numbers == (2, 3, 4, 5, 6)
    assert read("{from: 0, to: 0.3, step: 0.1}").numbers == (0, 0.1, 0.2, 0.3)  # 3 * 0.1 is above 0.3 in floats


def test_a_narrow_range_has_more_digits() -> None:
    found = read("{from: 0.99, to: 1.01, scale: log}")
    assert len(found.numbers) >= ENOUGH
    assert max(len(f"{number}") for number in found.numbers) > 5


ends = st.decimals(Decimal("-1e6"), Decimal("1e6"), places=3, allow_nan=False).map(
    lambda number: Decimal(f"{number:.6g}")
)


@given(low=ends, high=ends, scale=st.sampled_from(["linear", "log"]))
@settings(max_examples=examples_of(200), deadline=None)
def test_numbers_ascend_from_end_to_end(low: Decimal, high: Decimal, scale: str) -> None:
    assume(low < high and (scale == "linear" or low > 0))
    numbers = continuous(low, high, scale)  # type: ignore[arg-type]
    assert numbers[0] == low and numbers[-1] == high
    assert all(before < after for before, after in pairwise(numbers))
    assert len({float(number) for number in numbers}) == len(numbers)
    assert all(Decimal(f"{number:.6g}") == number for number in numbers)
