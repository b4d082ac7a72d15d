"""Runs and effects as numbers: orthogonal choices, aliases held against least squares, D-optimal choices."""

from itertools import combinations, product

import numpy as np
import pytest
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.plan.designs.design_matrix import (
    ROMAN,
    aliases,
    columns,
    d_efficiency,
    d_optimal,
    estimable,
    every_combination,
    fraction,
    generators,
    mains,
    pairs,
    plackett_burman,
    resolution,
    siblings,
)

pytestmark = pytest.mark.fast

ASKED = [(edits, number) for edits in range(2, 12) for number in (3, 4, 5)]


def words(levels: np.ndarray, longest: int) -> set[int]:
    """By brute force over every subset of columns: the lengths of those whose product is constant."""
    edits = levels.shape[1]
    return {
        size
        for size in range(1, longest + 1)
        for some in combinations(range(edits), size)
        if np.ptp(np.prod(levels[:, some], axis=1)) == 0
    }


@pytest.mark.parametrize(("edits", "asked"), ASKED)
def test_a_fraction_is_balanced_and_has_the_resolution_asked_for(edits: int, asked: int) -> None:
    levels = fraction(edits, asked)
    assert set(np.unique(levels)) == {-1, 1}
    assert len(np.unique(levels, axis=0)) == len(levels)
    np.testing.assert_array_equal(levels.T @ levels, len(levels) * np.eye(edits))
    assert not words(levels, asked - 1)
    found = resolution(levels)
    assert (found is None) == (len(levels) == 2**edits)
    assert found is None or (found >= asked and found == min(words(levels, edits)))
    assert (levels == 1).all(axis=1).any()


@pytest.mark.parametrize(
    ("edits", "asked", "runs"), [(3, 3, 4), (4, 4, 8), (5, 5, 16), (7, 3, 8), (8, 4, 16), (6, 4, 16)]
)
def test_no_smaller_fraction_has_that_resolution(edits: int, asked: int, runs: int) -> None:
    """Box, Hunter & Hunter 2005, Table 6.22; and by brute force over every generator for half as many runs."""
    assert len(fraction(edits, asked)) == runs
    free = int(np.log2(runs)) - 1
    base = np.array(list(product((-1, 1), repeat=free)))
    made = [np.prod(base[:, some], axis=1) for size in range(1, free + 1) for some in combinations(range(free), size)]
    for chosen in combinations(made, edits):
        levels = np.stack(chosen, axis=1)
        assert words(levels, asked - 1)


@pytest.mark.parametrize("edits", range(2, 27))
def test_plackett_and_burmans_runs_are_orthogonal_and_few(edits: int) -> None:
    levels = plackett_burman(edits)
    runs = len(levels)
    np.testing.assert_array_equal(levels.T @ levels, runs * np.eye(edits))
    assert not levels.sum(axis=0).any() or runs == 2**edits
    assert runs == (32 if edits >= 24 else 4 * (edits // 4 + 1))
    assert (levels == 1).all(axis=1).any()


@pytest.mark.parametrize("levels", [fraction(6, 3), fraction(7, 4), plackett_burman(9), every_combination(4)])
def test_turned_round_runs_are_as_orthogonal_and_those_with_the_ends_come_first(levels: np.ndarray) -> None:
    found = siblings(levels, 64)
    assert len({other.tobytes() for other in found}) == len(found)
    ends = [((o == 1).all(axis=1).any(), (o == -1).all(axis=1).any()) for o in found]
    assert ends == sorted(ends, key=[(True, True), (True, False), (False, True), (False, False)].index)
    for other in found:
        np.testing.assert_array_equal(other.T @ other, levels.T @ levels)
        assert resolution(other) == resolution(levels)


def test_every_fraction_of_a_family_is_there() -> None:
    """2^p of them, which share no run and are together all combinations."""
    found = siblings(fraction(6, 3), 64)
    assert len(found) == 8
    assert len(np.unique(np.concatenate(found), axis=0)) == 64


def test_generators_give_the_levels() -> None:
    for levels in (fraction(7, 3), *siblings(fraction(8, 4), 8), plackett_burman(6)):
        assert 2 ** (levels.shape[1] - len(generators(levels))) == len(levels)
        for one in generators(levels):
            np.testing.assert_array_equal(levels[:, one.edit], one.sign * levels[:, list(one.of)].prod(axis=1))
    assert generators(plackett_burman(11)) == ()
    assert resolution(plackett_burman(11)) is None


@st.composite
def random_runs(draw: st.DrawFn) -> np.ndarray:
    edits = draw(st.integers(2, 5))
    every = every_combination(edits)
    chosen = draw(st.lists(st.integers(0, len(every) - 1), min_size=2, unique=True))
    return every[sorted(chosen)]


def surface(levels: np.ndarray, effects: dict[tuple[int, ...], float]) -> np.ndarray:
    """The outcome of runs, from the effects by their definition: a mean difference, a difference of differences."""
    halves = {1: 1 / 2, 2: 1 / 4}
    return sum(halves[len(term)] * size * np.prod(levels[:, term], axis=1) for term, size in effects.items())


@settings(max_examples=examples_of(100), deadline=None)
@given(levels=random_runs(), with_pairs=st.booleans(), seed=st.integers(0, 99))
def test_the_bias_of_estimates_is_what_the_alias_table_says(levels: np.ndarray, with_pairs: bool, seed: int) -> None:
    edits = levels.shape[1]
    wanted = (*mains(edits), *(pairs(edits) if with_pairs else ()))
    terms = estimable(levels, wanted)
    others = [term for term in (*mains(edits), *pairs(edits)) if term not in terms]
    table = aliases(levels, terms, others)
    rng = np.random.default_rng(seed)
    true = {term: rng.normal() for term in (*terms, *others)}
    design = np.stack([np.ones(len(levels)), *(np.prod(levels[:, term], axis=1) for term in terms)], axis=1)
    fitted = np.linalg.pinv(design) @ (3.0 + surface(levels, true))
    for beta, term in zip(fitted[1:], terms, strict=True):
        bias = sum(times * true[other] for of, other, times in table if of == term)
        assert 2 ** len(term) * beta == pytest.approx(true[term] + bias, abs=1e-9)


def test_the_tables_of_text_books() -> None:
    """2^(4-1): mains are clear, pairs in twos (Montgomery, Table 8.3). Plackett-Burman of 12: thirds of each pair that
    an edit is not in (Box & Meyer 1986), half of that in effects.
    """
    levels = fraction(4, 4)
    terms = estimable(levels, (*mains(4), *pairs(4)))
    assert terms == (*mains(4), (0, 1), (0, 2), (0, 3))
    assert set(aliases(levels, terms, [(1, 2), (1, 3), (2, 3)])) == {
        ((0, 1), (2, 3), 1.0),
        ((0, 2), (1, 3), 1.0),
        ((0, 3), (1, 2), 1.0),
    }
    half = aliases(fraction(3, 3), mains(3), pairs(3))
    assert half == (((0,), (1, 2), 0.5), ((1,), (0, 2), 0.5), ((2,), (0, 1), 0.5))
    twelve = aliases(plackett_burman(11), mains(11), pairs(11))
    assert len(twelve) == 11 * 45
    assert {round(abs(times), 9) for _, _, times in twelve} == {round(1 / 6, 9)}
    assert not any(term[0] in other for term, other, _ in twelve)
    assert aliases(every_combination(3), mains(3), pairs(3)) == ()


@settings(max_examples=examples_of(60), deadline=None)
@given(levels=random_runs(), seed=st.integers(0, 9), data=st.data())
def test_d_optimal_runs_are_no_worse_than_random_ones(levels: np.ndarray, seed: int, data: st.DataObject) -> None:
    terms = estimable(levels, mains(levels.shape[1]))
    runs = data.draw(st.integers(len(terms) + 1, len(levels)))
    fixed = data.draw(st.sampled_from([(), (0,), (0, len(levels) - 1)]))
    chosen = d_optimal(levels, terms, runs, fixed)
    assert len(set(chosen)) == runs
    assert chosen == d_optimal(levels, terms, runs, fixed)
    found = d_efficiency(levels[list(chosen)], terms)
    rng = np.random.default_rng(seed)
    for _ in range(50):
        other = rng.choice(len(levels), runs, replace=False)
        assert found >= d_efficiency(levels[other], terms) - 1e-4


@pytest.mark.parametrize("runs", [4, 5, 6, 7])
def test_d_optimal_runs_are_the_best_there_are(runs: int) -> None:
    """By brute force, with candidates missing as a constraint has it."""
    levels = every_combination(4)
    levels = levels[~((levels[:, 0] == 1) & (levels[:, 1] == 1))]
    terms = mains(4) if runs > 4 else mains(3)
    best = max(d_efficiency(levels[list(some)], terms) for some in combinations(range(len(levels)), runs))
    assert d_efficiency(levels[list(d_optimal(levels, terms, runs))], terms) == pytest.approx(best, abs=1e-4)


def test_what_is_trained_anyway_is_taken_where_it_costs_nothing() -> None:
    assert {0, 15} <= set(d_optimal(every_combination(4), mains(4), 8, (0, 15)))
    # No orthogonal eight runs of five edits have both ends: the words of such a fraction would all be even
    chosen = d_optimal(every_combination(5), mains(5), 8, (0, 31))
    assert 0 in chosen and 31 not in chosen
    assert d_efficiency(every_combination(5)[list(chosen)], mains(5)) == pytest.approx(1)


def test_orthogonal_runs_are_found_where_there_are_such() -> None:
    for edits, runs in ((3, 4), (4, 8), (5, 8), (7, 8)):
        every = every_combination(edits)
        chosen = every[list(d_optimal(every, mains(edits), runs))]
        assert d_efficiency(chosen, mains(edits)) == pytest.approx(1)


@pytest.mark.parametrize("runs", [2, 9])
def test_too_few_runs_or_candidates_are_refused(runs: int) -> None:
    with pytest.raises(ValueError, match=f"{runs} runs of 8"):
        d_optimal(every_combination(3), mains(3), runs)


def test_an_effect_that_cannot_be_told_from_those_before_is_not_estimated() -> None:
    levels = every_combination(3)
    together = levels[levels[:, 0] == levels[:, 1]]
    assert estimable(together, mains(3)) == ((0,), (2,))
    assert aliases(together, [(0,), (2,)], [(1,)]) == (((0,), (1,), 1.0),)
    constant = levels[levels[:, 2] == -1]
    assert estimable(constant, mains(3)) == ((0,), (1,))
    assert d_efficiency(together, mains(3)) == 0


def test_columns_are_products_and_runs_stand_in_yates_order() -> None:
    levels = every_combination(3)
    assert levels.tolist()[:3] == [[-1, -1, -1], [1, -1, -1], [-1, 1, -1]]
    np.testing.assert_array_equal(columns(levels, [(0, 2)])[:, 0], levels[:, 0] * levels[:, 2])
    assert ROMAN[resolution(fraction(5, 3)) or 0] == "III"


@pytest.mark.parametrize(("edits", "asked", "best"), [(4, 3, 4), (6, 5, 6), (8, 3, 4), (5, 4, 5), (5, 3, 3)])
def test_a_better_resolution_is_taken_where_it_costs_nothing(edits: int, asked: int, best: int) -> None:
    """Box, Hunter & Hunter 2005, Table 6.22: 2^(4-1) IV, 2^(6-1) VI, 2^(8-4) IV, 2^(5-1) V, 2^(5-2) III."""
    assert resolution(fraction(edits, asked)) == best
