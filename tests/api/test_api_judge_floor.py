"""Single runs judged by the noise of others: of a variant of several runs, or a number."""

import math

import numpy as np
import pytest
from scipy import stats

import ablate
from ablate.statistics import KnownNoise, against_floor

RERUNS = [3.2787, 3.2801, 3.2779, 3.2793, 3.2785]


def table(*candidates, reruns=RERUNS):
    return [{"variant": "base", "loss": x} for x in reruns] + [
        {"variant": f"c{k}", "loss": x} for k, x in enumerate(candidates)
    ]


def refused(rows, **asked):
    with pytest.raises(ablate.InputError) as error:
        ablate.judge(rows, **{"metrics": "loss", **asked})
    return str(error.value)


def test_one_run_is_outside_the_prediction_interval_of_five_reruns_or_not():
    judged = ablate.judge(table(3.2701, 3.2780), metrics="loss:margin=0.2%", floor="base")
    far, near = judged.summary.effects
    s, half = np.std(RERUNS, ddof=1), None
    for effect, value in ((far, 3.2701), (near, 3.2780)):
        half = stats.t.ppf(0.975, 4) * s * math.sqrt(1 + 1 / 5)
        difference = value - np.mean(RERUNS)
        assert (effect.estimate, effect.low, effect.high) == pytest.approx(
            (difference, difference - half, difference + half), abs=1e-12
        )
        assert effect.p == pytest.approx(2 * stats.t.sf(abs(difference) / (half / stats.t.ppf(0.975, 4)), 4), abs=1e-12)
    assert (far.verdict, near.verdict, far.method, far.df) == ("better", "equivalent", "floor", 4)
    assert "judged by the noise of 5 runs of base, sd 0.00084, if its noise is that" in far.note


def test_candidates_are_corrected_by_holm():
    judged = ablate.judge(table(3.2755, 3.2755), metrics="loss", floor="base")
    alone = ablate.judge(table(3.2755), metrics="loss", floor="base")
    (one,), pair = alone.summary.effects, judged.summary.effects
    assert one.p_adjusted == pytest.approx(one.p) and all(e.p_adjusted == pytest.approx(2 * e.p) for e in pair)


def test_ratios_are_judged_by_the_spread_of_logarithms():
    judged = ablate.judge(table(4.0, reruns=[2.0, 2.2, 1.9, 2.1]), metrics="loss:log", floor="base")
    (effect,) = judged.summary.effects
    logs = np.log([2.0, 2.2, 1.9, 2.1])
    error = logs.std(ddof=1) * math.sqrt(1 + 1 / 4)
    assert effect.estimate == pytest.approx(math.log(4) - logs.mean(), abs=1e-12)
    assert effect.p == pytest.approx(2 * stats.t.sf(abs(effect.estimate) / error, 3), abs=1e-12)


def test_a_given_sd_is_known_exactly():
    judged = ablate.judge(table(3.68, reruns=[3.692]), metrics="loss", sd=0.01)
    (effect,) = judged.summary.effects
    assert effect.p == pytest.approx(2 * stats.norm.sf(0.012 / (0.01 * math.sqrt(2))), abs=1e-12)
    assert effect.verdict == "undecided" and "a given sd of 0.01" in effect.note
    assert '"df": null' in judged.json  # infinitely many


def test_a_given_sd_of_ratios_is_said_to_be_of_logarithms():
    (effect,) = ablate.judge(table(3.0, reruns=[2.0]), metrics="loss:log", sd=0.1).summary.effects
    assert "a given sd of 0.1 of logarithms (×÷ 1.11)" in effect.note


def test_a_candidate_of_several_runs_has_the_smaller_error():
    rows = [*table(3.2760), {"variant": "c0", "loss": 3.2770}]
    (effect,) = ablate.judge(rows, metrics="loss", floor="base").summary.effects
    error = np.std(RERUNS, ddof=1) * math.sqrt(1 / 5 + 1 / 2)
    assert effect.p == pytest.approx(2 * stats.t.sf(abs(effect.estimate) / error, 4), abs=1e-12)


def test_a_candidate_that_diverged_is_so_and_others_are_judged():
    far, gone = ablate.judge(table(3.27, math.inf), metrics="loss", floor="base").summary.effects
    assert (far.verdict, gone.verdict) == ("better", "diverged")


@pytest.mark.parametrize(
    ("rows", "asked", "said"),
    [
        (table(3.27), {"floor": "bas"}, "no variant 'bas' in the table\n  = did you mean 'base'?"),
        (table(3.27), {"floor": "c0"}, "--floor c0: c0 has 1 run with a loss, which tells no noise"),
        (table(3.27, reruns=[2.0, 2.0]), {"floor": "base"}, "the 2 runs of base have the same loss, which tells no"),
        (table(3.27), {"floor": "base", "sd": 0.1}, "--floor and --sd both say what the noise is"),
        (table(3.27), {"sd": -1.0}, "--sd -1: a standard deviation is above 0"),
        (table(3.27), {"sd": 1.0, "metrics": ["loss", "variant"]}, "not a number"),
        (table(3.27), {}, "--floor names a variant of several runs, or --sd a number"),
    ],
    ids=str,
)
def test_a_floor_that_tells_nothing_is_a_mistake(rows, asked, said):
    assert said in refused(rows, **asked)


@pytest.mark.parametrize("factor", [1e-200, 1e300])
def test_any_scale_has_the_same_p(factor):
    of = against_floor(RERUNS, [3.27], KnownNoise.of(RERUNS))
    x, y = [value * factor for value in RERUNS], [3.27 * factor]
    assert against_floor(x, y, KnownNoise.of(x)).p == pytest.approx(of.p, rel=1e-9)
