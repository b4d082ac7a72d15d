"""Is an interval over seeds about all text? It is where windows are drawn by seed, and not where they are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from ablate import statistics
from ablate.data.batch import window_starts

SEEDS, WINDOWS, PLACES = 6, 32, 2000


def differences(table: int, window_variance: float, *, fixed: bool) -> tuple[list[float], float]:
    """Paired differences of two models at each seed, and the true difference: that over all text.

    What a model makes of another varies over the places of the text, such that the mean over a draw of windows has
    `window_variance`, and over seeds (initialisation, order of data) with variance 1.
    """
    random = np.random.default_rng(table)
    text = random.normal(3.0, np.sqrt(window_variance * WINDOWS), PLACES)
    of_seed = random.normal(0.0, 1.0, SEEDS)
    read = []
    for seed in range(table * SEEDS, (table + 1) * SEEDS):
        starts = window_starts(PLACES, WINDOWS, seed=table * SEEDS if fixed else seed, split="verdict")
        read.append(float(text[starts].mean()))
    return [float(d) for d in of_seed + read], float(text.mean())


def coverage(window_variance: float, tables: int, *, fixed: bool = False) -> float:
    """The share of tables whose 95 % interval holds the difference over all text."""
    held = 0
    for table in range(tables):
        after, true = differences(table, window_variance, fixed=fixed)
        found = statistics.paired([0.0] * SEEDS, after)
        held += found.low <= true <= found.high
    return held / tables


@pytest.mark.full
@pytest.mark.parametrize("window_variance", [0.3, 1.0])
def test_the_interval_over_seeds_covers_the_difference_over_all_text(window_variance):
    """5,000 tables: within three standard errors of 95 %, and as the project promises."""
    assert 0.94 <= coverage(window_variance, 5000) <= 0.965


@pytest.mark.parametrize(("window_variance", "at_most"), [(0.3, 0.86), (1.0, 0.72)])
def test_on_windows_that_all_seeds_share_it_would_not(window_variance, at_most):
    """The twin: the choice of text is then no part of what varies, however many seeds there are."""
    assert coverage(window_variance, 1000, fixed=True) < at_most
