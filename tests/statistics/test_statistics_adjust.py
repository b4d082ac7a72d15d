"""Adjusted p-values against other ways to them: closed testing, and statsmodels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from ablate import statistics


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


@pytest.mark.full
@pytest.mark.parametrize("m", [1, 2, 5, 12])
@pytest.mark.parametrize("seed", range(3))
def test_both_corrections_are_statsmodels(m, seed):
    p = list(np.random.default_rng((m, seed)).beta(0.3, 1.0, m))
    assert statistics.holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert statistics.benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.integers(0, 5))
def test_a_test_that_could_not_be_made_counts_in_benjamini_and_hochbergs(p, place):
    place = min(place, len(p))
    adjusted = statistics.benjamini_hochberg([*p[:place], None, *p[place:]])
    assert adjusted[place] is None
    without = [*adjusted[:place], *adjusted[place + 1 :]]
    # The one that was not made cannot be claimed: as if its p were 1, but that no other p borrows its rank.
    assert without == pytest.approx(statistics.benjamini_hochberg([*p, 1.0])[:-1])


def test_of_no_tests_nothing_is_adjusted():
    assert statistics.holm([]) == statistics.benjamini_hochberg([]) == ()
    assert statistics.holm([None]) == statistics.benjamini_hochberg([None]) == (None,)


def test_a_share_of_false_claims_is_what_q_bounds():
    """Ten tests of which seven have nothing to find: on average at most 5 % of claims are false, unadjusted more."""
    random = np.random.default_rng(1)
    shares: dict[str, list[float]] = {"q": [], "p": []}
    for _ in range(3000):
        z = random.standard_normal(10) + np.array([3.0] * 3 + [0.0] * 7)
        p = [float(value) for value in 2 * norm_tail(np.abs(z))]
        for kind, values in (("p", p), ("q", statistics.benjamini_hochberg(p))):
            claims = [i for i, value in enumerate(values) if value < 0.05]
            shares[kind].append(sum(i >= 3 for i in claims) / max(1, len(claims)))
    assert np.mean(shares["q"]) <= 0.05 < np.mean(shares["p"])


def norm_tail(z: np.ndarray) -> np.ndarray:
    from scipy.stats import norm

    return norm.sf(z)
