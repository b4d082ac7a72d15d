"""Looks: how often any verdict at any of them is false, in sweeps that the boundaries were not made with."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from statistics_sweeps import differences, false_verdicts, p_values

from ablate import statistics
from ablate.space.fair import LOOKS
from ablate.statistics import multiple_testing

WIDE = 50.0
"""A margin in standard deviations of differences at which every look can find equivalence."""

SCHEDULES = [LOOKS, (3, 5), (5,), (2, 4, 8, 16, 32), (4, 5, 6, 7, 8, 9, 10)]


def truths(m: int, margin: float) -> dict[str, list[float]]:
    return {
        "all without a difference": [0.0] * m,
        "all at the margin": [margin * (-1) ** i for i in range(m)],
        "half and half": [0.0] * (m // 2) + [margin] * (m - m // 2),
        "one at the margin": [0.0] * (m - 1) + [-margin],
    }


def levels(looks: tuple[int, ...], m: int, *, margin: bool = True) -> tuple[float, ...]:
    return statistics.boundaries(looks, m, margin=margin).levels


@pytest.mark.parametrize("what", truths(6, 1.0))
def test_of_some_sweeps_few_have_a_false_verdict(what):
    """2,000 sweeps of a rate of 5 %: more than 6.4 % would be seen in less than one of a thousand."""
    assert false_verdicts(LOOKS, levels(LOOKS, 6), truths(6, WIDE)[what], WIDE, sweeps=2000) < 0.064


def test_looks_without_boundaries_are_seen_to_err():
    """The same sweeps, each look at 5 %: Holm alone does not do."""
    wrong = (0.05,) * len(LOOKS)
    for what in ("all without a difference", "all at the margin", "half and half"):
        assert false_verdicts(LOOKS, wrong, truths(6, WIDE)[what], WIDE, sweeps=2000) > 0.09


def test_boundaries_of_either_kind_alone_are_seen_to_err_for_both():
    alone = levels(LOOKS, 6, margin=False)
    assert false_verdicts(LOOKS, alone, [0.0] * 6, WIDE, sweeps=4000) < 0.058
    assert false_verdicts(LOOKS, alone, truths(6, WIDE)["half and half"], WIDE, sweeps=4000) > 0.075


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 6, 12])
@pytest.mark.parametrize("looks", SCHEDULES, ids=str)
def test_in_ten_thousand_sweeps_at_most_five_in_a_hundred_have_a_false_verdict(looks, m):
    rates = {}
    for arms in ("apart", "baseline", "path"):
        for margin in (1.0, WIDE):
            for what, true in truths(m, margin).items():
                rate = false_verdicts(looks, levels(looks, m), true, margin, sweeps=10_000, arms=arms, seed=m)
                rates[arms, margin, what] = rate
        nothing = false_verdicts(
            looks, levels(looks, m, margin=False), [0.0] * m, 0.0, sweeps=10_000, arms=arms, seed=9
        )
        rates[arms, "no margin", "all without a difference"] = nothing
    assert max(rates.values()) <= 0.057, rates
    assert max(rates.values()) >= 0.043, "boundaries that give away what may be found"


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("looks", [LOOKS, (2, 3, 12)], ids=str)
def test_crossing_is_as_frequent_as_in_a_plain_simulation(looks, sides):
    at = np.array([0.02, 0.1])
    expected = multiple_testing._crossing(looks, sides, at)
    crossed = np.zeros((2, 100_000), dtype=bool)
    d = differences(100_000, [0.0], looks[-1], arms="apart", seed=3)[:, 0]
    for n in looks:
        t = d[:, :n].mean(axis=1) / d[:, :n].std(axis=1, ddof=1) * np.sqrt(n)
        for row, u in enumerate(at * n / looks[-1]):
            critical = stats.t.ppf(1 - u / sides, n - 1)
            crossed[row] |= (np.abs(t) if sides == 2 else t) >= critical
    plain = crossed.mean(axis=1)
    assert plain == pytest.approx(expected, abs=4 * np.sqrt(expected.max() / 100_000))


@pytest.mark.parametrize("looks", SCHEDULES, ids=str)
def test_a_repeated_interval_holds_the_difference_at_every_look_at_once(looks):
    found = statistics.boundaries(looks, 4)
    d = differences(20_000, [0.3], looks[-1], arms="apart", seed=5)[:, 0]
    held, at_five = np.ones(len(d), dtype=bool), np.ones(len(d), dtype=bool)
    for n, level in zip(looks, found.interval_levels, strict=True):
        p, _ = p_values(d[:, :n] - 0.3, 1.0)
        held &= p > level
        at_five &= p > 0.05
    assert held.mean() == pytest.approx(0.95, abs=0.006)
    assert len(looks) == 1 or at_five.mean() < 0.935


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("n", [2, 5, 40])
def test_one_look_is_a_test_of_fixed_seeds(n, alpha):
    single = statistics.boundaries((n,), 6, alpha=alpha, margin=False)
    assert single.levels == pytest.approx((alpha,))
    assert single.interval_levels == pytest.approx((alpha,))
    assert statistics.boundaries((n,), 1, alpha=alpha, margin=True).levels == pytest.approx((alpha,))
    # Some without a difference and some at the margin can err in both ways at once.
    assert statistics.boundaries((n,), 6, alpha=alpha, margin=True).levels == pytest.approx((alpha / 2,))


def test_boundaries_are_the_same_each_time_and_grow_from_look_to_look():
    found = statistics.boundaries(LOOKS, 5, alpha=0.1)
    multiple_testing._inflation.cache_clear()
    statistics.boundaries.cache_clear()
    assert statistics.boundaries(LOOKS, 5, alpha=0.1) == found
    assert np.diff(found.levels).min() > 0
    assert np.divide(found.levels, found.levels[-1]) == pytest.approx(np.divide(LOOKS, LOOKS[-1]))
    assert statistics.boundaries(LOOKS, 5, alpha=0.05).levels < found.levels
    assert statistics.boundaries(LOOKS, 50, alpha=0.1).levels < found.levels < found.interval_levels


def test_of_many_comparisons_levels_are_those_of_rare_crossings():
    """At a million comparisons looks hardly depend on each other any more: the sum of what each may err."""
    shape = np.divide(LOOKS, LOOKS[-1]).sum()
    c = statistics.boundaries(LOOKS, 1_000_000, margin=False).levels[-1]
    assert 0.05 / shape <= c < 1.06 * 0.05 / shape


@pytest.mark.full
def test_effects_of_a_factorial_err_no_more_often_at_looks():
    """Their error is pooled over runs and has other degrees of freedom than the boundaries were made with."""
    levels, effects = np.array(list(itertools.product([-1, 1], repeat=2))), [(0,), (1,), (0, 1)]
    at = statistics.boundaries(LOOKS, 3, margin=False).levels
    y = np.random.default_rng(6).standard_normal((600, 4, LOOKS[-1]))
    false = {"boundaries": 0, "five per cent": 0}
    for sweep in y:
        p = [
            statistics.holm([one.p for one in statistics.analyse(levels, effects, sweep[:, :n]).estimates])
            for n in LOOKS
        ]
        false["boundaries"] += any(min(some) < level for some, level in zip(p, at, strict=True))
        false["five per cent"] += any(min(some) < 0.05 for some in p)
    # 5 % of 600: more than 7.9 % would be seen in less than one of a thousand.
    assert false["boundaries"] / 600 < 0.079
    assert false["five per cent"] / 600 > 0.09


@pytest.mark.parametrize("looks", [(), (1, 4), (4, 4), (6, 4)])
def test_looks_that_do_not_grow_are_refused(looks):
    with pytest.raises(ValueError, match="looks must increase and start at two"):
        statistics.boundaries(looks, 3)


def test_a_family_of_none_is_refused():
    with pytest.raises(ValueError, match="one comparison or more"):
        statistics.boundaries(LOOKS, 0)


def found(d: np.ndarray, levels: tuple[float, ...], m: int) -> tuple[float, float]:
    """The share of sweeps in which one comparison of m is decided as different, and the seeds on average until then."""
    first = np.full(len(d), len(LOOKS))
    for j in reversed(range(len(LOOKS))):
        p, _ = p_values(d[:, : LOOKS[j]], 1.0)
        first[p < levels[j] / m] = j
    return float((first < len(LOOKS)).mean()), float(np.array([*LOOKS, LOOKS[-1]])[first].mean())


@pytest.mark.slow
def test_the_shape_of_the_boundaries_is_the_one_between(monkeypatch):
    """What the module says of ρ: later levels find more, earlier ones take fewer seeds."""
    some, large = (differences(20_000, [true], LOOKS[-1], arms="apart", seed=5)[:, 0] for true in (1.0, 3.0))
    power, seeds = {}, {}
    for rho in (0.0, 1.0, 3.0):
        monkeypatch.setattr(multiple_testing, "RHO", rho)
        multiple_testing._inflation.cache_clear()
        statistics.boundaries.cache_clear()
        at = levels(LOOKS, 6)
        power[rho], seeds[rho] = found(some, at, 6)[0], found(large, at, 6)[1]
    multiple_testing._inflation.cache_clear()
    statistics.boundaries.cache_clear()
    assert power == pytest.approx({0.0: 0.73, 1.0: 0.80, 3.0: 0.85}, abs=0.015)
    assert seeds == pytest.approx({0.0: 6.8, 1.0: 7.4, 3.0: 8.7}, abs=0.1)
