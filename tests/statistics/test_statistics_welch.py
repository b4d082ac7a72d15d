"""Two samples that are not paired, against SciPy's test and by simulation."""

from itertools import product

import numpy as np
import pytest
import scipy.stats

from ablate.statistics import paired, welch
from ablate.statistics.paired import one_sided_p
from ablate.statistics.t_tests import of_smaller

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("n", "m"), [(2, 2), (4, 4), (5, 7), (12, 5)])
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


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 7), (12, 4)])
def test_few_values_beside_more_have_the_degrees_of_freedom_of_their_own(n, m, log):
    """Written out from the equation, with SciPy's t."""
    rng = np.random.default_rng(n * m + log)
    x, y = np.exp(rng.normal(size=n)), np.exp(0.3 + 2 * rng.normal(size=m))
    got = welch(x, y, log=log, confidence=0.9)
    if log:
        x, y = np.log(x), np.log(y)
    difference, error = y.mean() - x.mean(), np.sqrt(x.var(ddof=1) / n + y.var(ddof=1) / m)
    t = scipy.stats.t(min(n, m) - 1, difference, error)
    assert got.of_smaller and got.df == min(n, m) - 1
    assert (got.difference, got.error) == pytest.approx((difference, error))
    assert got.sd == pytest.approx(np.sqrt(x.var(ddof=1) + y.var(ddof=1)))
    assert got.p == pytest.approx(2 * min(t.cdf(0), t.sf(0)))
    assert (got.low, got.high) == pytest.approx(t.interval(0.9))
    assert (got.tost_low, got.tost_high) == pytest.approx(t.interval(0.8))


LEVEL = 0.04
"""That of a first judgement."""

SIDES = [(n, m, sd, other) for n, m in product((2, 3, 4), (5, 8, 20)) for sd, other in ((1, 1), (3, 1), (10, 1), (1, 3),
                                                                                       (1, 10))]  # fmt: skip
"""Sizes of both samples, and the standard deviations that their values are drawn with."""


def error_rates(n, m, sd, other, *, smaller, times=20_000):
    """How often p is below `LEVEL` where both means are the same, and where they differ by a wide margin that p of
    equivalence; with the degrees of freedom of the smaller sample, or with Welch's.
    """
    rng = np.random.default_rng([n, m, sd, other])
    x, y = sd * rng.standard_normal((times, n)), other * rng.standard_normal((times, m))
    shares = np.stack([x.var(axis=1, ddof=1) / n, y.var(axis=1, ddof=1) / m])
    df = shares.sum(axis=0) ** 2 / (shares**2 / np.array([[n - 1], [m - 1]])).sum(axis=0)
    df = np.full(times, min(n, m) - 1.0) if smaller else df
    difference, error = y.mean(axis=1) - x.mean(axis=1), np.sqrt(shares.sum(axis=0))
    p = 2 * scipy.stats.t.sf(np.abs(difference) / error, df)
    margin = 50.0 * max(sd, other)
    inside = scipy.stats.t.cdf((np.abs(difference + margin) - margin) / error, df)
    if smaller == of_smaller(n, m):
        for i in range(20):
            got = welch(x[i], y[i] + margin)
            assert welch(x[i], y[i]).p == pytest.approx(p[i])
            assert one_sided_p(got.difference, margin, got.error, got.df, got.n) == pytest.approx(inside[i])
    return float((p < LEVEL).mean()), float((inside < LEVEL).mean())


def test_the_level_is_held_whatever_the_sizes_and_the_noise_of_both_sides():
    above = LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / 20_000)
    for sides in SIDES:
        assert max(error_rates(*sides, smaller=True)) <= above, sides


def test_by_welchs_degrees_of_freedom_it_would_not_be_held():
    """The twin: of the same samples, up to 11 % are called different, and 7 % equivalent at the margin."""
    rates = np.array([error_rates(*sides, smaller=False) for sides in SIDES])
    assert (rates.max(axis=0) > (0.1, 0.07)).all()


@pytest.mark.parametrize("sides", [(5, 8, 3, 1), (5, 20, 1, 1), (8, 5, 1, 10), (12, 20, 10, 1), (4, 4, 3, 1)])
def test_they_err_little_from_five_values_on_and_where_sizes_are_the_same(sides):
    """So that no power is given away there."""
    assert 0.75 * LEVEL < max(error_rates(*sides, smaller=False)) < 1.25 * LEVEL
    assert not of_smaller(*sides[:2])


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
    assert (got.difference, got.sd, got.error, got.df, got.p) == (1.0, 0.0, 0.0, None, None)
    assert got.low == -np.inf and got.high == np.inf


@pytest.mark.parametrize(
    ("before", "after", "log"),
    [([1.0], [1.0, 2.0], False), ([1.0, np.nan], [1.0, 2.0], False), ([-1, 1], [1, 2], True)],
)
def test_too_few_or_unusable_values_are_refused(before, after, log):
    with pytest.raises(ValueError, match="need"):
        welch(before, after, log=log)
