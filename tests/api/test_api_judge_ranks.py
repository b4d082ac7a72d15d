"""Two samples by ranks: exact with ties, worded as a tendency, and refused where no p can be low enough."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import ablate
from ablate.report.answers import against_baseline
from ablate.statistics import least_p, mann_whitney


def rows(*of):
    return [{"variant": f"v{k}", "loss": float(x)} for k, values in enumerate(of) for x in values]


def judged(*of, **asked):
    return ablate.judge(rows(*of), **{"metrics": "loss", "ranks": True} | asked)


def refused(*of, **asked):
    with pytest.raises(ablate.InputError) as error:
        judged(*of, **asked)
    return str(error.value)


def drawn(n, m, shift=0.0, seed=0, sd=1.0):
    random = np.random.default_rng(seed)
    return 10 + sd * random.normal(size=n), 10 + shift + random.normal(size=m)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 8), (10, 10), (20, 7), (30, 30)])
def test_p_is_the_exact_one(n, m):
    x, y = drawn(n, m, shift=-0.8)
    (effect,) = judged(x, y).summary.effects
    known = stats.mannwhitneyu(y, x, method="exact")
    assert effect.p == pytest.approx(known.pvalue, abs=1e-12)
    assert effect.estimate == pytest.approx(float(np.median(y[:, None] - x)), abs=1e-12)
    assert mann_whitney(x, y).tendency == pytest.approx(known.statistic / (n * m), abs=1e-12)


def test_ties_are_counted_in_all_ways_to_choose_ranks():
    x, y = [1.0, 2.0, 2.0, 3.0], [2.0, 3.0, 3.0, 4.0, 4.0]
    ranks = stats.rankdata(x + y)
    sums = np.array([ranks[list(chosen)].sum() for chosen in combinations(range(9), 5)])
    total = ranks[4:].sum()
    assert mann_whitney(x, y).p == pytest.approx(2 * min((sums <= total).mean(), (sums >= total).mean()), abs=1e-12)


def test_the_interval_holds_the_shifts_that_are_not_refused():
    """At both ends p is at least α, and beyond them below it."""
    x, y = drawn(8, 9, shift=1.0, seed=3)
    result = mann_whitney(x, y, confidence=0.95)
    for end, beyond in ((result.low, -1e-9), (result.high, 1e-9)):
        assert mann_whitney(x, y - end - beyond).p < 0.05 <= mann_whitney(x, y - end + beyond).p


def test_a_finding_is_worded_as_a_tendency_with_its_chance():
    x, y = drawn(10, 10, shift=-2.5)
    done = judged(x, y)
    (effect,) = done.summary.effects
    assert (effect.verdict, effect.method) == ("better", "mann_whitney")
    assert "a run after is lower than one before with the chance" in effect.note
    assert against_baseline(done.summary)["v1"].startswith("loss tends to be lower by ")
    assert effect.adjusted_low < effect.estimate < effect.adjusted_high < 0


def test_a_run_that_diverged_is_worse_than_any():
    x, y = drawn(6, 6)
    lost = judged(x, [*y, math.inf]).summary.effects[0]
    known = mann_whitney(x, [*y, math.inf])
    assert lost.p == pytest.approx(known.p) and known.tendency > mann_whitney(x, y).tendency
    assert lost.diverged_after == 1


def test_a_shift_without_an_end_is_said_in_words():
    x, y = drawn(6, 2)
    done = judged(x, [*y, *[math.inf] * 4])
    assert against_baseline(done.summary)["v1"].startswith("loss tends to be higher, as most runs of one side diverged")


def test_ratios_have_the_same_ranks():
    x, y = drawn(8, 8, shift=-1.0)
    plain, ratios = (judged(x, y, metrics=metric).summary.effects[0] for metric in ("loss", "loss:log"))
    assert plain.p == ratios.p
    assert ratios.estimate == pytest.approx(float(np.median(np.log(y)[:, None] - np.log(x))), abs=1e-12)


def test_many_values_are_counted_by_the_normal_law():
    x, y = drawn(80, 90, shift=0.3)
    known = stats.mannwhitneyu(y, x, method="asymptotic")
    assert mann_whitney(x, y).p == pytest.approx(known.pvalue, abs=1e-12)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 2), (2, 6)])
def test_so_few_runs_are_refused_as_no_p_is_low_enough(n, m):
    said = refused(*drawn(n, m))
    assert (
        f"--ranks: {n} runs of v0 and {m} of v1 have no p of loss below {least_p(n, m):.2g}, where 0.04 is needed"
        in said
    )
    assert "--unpaired judges their means" in said


def test_what_several_comparisons_and_judging_again_need_is_reckoned_with():
    four = [drawn(4, 4, seed=k)[0] for k in range(4)]
    assert "where 0.013 is needed, for one of 3 comparisons\n  = 5 runs a side can have it" in refused(*four)
    assert "where 0.008 is needed" in refused(*four[:2], judgement=2)


def test_a_run_that_diverged_counts_only_where_a_side_is_better():
    x, y = drawn(4, 3)
    assert judged(x, [*y, math.inf]).summary.effects[0].n == 4
    assert "4 runs of v0 and 3 of v1 have no p" in refused(x, [*y, math.inf], metrics="loss:none")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"metrics": "loss:margin=1%"}, "--ranks says nothing of a margin of loss"),
        ({"floor": "v0"}, "--ranks and --floor are two ways to judge"),
        ({"sd": 1.0}, "--ranks and --sd are two ways to judge"),
    ],
    ids=str,
)
def test_what_ranks_do_not_say_is_refused(asked, said):
    assert said in refused(*drawn(6, 6), **asked)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(5, 5), (8, 6), (12, 12)])
@pytest.mark.parametrize("heavy", [False, True])
def test_they_hold_their_level(n, m, heavy):
    false = outside = 0
    for seed in range(1_000):
        random = np.random.default_rng(seed)
        x, y = (random.standard_t(3, k) if heavy else random.normal(size=k) for k in (n, m))
        (effect,) = judged(10 + x, 10 + y).summary.effects
        false += effect.verdict != "undecided"
        outside += not effect.low <= 0 <= effect.high
    assert false <= 53
    assert outside <= 70


@pytest.mark.slow
def test_at_unequal_spreads_they_err_as_the_manual_says():
    """The twin."""
    pairs = (drawn(5, 15, seed=seed, sd=10.0) for seed in range(1_000))
    assert sum(judged(x, y).summary.effects[0].verdict != "undecided" for x, y in pairs) > 53
