"""Ladders of sizes against float64 of their own, and against simulated truth: as often right as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import stdtrit

from ablate import statistics
from ablate.space import vary
from ablate.statistics import SizeLadder, scaling_law
from ablate.statistics.ladder import compare, moments
from ablate.statistics.next_size import predict
from ablate.statistics.spread import noise_line, satterthwaite

COMPUTE = (1e15, 1.6e16, 2.5e17, 4e18)
NEXT = 6.4e19
OFFSETS = (np.array([-1.0, 1.0, 0.0]), np.array([1.0, -2.0, 1.0]))
"""Deviations of seeds without a mean, so that means are exact; those of the baseline and those of the treatment."""

NOISE = {
    "falls": np.array([0.006, 0.004, 0.0025, 0.0015, 0.001]),
    "same": np.full(5, 0.003),
    "rises": np.array([0.001, 0.002, 0.004, 0.006, 0.008]),
    "on no line": np.array([0.002, 0.008, 0.001, 0.004, 0.003]),
}
"""Standard deviations of a loss over seeds, as shares of it, size by size."""

KINDS = ("power", "saturating")


def true_loss(kind: str, compute: np.ndarray | float) -> np.ndarray:
    """The baseline's law: 3·(C/C₄)^-0.07, or 1.8 + 1.2·(C/C₄)^-0.16."""
    share = np.asarray(compute, dtype=np.float64) / COMPUTE[-1]
    return 3 * share**-0.07 if kind == "power" else 1.8 + 1.2 * share**-0.16


def exact(kind: str, speed_up: np.ndarray | float = 1.0, *, side: int = 0, overhead: float = 1.0) -> SizeLadder:
    """A ladder whose means, on the scale of its law, are the law's, at compute times the speed-up."""
    compute = np.array(COMPUTE) * overhead
    loss = true_loss(kind, compute * speed_up)[:, None]
    noise = 0.002 * OFFSETS[side]
    losses = loss * np.exp(noise) if kind == "power" else loss * (1 + noise)
    return SizeLadder(compute=tuple(compute), losses=tuple(map(tuple, losses)))


def drawn(kind, noise, n, rng, ladders, *, slope=0.0, correlation=0.8, sizes=4, log_speed_up=math.log(1.3), across=0.0):
    """Losses of both treatments [ladders, sizes, seeds] on the scale of the law, and the true log speed-ups.

    Treatments share `correlation` of the variance of a seed, and sizes `across`: one seed has the same windows at all.
    """
    compute = np.array((*COMPUTE, NEXT))[:sizes]
    log = log_speed_up + slope * (np.log(compute) - np.log(compute).mean())
    shape = (ladders, sizes, n)

    def of_seeds():
        own = math.sqrt(1 - across) * rng.standard_normal(shape)
        return own + math.sqrt(across) * rng.standard_normal((ladders, 1, n)) if across else own

    shared = math.sqrt(correlation) * of_seeds()
    sides = [
        loss[:, None] * (1 + NOISE[noise][:sizes, None] * (shared + math.sqrt(1 - correlation) * of_seeds()))
        for loss in (true_loss(kind, compute), true_loss(kind, compute * np.exp(log)))
    ]
    return [np.log(side) if kind == "power" else side for side in sides], log


def both_of(kind, sides, *, paired=True):
    x = np.log((*COMPUTE, NEXT))[: sides[0].shape[1]]
    return moments(*(list(np.moveaxis(side, 1, 0)) for side in sides), x, x, paired=paired, kind=kind)


def rates(kind, noise, n, *, ladders, draws, slope=0.0, paired=True, seed=0, across=0.0):
    """Shares of ladders whose intervals hold the speed-up, size by size, and in which a trend is called at 5 %."""
    rng = np.random.default_rng((seed, n, KINDS.index(kind)))
    held, called = [], []
    for _ in range(ladders // 100):
        correlation = 0.8 if paired else 0.0
        sides, log = drawn(kind, noise, n, rng, 100, slope=slope, correlation=correlation, across=across)
        found = compare(both_of(kind, sides, paired=paired), level=0.95, random=rng, draws=draws)
        held.append((found.low <= log) & (log <= found.high))
        called.append(found.p < 0.05)
    return np.concatenate(held).mean(axis=0), float(np.concatenate(called).mean())


def test_a_power_law_without_noise_is_found_exactly():
    law = statistics.fit_law(exact("power"))
    slope, level = np.polyfit(np.log(COMPUTE), np.log(true_loss("power", COMPUTE)), 1)
    assert law.exponent == pytest.approx(-slope, rel=1e-9)
    assert law.factor == pytest.approx(math.exp(level), rel=1e-8)
    assert law.exponent == pytest.approx(0.07, rel=1e-9)
    assert law.loss(NEXT) == pytest.approx(float(true_loss("power", NEXT)), rel=1e-9)
    assert (law.n, law.level, law.method, law.irreducible) == ((3, 3, 3, 3), 0.95, "simulated_t", 0.0)
    assert law.exponent_low < 0.07 < law.exponent_high
    assert law.factor_low < law.factor < law.factor_high
    assert law.curvature_p > 0.9


def test_a_saturating_law_without_noise_is_found_exactly():
    law = statistics.fit_law(exact("saturating"), kind="saturating")
    assert law.irreducible == pytest.approx(1.8, rel=1e-6)
    assert law.exponent == pytest.approx(0.16, rel=1e-6)
    assert law.factor == pytest.approx(1.2 * COMPUTE[-1] ** 0.16, rel=1e-5)
    assert law.identified and law.irreducible_low < 1.8 < law.irreducible_high
    assert law.exponent_low < 0.16 < law.exponent_high
    assert (law.factor_low, law.method) == (None, "score")


@pytest.mark.parametrize("kind", KINDS)
def test_a_law_has_the_least_weighted_squares(kind):
    """SciPy's least squares, from the truth, with the weights of the line of noise."""
    sides, _ = drawn(kind, "falls", 5, np.random.default_rng(3), 1)
    values, x = sides[0][0], np.log(COMPUTE)
    law = statistics.fit_law(
        SizeLadder(compute=COMPUTE, losses=tuple(map(tuple, np.exp(values) if kind == "power" else values))), kind=kind
    )
    sd = np.sqrt(noise_line(values.var(axis=1, ddof=1), np.full(4, 4.0), x).variance(x))

    def curve(parameters):
        if kind == "power":
            return parameters[0] - parameters[1] * (x - x[-1])
        return parameters[2] + parameters[0] * np.exp(-parameters[1] * (x - x[-1]))

    start = [math.log(3), 0.07] if kind == "power" else [1.2, 0.16, 1.8]
    found = optimize.least_squares(
        lambda parameters: (curve(parameters) - values.mean(axis=1)) / sd, start, xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    assert law.exponent == pytest.approx(found.x[1], rel=1e-5)
    assert law.loss(COMPUTE[-1]) == pytest.approx(math.exp(found.x[0]) if kind == "power" else found.x[0] + found.x[2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paired", [True, False])
def test_speed_ups_without_noise_are_found_exactly(kind, paired):
    """Also where the treatment costs 10 % more: the speed-up is per FLOP, of its own."""
    true = np.array([1.2, 1.3, 1.4, 1.5])
    baseline, treatment = exact(kind), exact(kind, true, side=1, overhead=1.1)
    found = statistics.speed_ups(baseline, treatment, kind=kind, paired=paired)
    assert [one.speed_up for one in found] == pytest.approx(true, rel=1e-5)
    assert all(one.low < one.speed_up < one.high for one in found)
    assert [one.extrapolated for one in found] == [False, False, False, True]
    assert {(one.n, one.level, one.method) for one in found} == {((3, 3), 0.95, "simulated_t")}
    slower = statistics.speed_ups(treatment, baseline, kind=kind, paired=paired)
    assert all(one.speed_up < 1 for one in slower)


@pytest.mark.parametrize("kind", KINDS)
def test_a_trend_without_noise_is_found_exactly(kind):
    compute = np.array(COMPUTE)
    found = statistics.trend(exact(kind), exact(kind, 1.3 * (compute / 1e17) ** 0.03, side=1), kind=kind)
    assert found.slope == pytest.approx(0.03, rel=1e-5)
    assert found.low < 0.03 < found.high
    assert (found.high - found.slope) > found.error > 0
    assert found.n == ((3, 3),) * 4
    assert statistics.trend(exact(kind), exact(kind, 1.3, side=1), kind=kind).p > 0.9


def test_a_level_that_no_p_reaches_has_an_interval_without_bounds():
    found = statistics.trend(exact("power"), exact("power", np.geomspace(1, 1e4, 4), side=1))
    least = 1 / (found.simulated.size + 1)
    assert found.p >= least
    assert found.slope > found.critical(1 - 2 * least) * found.error, "it is found at a level that it can reach"
    assert math.isfinite(found.critical(1 - least))
    assert found.critical(1 - least / 2) == math.inf


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paired", [True, False])
def test_the_next_size_without_noise_in_the_means_is_where_the_laws_go(kind, paired):
    found = statistics.next_size(exact(kind), exact(kind, 1.3, side=1), compute=NEXT, n=4, kind=kind, paired=paired)
    assert found.baseline == pytest.approx(float(true_loss(kind, NEXT)), rel=1e-5)
    assert found.treatment == pytest.approx(float(true_loss(kind, 1.3 * NEXT)), rel=1e-5)
    assert found.speed_up == pytest.approx(1.3, rel=1e-4)
    assert found.baseline_low < found.baseline < found.baseline_high
    assert found.low < 1.3 < found.high
    assert found.cost == 8 * NEXT
    assert 0 <= found.better <= found.decided <= 1


def test_more_seeds_decide_more_and_no_difference_is_seldom_decided():
    baseline, treatment = exact("power"), exact("power", 1.02, side=1)
    decided = [statistics.next_size(baseline, treatment, compute=NEXT, n=n).decided for n in (2, 4, 16)]
    assert decided == sorted(decided) and decided[0] < decided[-1]
    same = statistics.next_size(baseline, exact("power", side=1), compute=NEXT, n=4)
    assert same.better == pytest.approx(same.decided / 2, abs=0.02)


@pytest.mark.parametrize("paired", [True, False])
def test_the_chance_of_a_verdict_is_that_of_the_test_there(paired):
    """Of 400 seeds at each size, which leave little open; the treatment's losses vary three times as much."""
    rng, n = np.random.default_rng(3), 3
    both = []
    for factor, sd in ((1.0, 0.01), (0.975, 0.03)):
        losses = factor * 20 * np.array(COMPUTE)[:, None] ** -0.05 * np.exp(sd * rng.standard_normal((4, 400)))
        both.append(SizeLadder(compute=COMPUTE, losses=tuple(map(tuple, losses))))
    found = statistics.next_size(*both, compute=NEXT, n=n, paired=paired)
    x, y = 0.01 * rng.standard_normal((n, 40_000)), math.log(0.975) + 0.03 * rng.standard_normal((n, 40_000))
    tests = {
        "paired": stats.ttest_1samp(y - x, 0.0),
        "welch": stats.ttest_ind(y, x, equal_var=False),
        "pooled": stats.ttest_ind(y, x),
    }
    rates = {name: float((test.pvalue < 0.05).mean()) for name, test in tests.items()}
    assert found.decided == pytest.approx(rates["paired" if paired else "welch"], abs=0.03)
    assert abs(found.decided - rates["pooled"]) > 0.05, "the twin"


def test_one_ladder_of_many_is_compared_as_it_is_alone():
    sides, _ = drawn("power", "falls", 4, np.random.default_rng(5), 3)
    many = compare(both_of("power", sides), level=0.95, random=np.random.default_rng(0), draws=99)
    for i in range(3):
        baseline, treatment = (SizeLadder(compute=COMPUTE, losses=tuple(map(tuple, np.exp(side[i])))) for side in sides)
        alone = statistics.speed_ups(baseline, treatment)
        assert np.log([one.speed_up for one in alone]) == pytest.approx(many.log[i])
        assert [one.df for one in alone] == pytest.approx(many.df[i])
        assert statistics.trend(baseline, treatment).slope == pytest.approx(many.slope[i])
    assert statistics.trend(baseline, treatment) == statistics.trend(baseline, treatment)


def test_pairs_take_out_what_seeds_share():
    sides, _ = drawn("power", "same", 5, np.random.default_rng(6), 200, correlation=0.9)
    paired, apart = (
        compare(both_of("power", sides, paired=how), level=0.95, random=np.random.default_rng(0), draws=99)
        for how in (True, False)
    )
    assert np.median((paired.high - paired.low) / (apart.high - apart.low)) < 0.7


def test_seeds_that_are_not_paired_may_differ_in_number():
    baseline, treatment = exact("power"), exact("power", 1.3, side=1)
    fewer = SizeLadder(compute=COMPUTE, losses=tuple(one[:2] for one in baseline.losses))
    assert statistics.speed_ups(fewer, treatment, paired=False)[0].n == (2, 3)
    assert statistics.trend(fewer, treatment, paired=False).n == ((2, 3),) * 4


def test_a_loss_that_the_baselines_law_never_reaches_is_an_infinite_speed_up():
    treatment = SizeLadder(
        compute=COMPUTE, losses=tuple((1.5 - i / 10, 1.51 - i / 10, 1.53 - i / 10) for i in range(4))
    )
    found = statistics.speed_ups(exact("saturating"), treatment, kind="saturating")
    assert [one.speed_up for one in found] == [math.inf] * 4
    assert all(one.high == math.inf and one.extrapolated for one in found)
    assert statistics.trend(exact("saturating"), treatment, kind="saturating") is None


def test_an_irreducible_loss_that_seeds_do_not_show_is_not_identified():
    """A power law has none; nor do seeds that vary by 2 % show one of 1.8."""
    nothing = SizeLadder(
        compute=COMPUTE, losses=tuple(map(tuple, true_loss("power", COMPUTE)[:, None] * (1 + 0.001 * OFFSETS[0])))
    )
    law = statistics.fit_law(nothing, kind="saturating")
    assert not law.identified and law.irreducible_low == 0
    noisy = true_loss("saturating", COMPUTE)[:, None] * (1 + 0.05 * OFFSETS[0])
    assert not statistics.fit_law(
        SizeLadder(compute=COMPUTE, losses=tuple(map(tuple, noisy))), kind="saturating"
    ).identified


def test_a_law_that_is_wrong_is_told_by_its_curvature():
    assert statistics.fit_law(exact("saturating")).curvature_p < 0.05
    assert statistics.fit_law(exact("saturating"), kind="saturating").curvature_p > 0.5


GOOD = SizeLadder(compute=(1.0, 2.0, 4.0), losses=((3.0, 3.1), (2.5, 2.7), (2.0, 2.1)))


@pytest.mark.parametrize(
    ("ladder", "kind", "said"),
    [
        (SizeLadder(compute=(1.0, 2.0), losses=GOOD.losses), "power", "the losses of each size"),
        (SizeLadder(compute=(1.0, 2.0), losses=GOOD.losses[:2]), "power", "needs 3 sizes or more, got 2"),
        (GOOD, "saturating", "needs 4 sizes or more, got 3"),
        (GOOD, "cubic", "a law is one of power, saturating, got cubic"),
        (SizeLadder(compute=(1.0, 2.0, 2.0), losses=GOOD.losses), "power", "different training compute above 0"),
        (SizeLadder(compute=(0.0, 2.0, 4.0), losses=GOOD.losses), "power", "different training compute above 0"),
        (SizeLadder(compute=GOOD.compute, losses=(*GOOD.losses[:2], (2.0,))), "power", "and size 3 has 1"),
        (SizeLadder(compute=GOOD.compute, losses=(*GOOD.losses[:2], (2.0, math.nan))), "power", "one of size 3 is not"),
        (SizeLadder(compute=GOOD.compute, losses=(*GOOD.losses[:2], (2.0, 0.0))), "power", "one of size 3 is not"),
        (SizeLadder(compute=GOOD.compute, losses=(*GOOD.losses[:2], (2.0, 2.0))), "power", "size 3 are the same"),
        (SizeLadder(compute=GOOD.compute[::-1], losses=GOOD.losses), "power", "loss that falls with compute"),
    ],
)  # fmt: skip
def test_what_is_no_ladder_is_refused(ladder, kind, said):
    with pytest.raises(ValueError, match=said):
        statistics.fit_law(ladder, kind=kind)


def test_a_space_asks_for_as_many_sizes_as_a_law_takes():
    assert vary.FEWEST_SIZES == scaling_law.FEWEST_SIZES


def test_ladders_that_do_not_match_are_refused():
    longer = SizeLadder(compute=(*GOOD.compute, 8.0), losses=(*GOOD.losses, (1.8, 1.9)))
    more = SizeLadder(compute=GOOD.compute, losses=((3.0, 3.1, 3.2), *GOOD.losses[1:]))
    shifted = SizeLadder(compute=GOOD.compute, losses=tuple((a - 0.5, b - 0.5) for a, b in GOOD.losses))
    for treatment, said in ((longer, "got 3 and 4 sizes"), (more, "size 1 has 2 and 3")):
        with pytest.raises(ValueError, match=said):
            statistics.speed_ups(GOOD, treatment)
    scaled = SizeLadder(compute=GOOD.compute, losses=tuple((a * 0.5, b * 0.5) for a, b in GOOD.losses))
    with pytest.raises(ValueError, match="paired differences of size 1 are the same"):
        statistics.trend(GOOD, scaled)
    for wrong, said in (
        ({"level": 1.0}, "between 0 and 1"),
        ({"n": 1}, "two seeds or more"),
        ({"compute": 0.0}, "above 0"),
    ):
        with pytest.raises(ValueError, match=said):
            statistics.next_size(GOOD, shifted, **{"compute": 8.0, "n": 3, **wrong})


def test_the_line_of_noise_is_unbiased_and_its_shape_is_shrunk():
    rng, x, df = np.random.default_rng(7), np.log(COMPUTE), np.full(4, 2.0)
    flat = noise_line(rng.chisquare(2, (20_000, 4)) / 2, df, x)
    assert flat.level.mean() == pytest.approx(0, abs=0.02)
    assert (flat.slope == 0).mean() > 0.6
    steep = noise_line(np.exp(-(x - x.mean())) * rng.chisquare(40, (2000, 4)) / 40, np.full(4, 40.0), x)
    assert steep.slope.mean() == pytest.approx(-1, abs=0.02)


def test_degrees_of_freedom_are_satterthwaites():
    error, df = satterthwaite(np.array([1.0, 4.0]), np.array([2.0, 8.0]))
    assert (error, df) == (pytest.approx(math.sqrt(5)), pytest.approx(25 / (1 / 2 + 16 / 8)))


@pytest.mark.parametrize(("kind", "noise", "n"), [("power", "falls", 3), ("saturating", "same", 5)])
def test_some_intervals_hold_the_speed_up_and_few_call_a_trend(kind, noise, n):
    """500 ladders of rates of 95 and 5 %: less than 91.5 or more than 8.4 % would be seen in one of a thousand."""
    held, called = rates(kind, noise, n, ladders=500, draws=99)
    assert held.min() > 0.915
    assert called < 0.084


@pytest.mark.sampled(0, gate=4)
@pytest.mark.parametrize("noise", ["falls", "same", "rises"])
@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_speed_up_as_often_as_they_say_and_a_trend_is_called_as_seldom(kind, n, noise):
    held, called = rates(kind, noise, n, ladders=2000, draws=299)
    assert held.min() >= 0.93 and held.max() <= 0.975
    assert called <= 0.065


@pytest.mark.full
@pytest.mark.parametrize("across", [0.5, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_what_sizes_share_of_a_seeds_noise_makes_a_trend_no_more_often(kind, across):
    """As in real ladders, where a seed has the same windows and batches at every size."""
    for noise in ("falls", "same"):
        held, called = rates(kind, noise, 5, ladders=2000, draws=299, across=across)
        assert held.min() >= 0.93
        assert called <= 0.065


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_without_pairs_and_with_noise_on_no_line_no_interval_holds_less(kind):
    for noise, paired in (("on no line", True), ("on no line", False), ("falls", False)):
        held, called = rates(kind, noise, 5, ladders=2000, draws=299, paired=paired)
        assert held.min() >= 0.93
        assert called <= 0.065


def test_an_interval_by_z_of_three_seeds_is_seen_to_hold_too_seldom():
    """The twin: d̄/b ± 1.96·s/b/√n, as if the few seeds told the noise, and A's slope had none."""
    sides, log = drawn("power", "falls", 3, np.random.default_rng(8), 2000)
    d = sides[0] - sides[1]
    error = d.std(axis=-1, ddof=1) / math.sqrt(3) / 0.07
    held = (np.abs(d.mean(axis=-1) / 0.07 - log) <= 1.96 * error).mean(axis=0)
    assert held.max() < 0.86


def test_a_trend_by_weights_of_each_size_and_student_is_seen_to_be_called_too_often():
    """The twin: weights 1/s², and t as if these were known."""
    sides, _ = drawn("power", "falls", 3, np.random.default_rng(9), 2000)
    d, x = sides[0] - sides[1], np.log(COMPUTE)
    w = 3 / d.var(axis=-1, ddof=1)
    apart = w * (x - (w * x).sum(axis=-1, keepdims=True) / w.sum(axis=-1, keepdims=True))
    c = apart / (apart * x).sum(axis=-1, keepdims=True)
    error, df = satterthwaite(c**2 / w, np.full(4, 2.0))
    assert (np.abs((c * d.mean(axis=-1)).sum(axis=-1) / error) > stdtrit(df, 0.975)).mean() > 0.1


def test_a_trend_that_exists_is_found():
    """A speed-up that doubles per factor 1,000 of compute, C^0.1, with five seeds; a smaller trend is found less."""
    assert rates("power", "falls", 5, ladders=100, draws=199, slope=0.1)[1] == 1
    some, more = (rates("power", "same", 5, ladders=100, draws=199, slope=slope)[1] for slope in (0.004, 0.008))
    assert 0.1 < some < more


@pytest.mark.sampled(0, gate=2)
@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_size_is_as_predicted(kind, n):
    """Means yet to run and the true speed-up lie within their intervals; verdicts come no more seldom than said."""
    rng = np.random.default_rng((n, 10))
    held, decided, seen = [], [], []
    for _ in range(20):
        sides, log = drawn(kind, "same", n, rng, 100, sizes=5, log_speed_up=0.1)
        both = both_of(kind, [side[:, :4] for side in sides])
        found = predict(both, math.log(NEXT), math.log(NEXT), n, level=0.95, random=rng, draws=299)
        means = np.stack([side[:, 4].mean(axis=-1) for side in sides], axis=-1)
        losses = (found.losses_low <= means) & (means <= found.losses_high)
        held.append(np.column_stack([losses, (found.low <= log[4]) & (log[4] <= found.high)]))
        d = sides[0][:, 4] - sides[1][:, 4]
        seen.append(np.abs(d.mean(axis=-1)) > stdtrit(n - 1, 0.975) * d.std(axis=-1, ddof=1) / math.sqrt(n))
        decided.append(found.decided)
    rate = np.concatenate(held).mean(axis=0)
    assert rate.min() >= 0.93, rate
    assert np.concatenate(decided).mean() <= np.concatenate(seen).mean() + 0.05


@pytest.mark.sampled(0, gate=1)
@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_a_law_hold_its_parameters(kind, n):
    """500 ladders of a rate of 95 %."""
    sides, _ = drawn(kind, "falls", n, np.random.default_rng((n, 11)), 500)
    values = np.exp(sides[0]) if kind == "power" else sides[0]
    laws = [statistics.fit_law(SizeLadder(compute=COMPUTE, losses=tuple(map(tuple, one))), kind=kind) for one in values]
    b, floor = (0.07, 0.0) if kind == "power" else (0.16, 1.8)
    assert np.mean([law.exponent_low <= b <= law.exponent_high for law in laws]) > 0.92
    assert np.mean([law.irreducible_low <= floor <= law.irreducible_high for law in laws]) > 0.92
    assert np.mean([law.curvature_p < 0.05 for law in laws]) < 0.08


def bends(bent: bool, *, shared: float, named: bool, sd: float, n: int = 5, ladders: int = 200) -> float:
    """How often a bend is told at 5 % of a power law, or of losses with an irreducible part of nine tenths.

    Sizes share that much of a seed's variance; where seeds are not `named`, the law cannot know it.
    """
    rng, share = np.random.default_rng(5), np.array(COMPUTE) / COMPUTE[-1]
    losses = 2.34 + 0.26 * share**-0.3 if bent else 3 * share**-0.05
    told = 0
    for _ in range(ladders):
        noise = math.sqrt(shared) * rng.standard_normal((1, n))
        noise = sd * (noise + math.sqrt(1 - shared) * rng.standard_normal((share.size, n)))
        ladder = SizeLadder(
            compute=COMPUTE,
            losses=tuple(map(tuple, losses[:, None] * np.exp(noise))),
            seeds=(tuple(range(n)),) * share.size if named else (),
        )
        told += statistics.fit_law(ladder).curvature_p < 0.05
    return told / ladders


@pytest.mark.full
def test_a_bend_is_told_through_the_noise_that_sizes_share():
    """The twin does not know which losses are of one seed: it tells few."""
    assert bends(True, shared=0.9, named=True, sd=0.3) > 0.5
    assert bends(True, shared=0.9, named=False, sd=0.3, ladders=60) < 0.3


@pytest.mark.full
@pytest.mark.parametrize("shared", [0.0, 0.9])
@pytest.mark.parametrize("n", [3, 5])
def test_and_seldom_where_there_is_none(shared, n):
    assert bends(False, shared=shared, named=True, sd=0.02, n=n, ladders=400) <= 0.085


def test_within_seeds_it_is_t_of_their_own_bends():
    """Three sizes at equal steps of log C: each seed's second difference, against 0."""
    losses = np.array([[3.0, 3.1, 2.9, 3.05], [2.6, 2.72, 2.51, 2.64], [2.3, 2.39, 2.2, 2.36]])
    ladder = SizeLadder(compute=(1.0, 4.0, 16.0), losses=tuple(map(tuple, losses)), seeds=((1, 2, 3, 4),) * 3)
    second = np.log(losses)[0] - 2 * np.log(losses)[1] + np.log(losses)[2]
    assert statistics.fit_law(ladder).curvature_p == pytest.approx(stats.ttest_1samp(second, 0).pvalue, rel=1e-9)
    few = SizeLadder(compute=ladder.compute, losses=ladder.losses, seeds=((1, 2, 3, 4), (1, 2, 5, 6), (1, 2, 7, 8)))
    apart = SizeLadder(compute=ladder.compute, losses=ladder.losses)
    assert statistics.fit_law(few).curvature_p == statistics.fit_law(apart).curvature_p
