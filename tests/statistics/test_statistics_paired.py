"""The statistics against SciPy's own, against their definitions, and against simulated truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ablate import statistics

PAIRS = [
    ([2.31, 2.29, 2.33], [2.30, 2.25, 2.34]),
    ([3.0, 3.2, 2.9, 3.4, 2.8], [1.5, 1.4, 1.45, 1.39, 1.6]),
    ([0.1, 0.2], [0.3, 0.25]),
]


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_paired_is_students_test(before, after, confidence):
    found = statistics.paired(before, after, confidence=confidence)
    expected = stats.ttest_rel(after, before)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-10)
    for bounds, level in (
        ((found.low, found.high), confidence),
        ((found.tost_low, found.tost_high), 2 * confidence - 1),
    ):
        interval = expected.confidence_interval(level)
        assert bounds == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert (found.n, found.mean) == (len(before), pytest.approx(np.mean(np.subtract(after, before))))


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_ratios_are_differences_of_logarithms(before, after):
    found = statistics.paired(before, after, log=True)
    expected = stats.ttest_rel(np.log(after), np.log(before))
    assert found.p == pytest.approx(expected.pvalue, rel=1e-10)
    assert math.exp(found.mean) == pytest.approx(stats.gmean(np.divide(after, before)))


@pytest.mark.parametrize("margin", [0.01, 0.03, 0.05, 0.1, 1.0])
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_inside_is_two_one_sided_tests(before, after, margin):
    difference = np.subtract(after, before)
    above = stats.ttest_1samp(difference, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(difference, margin, alternative="less").pvalue
    assert statistics.paired(before, after).inside(margin) == (max(above, below) < 0.05)


def test_seeds_that_vary_together_are_paired():
    """Noise that both sides share is a hundred times the effect: pairs see it, and unpaired samples would not."""
    shared = np.random.default_rng(1).normal(0, 1.0, 8)
    apart = np.random.default_rng(2).normal(0.01, 0.002, 8)
    assert statistics.paired(list(shared), list(shared + apart)).p < 0.001
    assert stats.ttest_ind(shared, shared + apart).pvalue > 0.9


@pytest.mark.parametrize(
    ("before", "after", "log"),
    [([1.0], [2.0], False), ([], [], False), ([1.0, 2.0], [1.0], False), ([1.0, 0.0], [1.0, 2.0], True),
     ([1.0, math.nan], [1.0, 2.0], False)],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(before, after, log):
    with pytest.raises(ValueError, match=r"paired comparison needs|ratios need"):
        statistics.paired(before, after, log=log)


@pytest.mark.parametrize("n", range(2, 9))
@pytest.mark.parametrize("shift", [0.1, -0.3])
def test_without_spread_the_sign_test_decides(n, shift):
    before = [1.0 + 0.1 * i for i in range(n)]
    found = statistics.paired(before, [x + shift for x in before])
    assert found.p == pytest.approx(stats.binomtest(0, n).pvalue)
    assert found.sd == 0
    assert found.mean == pytest.approx(shift)
    # [min, max] of n differences misses their median with probability 2^(1-n).
    assert math.isfinite(found.low) == (2 ** (1 - n) <= 0.05)
    assert math.isfinite(found.tost_high) == (2 ** (1 - n) <= 0.10)
    assert found.inside(1.0) == (n >= 5)


def test_a_little_spread_is_students_again():
    before = [1.0, 1.1, 1.2, 1.3, 1.4]
    after = [x + 0.1 + 1e-6 * (-1) ** i for i, x in enumerate(before)]
    assert statistics.paired(before, after).p == pytest.approx(stats.ttest_rel(after, before).pvalue, rel=1e-6)


def test_rounding_is_no_spread():
    values = np.array([2.3] * 6) * (1 + 1e-15 * np.arange(6))
    assert statistics.spread(values) == 0 < values.std()
    assert statistics.spread(np.array([2.3, 2.3 + 1e-9])) == pytest.approx(1e-9 / math.sqrt(2), rel=1e-5)


def test_identical_sides_are_no_evidence_of_a_difference():
    found = statistics.paired([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert (found.p, found.mean, found.low) == (1.0, 0.0, -math.inf)


def closed_testing(p: list[float]) -> list[float]:
    """Holm by another way: the closure of Bonferroni's test, over every subset of the hypotheses."""
    m = range(len(p))
    subsets = [s for size in range(1, len(p) + 1) for s in itertools.combinations(m, size)]
    return [max(min(1.0, len(s) * min(p[j] for j in s)) for s in subsets if i in s) for i in m]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closure_of_bonferroni(p):
    assert statistics.holm(p) == pytest.approx(closed_testing(p))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_test_that_could_not_be_made_counts_in_holm(p):
    adjusted = statistics.holm([*p, None])
    assert adjusted[-1] is None
    assert adjusted[:-1] == pytest.approx(statistics.holm([*p, 1.0])[:-1])


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (3, 5), (1, 1), (17, 40)])
def test_wilson_is_scipys(k, n):
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert statistics.wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_is_everything():
    assert statistics.wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="6 successes of 5"):
        statistics.wilson(6, 5)


@pytest.mark.parametrize("n", [2, 5, 20])
def test_the_upper_limit_of_sd_is_exceeded_one_time_in_five(n):
    sd = np.random.default_rng(n).normal(0, 2.0, (20_000, n)).std(axis=1, ddof=1)
    covered = np.mean([statistics.sd_upper(value, n) >= 2.0 for value in sd])
    assert covered == pytest.approx(0.8, abs=0.012)
    assert np.mean(sd >= 2.0) < 0.5  # planning from the sd itself falls short more often than not


@pytest.mark.parametrize(("sd", "margin"), [(0.01, 0.02), (0.01, 0.004), (1.0, 0.3)])
def test_seeds_for_a_margin_bring_the_interval_to_half_of_it(sd, margin):
    def half_width(n: int) -> float:
        return stats.t.ppf(0.95, n - 1) * sd / math.sqrt(n)

    n = statistics.seeds_for_margin(sd, margin)
    assert half_width(n) <= margin / 2 < half_width(n - 1)


@pytest.mark.parametrize(("difference", "alpha"), [(0.5, 0.05), (1.0, 0.05), (-1.0, 0.01), (3.0, 0.05)])
def test_seeds_for_power_find_the_difference_four_times_in_five(difference, alpha):
    def power(n: int) -> float:
        critical = stats.t.ppf(1 - alpha / 2, n - 1)
        return stats.nct.sf(critical, n - 1, math.sqrt(n) * abs(difference))

    n = statistics.seeds_for_power(difference, 1.0, alpha=alpha)
    assert power(n) >= 0.8 > power(n - 1)


def test_no_plan_asks_for_more_seeds_than_anyone_would_run():
    assert statistics.seeds_for_margin(1.0, 1e-4) is None
    assert statistics.seeds_for_power(1e-4, 1.0) is None
    assert statistics.seeds_for_power(0.0, 1.0) is None
    assert statistics.seeds_for_power(1e9, 1.0) is not None


@pytest.mark.parametrize("level", [0.05, 0.1, 0.0125, 0.9])
def test_seeds_for_signs(level):
    n = statistics.seeds_for_signs(level)
    assert 2.0 ** (1 - n) <= level
    assert n == 2 or 2.0 ** (2 - n) > level
