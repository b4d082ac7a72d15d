"""Intervals of proportions against SciPy's."""

from __future__ import annotations

import pytest
from scipy import stats

from ablate import statistics


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (3, 5), (1, 1), (17, 40)])
def test_wilson_is_scipys(k, n):
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert statistics.wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_is_everything():
    assert statistics.wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="6 successes of 5"):
        statistics.wilson(6, 5)
