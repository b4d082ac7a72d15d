"""Two samples that are not paired, against SciPy's test and by simulation."""

import numpy as np
import pytest
import scipy.stats

from ablate.statistics import paired, welch

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 7), (12, 5)])
def test_it_is_scipys_test_with_unequal_variances(n, m, log):
    rng = np.random.default_rng(n * m + log)
    x, y = np.exp(rng.normal(size=n)), np.exp(0.3 + 2 * rng.normal(size=m))
    got = welch(x, y, log=log, confidence=0.9)
    other = scipy.stats.ttest_ind(*((np.log(y), np.log(x)) if log else (y, x)), equal_var=False)
    interval = other.confidence_interval(0.9)
    assert (got.p, got.df, got.low, got.high) == pytest.approx((other.pvalue, other.df, interval.low, interval.high))
    narrower = other.confidence_interval(0.8)
    assert (got.tost_low, got.tost_high) == pytest.approx((narrower.low, narrower.high))
    assert (got.before, got.after, got.n) == (n, m, min(n, m))


def test_it_holds_its_level_where_variances_and_numbers_differ_and_a_paired_test_of_all_values_is_not_there():
    rng = np.random.default_rng(0)
    found = [
        welch(rng.normal(size=4), 3 * rng.normal(size=9)).p < 0.05  # type: ignore[operator]
        for _ in range(2_000)
    ]
    assert 0.03 < np.mean(found) < 0.07


def test_where_runs_share_what_varies_it_finds_less_than_the_paired_test():
    """So that it is used only where the runs of a seed share nothing."""
    rng = np.random.default_rng(1)
    found = np.zeros(2)
    for _ in range(300):
        shared = rng.normal(size=5)
        x, y = shared + 0.2 * rng.normal(size=5), shared + 0.5 + 0.2 * rng.normal(size=5)
        found += welch(x, y).p < 0.05, paired(x, y).p < 0.05  # type: ignore[operator]
    assert found[1] > 3 * found[0]


def test_without_spread_nothing_but_the_difference_is_known():
    got = welch([1.0, 1.0], [2.0, 2.0, 2.0])
    assert (got.difference, got.error, got.df, got.p) == (1.0, 0.0, None, None)
    assert got.low == -np.inf and got.high == np.inf


@pytest.mark.parametrize(
    ("before", "after", "log"),
    [([1.0], [1.0, 2.0], False), ([1.0, np.nan], [1.0, 2.0], False), ([-1, 1], [1, 2], True)],
)
def test_too_few_or_unusable_values_are_refused(before, after, log):
    with pytest.raises(ValueError, match="need"):
        welch(before, after, log=log)
