"""Strata such as games: variants are compared within each, on its own scale, over these or over strata like these."""

import math

import numpy as np
import pytest
from scipy import stats

import ablate
from ablate.statistics import stratified

SCALES = {"g0": 1.0, "g1": 300.0, "g2": 20.0}


def table(shift=0.0, n=6, seed=0, spread=0.05, between=0.0, scales=SCALES, paired=True):
    random = np.random.default_rng(seed)
    own = dict(zip(scales, shift + between * random.normal(size=len(scales)), strict=True))
    return [
        {"algo": algo, "game": game, "score": float(scale * (1 + spread * random.normal() + own[game] * (algo == "b")))}
        | ({"seed": k} if paired else {})
        for game, scale in scales.items()
        for algo in ("a", "b")
        for k in range(n)
    ]


def judged(rows, inference="these", **asked):
    return ablate.judge(
        rows, by="algo", **{"metrics": "score:higher", "within": "game", "inference": inference} | asked
    )


def scaled(rows):
    """Scores of each algorithm and game over their mean size in the game."""
    of = {}
    for row in rows:
        of.setdefault((row["algo"], row["game"]), []).append(row["score"])
    size = {g: np.mean(np.abs(of["a", g] + of["b", g])) for g in SCALES}
    return {(algo, g): np.array(values) / size[g] for (algo, g), values in of.items()}


def refused(rows, **asked):
    with pytest.raises(ablate.InputError) as error:
        judged(rows, **asked)
    return str(error.value)


@pytest.mark.parametrize("paired", [True, False])
def test_these_strata_are_one_mean_whose_error_is_within_them(paired):
    rows = table(0.05, paired=paired)
    (effect,) = judged(rows, unpaired=not paired).summary.effects
    of = scaled(rows)
    if paired:
        parts = [((of["b", g] - of["a", g]).var(ddof=1) / 6, 5) for g in SCALES]
    else:
        parts = [(of[algo, g].var(ddof=1) / 6, 5) for g in SCALES for algo in "ab"]
    whole = sum(part for part, _ in parts)
    difference = np.mean([of["b", g].mean() - of["a", g].mean() for g in SCALES])
    df = whole**2 / sum(part**2 / n for part, n in parts)
    assert effect.estimate == pytest.approx(difference, abs=1e-12)
    assert effect.df == pytest.approx(df, rel=1e-12)
    assert effect.p == pytest.approx(2 * stats.t.sf(abs(difference) / (math.sqrt(whole) / 3), df), abs=1e-12)
    assert (effect.method, effect.verdict) == ("strata", "better")


def test_strata_alike_are_one_number_each():
    rows = table(0.05)
    (effect,) = judged(rows, "alike").summary.effects
    of = scaled(rows)
    pairs = [(of["a", g].mean(), of["b", g].mean()) for g in SCALES]
    known = stats.ttest_rel([b for _, b in pairs], [a for a, _ in pairs])
    assert (effect.n, effect.p) == (3, pytest.approx(known.pvalue, abs=1e-12))


def test_the_difference_in_each_is_told_and_how_it_was_scaled():
    rows = table(0.05)
    summary = judged(rows).summary
    of = scaled(rows)
    each = ", ".join(f"{g} {of['b', g].mean() - of['a', g].mean():+.3g}" for g in SCALES)
    assert f"b against a, score in each game: {each}" in summary.notes
    assert "score of each game divided by its mean size there, over all runs" in summary.notes


def test_ratios_need_no_scale():
    rows = table(0.05)
    (effect,) = judged(rows, metrics="score:higher:log").summary.effects
    of = {}
    for row in rows:
        of.setdefault((row["algo"], row["game"]), []).append(math.log(row["score"]))
    assert effect.estimate == pytest.approx(
        np.mean([np.mean(of["b", g]) - np.mean(of["a", g]) for g in SCALES]), abs=1e-12
    )


def test_few_runs_in_a_stratum_have_the_degrees_of_freedom_of_the_smallest():
    (effect,) = judged(table(n=3)).summary.effects
    assert effect.df == 2 and "fewer than 5 runs say little of noise" in effect.note


def test_one_run_in_a_stratum_is_told():
    rows = [row for row in table() if row["game"] != "g1" or row["seed"] == 0]
    (effect,) = judged(rows).summary.effects
    assert effect.verdict == "undecided" and "fewer than two runs a side in g1" in effect.note


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"inference": None}, "--within game: what is asked about its strata?\n  = --inference these: over these"),
        ({"within": None}, "--inference is about strata"),
        ({"within": "gam"}, "no column 'gam'\n  = did you mean 'game'?"),
    ],
    ids=str,
)
def test_what_is_asked_of_strata_must_be_said(asked, said):
    assert said in refused(table(), **asked)


def test_a_row_without_a_stratum_is_a_mistake():
    rows = table()
    rows[3]["game"] = ""
    assert "row 4: no game" in refused(rows)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"floor": "a"}, "--floor and --within are two ways to judge"),
        ({"sd": 1.0}, "--sd and --within are two ways to judge"),
        ({"metrics": "score:higher:margin=5"}, "a margin of 5: numbers of score are divided by their mean size"),
    ],
    ids=str,
)
def test_what_has_no_meaning_within_strata_is_refused(asked, said):
    assert said in refused(table(), **asked)


@pytest.mark.parametrize("paired", [True, False])
def test_a_stratum_that_only_one_side_has_is_left_out_and_told(paired):
    rows = [row for row in table(0.05, paired=paired) if (row["algo"], row["game"]) != ("b", "g1")]
    summary = judged(rows, unpaired=not paired).summary
    (effect,) = summary.effects
    assert "the mean of 2 strata" in effect.note and "left out, as they are not on both sides: g1" in effect.note
    assert any("g1 not on both sides" in note for note in summary.notes)


def test_strata_alike_are_partners_even_where_runs_have_none():
    rows = table(0.05, paired=False)
    (effect,) = judged(rows, "alike", unpaired=True).summary.effects
    assert (effect.method, effect.n) == ("student", 3)


def test_ratios_in_each_stratum_are_told_as_they_are_judged():
    rows = table(0.05)
    summary = judged(rows, metrics="score:higher:log").summary
    of = {}
    for row in rows:
        of.setdefault((row["algo"], row["game"]), []).append(math.log(row["score"]))
    each = ", ".join(f"{g} ×{math.exp(np.mean(of['b', g]) - np.mean(of['a', g])):.3g}" for g in SCALES)
    assert f"b against a, score in each game: {each}" in summary.notes


def test_any_scale_has_the_same_p():
    samples = [[[0.1, 0.3, 0.2, 0.4, 0.1]], [[0.2, 0.1, 0.3, 0.2, 0.5]]]
    huge = [[[value * 1e300 for value in side] for side in sides] for sides in samples]
    assert stratified(huge).p == pytest.approx(stratified(samples).p, rel=1e-9)


def rates(inference, **world):
    false = outside = 0
    for seed in range(1_000):
        (effect,) = judged(table(seed=seed, **world), inference).summary.effects
        false += effect.verdict != "undecided"
        outside += not effect.low <= 0 <= effect.high
    return false / 1_000, 1 - outside / 1_000


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True])
def test_these_strata_hold_their_level(paired):
    false, held = rates("these", paired=paired)
    assert 0.028 <= false <= 0.053
    assert 0.93 <= held <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3])
def test_few_runs_of_these_strata_err_no_more(n):
    assert rates("these", n=n)[0] <= 0.053


@pytest.mark.slow
def test_strata_alike_hold_their_level_where_strata_differ_and_these_do_not():
    scales = {f"g{k}": 10.0**k for k in range(8)}
    false, held = rates("alike", between=0.1, scales=scales)
    assert 0.028 <= false <= 0.053
    assert 0.93 <= held <= 0.97
    assert rates("these", between=0.1, scales=scales)[0] > 0.3, "the twin: these strata do differ, others would not"
