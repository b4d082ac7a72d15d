"""The AUC of a score: against all pairs, DeLong's variance against many draws, and what cannot be judged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm
from separation import separation

from ablate.errors import InputError


def drawn(rng, apart, n=60):
    failed = np.arange(n) % 3 == 0
    return rng.normal(size=n) + apart * failed, failed


def test_the_auc_counts_the_pairs_that_are_ordered_rightly():
    rng = np.random.default_rng(0)
    scores, failed = rng.integers(0, 5, 40).astype(float), rng.random(40) < 0.4
    scores[3] = math.inf
    pairs = [(a > b) + (a == b) / 2 for a in scores[failed] for b in scores[~failed]]
    found = separation(scores, failed)
    assert found.auc == pytest.approx(np.mean(pairs))
    assert (found.failed, found.others) == (failed.sum(), (~failed).sum())
    assert separation(-scores, failed).auc == pytest.approx(1 - found.auc)


@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_intervals_hold_the_true_area_as_often_as_they_say(apart):
    """Of normal scores of one spread it is Φ(apart / √2); half as wide, they miss it more often."""
    rng, true = np.random.default_rng(1), norm.cdf(apart / math.sqrt(2))
    found = [separation(*drawn(rng, apart)) for _ in range(600)]
    held = np.mean([each.low <= true <= each.high for each in found])
    halved = np.mean([abs(each.auc - true) <= (each.high - each.low) / 4 for each in found])
    assert held == pytest.approx(0.95, abs=0.025)
    assert halved < 0.8


def test_what_cannot_be_judged_is_said():
    perfect = separation([4, 3, 2, 1], [True, True, False, False])
    assert perfect.auc == 1
    assert math.isnan(perfect.low) and math.isnan(perfect.high)
    alike = separation([1.0] * 4, [True, True, False, False])
    assert alike.auc == 0.5 and math.isnan(alike.low)
    with pytest.raises(InputError, match="1 failed and 3 did not"):
        separation([4, 3, 2, 1], [True, False, False, False])
    with pytest.raises(InputError, match="not a number"):
        separation([math.nan, 3, 2, 1], [True, True, False, False])
