"""Ranks with lost runs the worst: against every sign written out, and against what survivors alone would say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from example_counts import examples_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from ablate.statistics import fewest_seeds, seeds_for_agreement, seeds_for_ranks, worst_rank

TENTHS = st.integers(-8, 8).map(lambda n: n / 10)
SIDES = st.sampled_from([-2, -1, 0, 1, 2])


def by_every_sign(differences: list[float], lost: list[int], against: int = 0) -> float:
    """p from ranks counted one by one and all 2^n signs, by nothing that the code under test uses."""
    keys = [(abs(side), 0.0, side) if side else (0, abs(d), d) for d, side in
            [*((d, 0) for d in differences), *((0.0, side) for side in lost)]]  # fmt: skip
    keys = [key for key in keys if key[2] != 0]
    ranks = [sum((other[:2] < key[:2]) + (other[:2] == key[:2]) / 2 for other in keys) + 0.5 for key in keys]
    signed = [math.copysign(rank, key[2]) for rank, key in zip(ranks, keys, strict=True)]
    if against:
        top = len(signed) + (against + 1) / 2
        total = sum(signed)
        if total == 0 or abs(total) <= against * top:
            return 1.0
        ranks, signed = [*ranks, *[top] * against], [*signed, *[-math.copysign(top, total)] * against]
    seen = abs(sum(signed))
    sums = [abs(sum(map(math.prod, zip(signs, ranks, strict=True))))
            for signs in itertools.product((-1, 1), repeat=len(ranks))]  # fmt: skip
    return sum(one >= seen - 1e-9 for one in sums) / len(sums)


@settings(max_examples=examples_of(150), deadline=None)
@given(st.lists(TENTHS, max_size=7), st.lists(SIDES, max_size=4), st.integers(0, 2))
def test_p_is_the_share_of_all_signs(differences, lost, against):
    if differences or lost or against:
        found = worst_rank(differences, lost, against)
        assert found.p == pytest.approx(by_every_sign(differences, lost, against), abs=1e-12)
        assert found.n == len(differences) + len(lost) + against


@settings(max_examples=examples_of(100), deadline=None)
@given(st.lists(TENTHS, max_size=7), st.lists(SIDES, max_size=4), st.integers(0, 2))
def test_before_and_after_changed_about_is_the_mirror_image(differences, lost, against):
    if differences or lost or against:
        one = worst_rank(differences, lost, against)
        other = worst_rank([-d for d in differences], [-side for side in lost], against)
        assert other.p == pytest.approx(one.p) and other.total == pytest.approx(one.mirrored().total)
        assert other.tendency == pytest.approx(one.mirrored().tendency)


def test_without_a_lost_run_it_is_wilcoxons_signed_rank_test():
    d = np.random.default_rng(0).normal(0.3, 1, (20, 11))
    for row in d:
        assert worst_rank(row).p == pytest.approx(stats.wilcoxon(row, method="exact").pvalue, abs=1e-12)


def test_an_open_seed_is_no_surer_than_any_number_it_might_have_had():
    random = np.random.default_rng(2)
    found = 0
    for _ in range(300):
        differences = random.normal(1, 1, 8)
        known, opened = worst_rank(differences), worst_rank(differences, open=1)
        for might in random.normal(0, 3, 5):
            whole = worst_rank([*differences, might])
            assert opened.p >= (whole.p if known.total * whole.total > 0 else 1.0) - 1e-12
        found += opened.p < 0.15
    assert found > 10  # it does find something


def test_fewest_seeds_is_where_the_least_p_first_falls_below_the_level():
    for level in (0.05, 0.04, 0.05 / 2, 0.05 / 7, 0.008, 1 / 16):
        n = fewest_seeds(level)
        assert worst_rank(range(1, n + 1)).p < level <= worst_rank(range(1, n)).p
    for lost in (1, 2):
        n = fewest_seeds(0.05, open=lost)
        assert worst_rank(range(1, n - lost + 1), open=lost).p < 0.05 <= worst_rank(range(1, n - lost), open=lost).p
    assert fewest_seeds(1e-6, open=12) is None


@settings(max_examples=examples_of(60), deadline=None)
@given(st.lists(TENTHS, max_size=4), st.lists(SIDES, max_size=2), st.integers(0, 1))
@example([0.1, 0.1, -0.1], [-2], 0)
def test_where_further_seeds_agree_p_first_falls_below_the_level_at_the_seeds_for_that(differences, lost, against):
    """Further seeds are copies of the furthest on the side that leads; that side by signed ranks of another hand."""
    keys = [(abs(side), abs(d), side or d) for d, side in [*((d, 0) for d in differences), *((0, s) for s in lost)]]
    keys = sorted(key for key in keys if key[2] != 0)
    if not keys:
        return
    sizes = [key[:2] for key in keys]
    ranks = stats.rankdata([sizes.index(size) for size in sizes])
    total = sum(math.copysign(rank, key[2]) for rank, key in zip(ranks, keys, strict=True))
    side = math.copysign(1, total or 1)
    more, d, _ = max(key for key in keys if key[2] * side > 0)
    found = seeds_for_agreement(worst_rank(differences, lost, against), alpha=0.06)

    def p_at(n: int) -> float:
        k = n - len(differences) - len(lost) - against
        further = ([], [int(side * more)] * k) if more else ([side * d] * k, [])
        return by_every_sign([*differences, *further[0]], [*lost, *further[1]], against)

    assert p_at(found) < 0.06
    if found > len(differences) + len(lost) + against + 1:
        assert p_at(found - 1) >= 0.06


def test_seeds_that_agree_are_planned_beyond_those_gone_through_sign_by_sign():
    """Thirty each way: the normal law against p by draws, and no more than can be afforded."""
    ranks = worst_rank([(-1) ** i * (1 + i / 100) for i in range(60)])
    n = seeds_for_agreement(ranks, alpha=0.008)
    assert 60 < n < 80
    around = [worst_rank([*((-1) ** i * (1 + i / 100) for i in range(60)), *[-1.59] * k]).p for k in (n - 58, n - 62)]
    assert around[0] < 0.008 < around[1]
    assert seeds_for_agreement(ranks, alpha=0.008, least=90) == 90
    assert seeds_for_agreement(ranks, alpha=0.008, least=1001) is None


def test_rounding_is_a_tie():
    assert worst_rank([1e-16, -0.1, -0.2], size=1.0).ties == 1
    assert worst_rank([1e-16, -0.1, -0.2]).ties == 0


def test_nothing_has_no_ranks_and_what_is_not_finite_neither():
    with pytest.raises(ValueError, match="one finite difference or more"):
        worst_rank([])
    with pytest.raises(ValueError, match="one finite difference or more"):
        worst_rank([math.nan])


@pytest.mark.parametrize("shift", [1.0, 0.5, 0.3])
def test_the_seeds_planned_find_the_tendency_planned_from(shift):
    """Noether's number against simulated signed ranks of normal differences; it is too many where they lean far."""
    n = seeds_for_ranks(float(stats.norm.cdf(math.sqrt(2) * shift)))
    d = np.random.default_rng(1).normal(shift, 1, (4000, n))
    power = np.mean(stats.wilcoxon(d, axis=1, method="approx").pvalue < 0.05)
    assert 0.78 <= power <= (0.96 if shift == 1.0 else 0.87)
    assert seeds_for_ranks(0.5) is None
