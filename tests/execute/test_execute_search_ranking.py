"""What a result counts for, and which of several is the better one."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.execute.search.ranking import Result, crowding, dominates, front, hypervolume, ranked, told


@pytest.mark.fast
def test_what_diverged_is_as_bad_as_the_worst_that_finished() -> None:
    history = [
        Result(0, "finished", (1.0, 5.0)),
        Result(1, "diverged"),
        Result(2, "finished", (3.0, 2.0)),
        Result(3, "bug"),
        Result(4, "out_of_memory"),
        Result(5, "timeout"),
        Result(6, "finished", (2.0, math.inf)),
        Result(7, "finished", (math.nan, 4.0)),
    ]
    assert told(history, ("min", "max")) == [
        *((1.0, -5.0), (3.0, -2.0), (3.0, -2.0), None, None, None, (2.0, -2.0), (3.0, -4.0)),
    ]
    assert told(history[1:2], ("min",)) == [None]


vectors = st.integers(1, 3).flatmap(
    lambda m: st.lists(st.tuples(*[st.integers(0, 4)] * m).map(lambda v: tuple(map(float, v))), max_size=14)
)


@pytest.mark.fast
@given(vectors)
def test_fronts_against_brute_force(losses: list[tuple[float, ...]]) -> None:
    def beaten(i: int, among: list[int]) -> bool:
        return any(
            all(x <= y for x, y in zip(losses[j], losses[i])) and any(x < y for x, y in zip(losses[j], losses[i]))
            for j in among
        )

    places = list(range(len(losses)))
    assert front(losses) == [i for i in places if not beaten(i, places)]
    order, left = ranked(losses), places
    assert sorted(order) == places
    while left:
        here = [i for i in left if not beaten(i, left)]
        start = len(places) - len(left)
        assert sorted(order[start : start + len(here)]) == here
        left = [i for i in left if i not in here]


@pytest.mark.fast
def test_crowding_prefers_the_ends_and_the_gaps() -> None:
    line = [(0.0, 10.0), (1.0, 9.0), (2.0, 8.0), (8.0, 2.0), (10.0, 0.0)]
    assert crowding(line) == [math.inf, 0.2 + 0.2, 0.7 + 0.7, 0.8 + 0.8, math.inf]
    assert ranked(line) == [0, 4, 3, 2, 1]
    assert ranked([(3.0,), (1.0,), (2.0,)]) == [1, 2, 0]
    assert dominates((1.0, 1.0), (1.0, 2.0)) and not dominates((1.0, 2.0), (1.0, 2.0))


@pytest.mark.fast
@given(st.integers(1, 3).flatmap(lambda m: st.lists(st.tuples(*[st.integers(0, 5)] * m), min_size=1, max_size=8)))
def test_hypervolume_counts_the_cells_of_a_grid(corners: list[tuple[int, ...]]) -> None:
    m = len(corners[0])
    cells = product(range(5), repeat=m)
    dominated = sum(any(all(x <= y for x, y in zip(corner, cell)) for corner in corners) for cell in cells)
    losses = [tuple(map(float, corner)) for corner in corners]
    assert hypervolume(losses, (5.0,) * m) == dominated
    assert hypervolume([losses[i] for i in front(losses)], (5.0,) * m) == dominated
