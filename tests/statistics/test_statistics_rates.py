"""How often what is judged of pairs is right, in sweeps of which the truth is known: as often as it says."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from statistics_sweeps import differences, p_values

from ablate import statistics

EVERY_N = range(2, 26)
METHODS_N = (2, 3, 5, 7, 8, 10, 13, 16, 20, 25)


def found_different(true: float, n: int, m: int, sweeps: int, seed: int = 0) -> float:
    """The share of sweeps in which one of m comparisons is found at α/m, by whatever test is made at that n."""
    d = differences(sweeps, [true], n, arms="apart", seed=seed)[:, 0]
    return float(np.mean([statistics.of_differences(one, level=0.05 / m).p < 0.05 / m for one in d]))


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 6, 20])
@pytest.mark.parametrize("n", METHODS_N)
def test_power_is_within_five_points_of_the_one_printed(n, m):
    """Given the true sd, where half, four fifths and nearly all of the sweeps should find the difference."""
    for power in (0.5, 0.8, 0.95):
        true = statistics.visible_difference(1.0, n, 0.05 / m, power)
        assert statistics.power_of(true, 1.0, n, 0.05 / m) == pytest.approx(power)
        assert found_different(true, n, m, 10_000) == pytest.approx(power, abs=0.05)


@pytest.mark.parametrize(("n", "m"), [(4, 1), (5, 6), (10, 1), (20, 6)])
def test_power_is_about_the_one_printed(n, m):
    true = statistics.visible_difference(1.0, n, 0.05 / m)
    assert found_different(true, n, m, 1500) == pytest.approx(0.8, abs=0.05 + 0.03)


def test_flips_wherever_they_can_find_anything_would_lose_a_fifth_of_the_power(monkeypatch):
    """At 8 pairs and α/4 two of all signs are extreme enough: t has 80 %, sign flips 60 %."""
    true = statistics.visible_difference(1.0, 8, 0.05 / 4)
    assert found_different(true, 8, 4, 2000) == pytest.approx(0.8, abs=0.03)
    monkeypatch.setattr(import_module("ablate.statistics.paired"), "FLIPS_BELOW", 1)
    assert found_different(true, 8, 4, 2000) < 0.65


def found_equivalent(true: float, margin: float, n: int, sweeps: int) -> float:
    """The share of sweeps in which the margin is found to hold; some of them by the functions themselves."""
    d = differences(sweeps, [true], n, arms="apart", seed=n)[:, 0]
    _, p = p_values(d, margin)
    for one, expected in zip(d[:200], p, strict=False):
        found = statistics.of_differences(one)
        assert found.p_equivalent(margin) == pytest.approx(expected)
        assert found.inside(margin) == (expected < 0.05)
    return float((p < 0.05).mean())


@pytest.mark.slow
@pytest.mark.parametrize("n", EVERY_N)
def test_what_differs_by_the_margin_is_seldom_called_equivalent(n):
    for margin in (0.5, 2.0, 50.0):
        for sign in (-1, 1):
            assert found_equivalent(sign * margin, margin, n, 10_000) <= 0.057


@pytest.mark.parametrize("n", [2, 5, 9, 20, 25])
def test_what_differs_by_the_margin_is_not_called_equivalent_often(n):
    """2,000 sweeps of a rate of 5 %: more than 6.7 % would be seen in less than one of a thousand."""
    assert found_equivalent(-50.0, 50.0, n, 2000) <= 0.067
    assert found_equivalent(-49.0, 50.0, n, 2000) > found_equivalent(-50.0, 50.0, n, 2000)


def false_alarms(n: int, m: int, sweeps: int, *, arms: str, corrected: bool = True) -> float:
    """The share of sweeps of m comparisons without a difference of which any is found to differ."""
    d = differences(sweeps, [0.0] * m, n, arms=arms, seed=n)
    count = 0
    for sweep in d:
        p = [statistics.of_differences(one, level=0.05 / m).p for one in sweep]
        count += min(statistics.holm(p) if corrected else p) < 0.05
    return count / sweeps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m"), [*((n, 1) for n in METHODS_N), (3, 12), (8, 6), (10, 2), (13, 12), (16, 6), (20, 6), (25, 2)]
)
def test_nothing_but_noise_is_seldom_called_better_or_worse(n, m):
    assert false_alarms(n, m, 10_000, arms="path" if n % 2 else "baseline") <= 0.057


@pytest.mark.parametrize(("n", "m"), [(3, 6), (12, 3), (20, 2)])
def test_nothing_but_noise_is_not_called_better_or_worse_often(n, m):
    """1,000 sweeps of a rate of 5 %: more than 7.3 % would be seen in less than one of a thousand."""
    assert false_alarms(n, m, 1000, arms="apart") <= 0.073


def test_noise_of_many_comparisons_without_correction_is_seen_to_be_called_better_or_worse():
    assert false_alarms(5, 6, 500, arms="apart", corrected=False) > 0.2
    assert false_alarms(5, 6, 500, arms="apart") < 0.08


def test_a_difference_that_published_losses_do_not_show_is_not_found_in_four():
    """Eighty losses with mean 3.2791 and sd 0.0019, twenty fours against twenty others that are 0.0005 higher."""
    losses = np.random.default_rng(80).normal(size=80)
    losses = 3.2791 + 0.0019 * (losses - losses.mean()) / losses.std(ddof=1)
    assert (losses.mean(), losses.std(ddof=1)) == (pytest.approx(3.2791), pytest.approx(0.0019))
    found = [statistics.paired(losses[i : i + 4], losses[i + 40 : i + 44] + 0.0005) for i in range(0, 40, 4)]
    decided = [one.p < 0.05 or one.p_equivalent(0.0005) < 0.05 for one in found]
    assert sum(decided) <= 1
    assert statistics.power_of(0.0005, 0.0019 * 2**0.5, 4) < 0.07
    assert all(statistics.paired(losses[i : i + 4], losses[i : i + 4] + 0.0005).p <= 0.125 for i in range(0, 40, 4))
