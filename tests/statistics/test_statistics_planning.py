"""What is planned, against statsmodels, against definitions, and against simulated truth."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from ablate import statistics
from ablate.statistics import Floor


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


POWERS = [
    (n, effect, alpha) for n in (2, 3, 5, 8, 20, 200) for effect in (0.0, 0.2, 1.0, 3.0) for alpha in (0.05, 0.005)
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("n", "effect", "alpha"), POWERS)
def test_power_is_that_of_the_noncentral_t(n, effect, alpha):
    expected = power_by_integration(math.sqrt(n) * effect, n - 1, alpha)
    assert statistics.power_of(effect * 0.02, 0.02, n, alpha) == pytest.approx(expected, abs=1e-6)
    assert statistics.power_of(-effect, 1.0, n, alpha) == pytest.approx(expected, abs=1e-6)
    other = TTestPower().power(effect, n, alpha)  # has no value where one of its tails has none
    assert math.isnan(other) or other == pytest.approx(expected, abs=1e-6)


def power_by_integration(centre: float, df: int, alpha: float) -> float:
    """P(|Z + centre| > critical·√(V/df)) over V."""
    critical = stats.t.ppf(1 - alpha / 2, df)
    v = stats.chi2.ppf((np.arange(200_000) + 0.5) / 200_000, df)
    reached = critical * np.sqrt(v / df)
    return float(np.mean(stats.norm.sf(reached - centre) + stats.norm.sf(reached + centre)))


@pytest.mark.parametrize("n", [2, 3, 5, 20, 1000])
@pytest.mark.parametrize("alpha", [0.05, 0.0025, 1e-5])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_what_is_visible_is_seen_with_that_power(n, alpha, power):
    visible = statistics.visible_difference(0.0019, n, alpha, power)
    assert statistics.power_of(visible, 0.0019, n, alpha) == pytest.approx(power, abs=1e-8)
    assert statistics.visible_difference(0.0, n, alpha, power) == 0


def test_the_power_to_see_what_is_far_off_is_one():
    assert statistics.power_of(1e9, 1.0, 2) == statistics.power_of(1e9, 1e-9, 50, 1e-6) == 1


@pytest.mark.parametrize(("n", "sd"), [(1, 1.0), (5, 0.0), (5, -1.0), (5, math.nan)])
def test_power_without_pairs_or_spread_is_refused(n, sd):
    with pytest.raises(ValueError, match="two or more pairs and an sd above 0"):
        statistics.power_of(1.0, sd, n)


@pytest.mark.parametrize(("n", "power"), [(1, 0.8), (5, 0.04), (5, 1.0)])
def test_what_is_visible_with_no_power_or_all_is_refused(n, power):
    with pytest.raises(ValueError, match="two or more pairs and a power"):
        statistics.visible_difference(1.0, n, 0.05, power)


@pytest.mark.parametrize("n", [2, 6, 20])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_sd_holds_it_as_often_as_it_says(n, level):
    intervals = [
        statistics.sd_interval(sd, n, level)
        for sd in np.random.default_rng(n).normal(0, 2.0, (20_000, n)).std(axis=1, ddof=1)
    ]
    assert np.mean([low <= 2.0 <= high for low, high in intervals]) == pytest.approx(level, abs=0.006)
    assert np.mean([low > 2.0 for low, _ in intervals]) == pytest.approx((1 - level) / 2, abs=0.005)


def floor(sd: float, n: int) -> Floor:
    return Floor(metric="eval_loss", scale="linear", n=n, sd=sd, whose="pre_ln")


def test_a_floor_is_the_spread_of_its_pairs():
    before, after = [2.0, 2.1, 2.2, 2.0], [2.1, 2.0, 2.2, 2.3]
    found = statistics.floor_of("eval_loss", before, after, whose="pre_ln")
    assert found == replace(floor(np.std(np.subtract(after, before), ddof=1), 4), pairs=4)
    logs = statistics.floor_of("peak_kurtosis", before, after, log=True, whose="op")
    assert (logs.scale, logs.sd) == ("log", pytest.approx(np.std(np.log(np.divide(after, before)), ddof=1)))
    with pytest.raises(ValueError, match="two or more pairs"):
        statistics.floor_of("eval_loss", [1.0], [1.0])


@pytest.mark.parametrize("level", [0.05, 0.05 / 3, 0.4])
def test_a_floor_without_spread_sees_what_the_sign_test_does(level):
    """Everything from the seeds on at which differences that are all alike have a p below the level, nothing before."""
    flat = floor(0.0, 5)
    for n in range(2, 14):
        found = statistics.of_differences([0.01] * n).p <= level
        assert flat.visible(n, level) == ((0.0,) * 3 if found else (math.inf,) * 3)
    n = flat.seeds_for_margin(0.01, level)
    assert statistics.of_differences([0.0] * n).p_equivalent(0.01) <= level
    assert n == 2 or statistics.of_differences([0.0] * (n - 1)).p_equivalent(0.01) > level


@pytest.mark.parametrize("k", [3, 6, 12])
def test_what_is_truly_visible_lies_in_the_interval_of_a_floor(k):
    """In 95 of 100 floors of k pairs; and the estimate alone promises too much more often than not."""
    sds = np.random.default_rng(k).normal(0, 2.0, (4000, k)).std(axis=1, ddof=1)
    truth = statistics.visible_difference(2.0, 5, 0.01)
    found = [floor(float(sd), k).visible(5, 0.01) for sd in sds]
    assert all(low <= value <= high for value, low, high in found)
    assert np.mean([low <= truth <= high for _, low, high in found]) == pytest.approx(0.95, abs=0.011)
    assert np.mean([value < truth for value, _, _ in found]) > 0.5


def test_seeds_for_a_margin_are_planned_from_the_upper_limit():
    one = floor(0.01, 6)
    assert one.seeds_for_margin(0.02, 0.05) == statistics.seeds_for_margin(statistics.sd_upper(0.01, 6), 0.02)
    assert one.seeds_for_margin(0.02, 0.05) > statistics.seeds_for_margin(0.01, 0.02)
    assert one.seeds_for_margin(0.02, 0.01) > one.seeds_for_margin(0.02, 0.05)
    assert one.seeds_for_margin(1e-6) is None


@pytest.mark.parametrize("normal", [True, False])
def test_an_interval_of_half_the_margin_most_often_finds_what_is_well_inside_it(normal):
    """What the seeds for a margin promise: at them, with no difference, equivalence is found in most sweeps."""
    n = statistics.seeds_for_margin(1.0, 2.0)
    random = np.random.default_rng(3)
    draws = random.standard_normal((2000, n)) if normal else random.uniform(-(3**0.5), 3**0.5, (2000, n))
    assert np.mean([statistics.of_differences(d).inside(2.0) for d in draws]) > 0.9
    assert np.mean([statistics.of_differences(d[:3]).inside(2.0) for d in draws]) < 0.6


def test_nothing_but_the_distributions_is_loaded():
    """What a screen waits for: the rest of SciPy would take it a multiple of the time."""
    program = (
        "import sys, ablate.statistics; print({'scipy.optimize', 'scipy.stats', 'statsmodels'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
