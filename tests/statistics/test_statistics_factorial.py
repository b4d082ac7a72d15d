"""Factorials against statsmodels, and where cells are missing, do not vary, or cannot be told apart."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from ablate import statistics
from ablate.statistics import Analysis

LEVELS = np.array(list(itertools.product([-1, 1], repeat=3)))
EFFECTS = [(0,), (1,), (2,), (0, 1), (0, 2)]
FORMULA = "y ~ a + b + c + a:b + a:c"
MISSING = {
    "none": [],
    "some cells": [(2, 1), (5, 3), (6, 3)],
    "a run": [(7, s) for s in range(4)],
    "a seed": [(r, 2) for r in range(8)],
}


def values(missing: str = "none", seeds: int = 4, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    y = random.normal(size=(8, seeds)) + 3 * random.normal(size=seeds) + LEVELS[:, :1] + 0.4 * LEVELS[:, [1]]
    for cell in MISSING[missing]:
        y[cell] = np.nan
    return y


def complete(y: np.ndarray) -> np.ndarray:
    """The table without the seeds at which a run is missing that there is at another."""
    runs = ~np.isnan(y).all(axis=1)
    return np.where(~np.isnan(y[runs]).any(axis=0), y, np.nan)


def frame(y: np.ndarray) -> pd.DataFrame:
    rows = [(*LEVELS[r], r, s, y[r, s]) for r, s in np.argwhere(~np.isnan(y))]
    return pd.DataFrame(rows, columns=["a", "b", "c", "run", "seed", "y"])


@pytest.mark.parametrize("missing", MISSING)
def test_each_effect_is_the_mean_of_its_least_squares_at_every_seed(missing):
    y = values(missing)
    data = frame(complete(y))
    names = ["a", "b", "c", "a:b", "a:c"]
    by_seed = np.array([smf.ols(FORMULA, one).fit().params[names] for _, one in data.groupby("seed")])
    by_seed *= np.array([2, 2, 2, 4, 4])
    found = statistics.analyse(LEVELS, EFFECTS, y, confidence=0.9)
    assert found.cells == len(data)
    assert {one.n for one in found.estimates} == {found.seeds} == {len(found.complete)} == {data.seed.nunique()}
    assert found.lost == ((7,) if missing == "a run" else ())
    fitted = smf.ols(f"{FORMULA} + C(seed)", data).fit()  # of all seeds in one it is the same mean
    assert [e.estimate for e in found.estimates] == pytest.approx(
        list(np.array([2, 2, 2, 4, 4]) * fitted.params[names])
    )
    for one, d in zip(found.estimates, by_seed.T, strict=True):
        test = stats.ttest_1samp(d, 0.0)
        assert (one.estimate, one.p, one.df) == (pytest.approx(d.mean()), pytest.approx(test.pvalue), len(d) - 1)
        assert one.error == pytest.approx(stats.sem(d))
        assert (one.low, one.high) == pytest.approx(tuple(test.confidence_interval(0.9)))
        assert (one.tost_low, one.tost_high) == pytest.approx(tuple(test.confidence_interval(0.8)))
        sides = [stats.ttest_1samp(d, -2.5, alternative="greater"), stats.ttest_1samp(d, 2.5, alternative="less")]
        assert one.p_equivalent(2.5) == pytest.approx(max(side.pvalue for side in sides))


@pytest.mark.parametrize("missing", MISSING)
def test_the_sums_of_squares_are_statsmodels_and_f_is_of_each_term_by_itself(missing):
    y = values(missing)
    data = frame(complete(y))
    fitted, full = (smf.ols(f, data).fit() for f in (f"{FORMULA} + C(seed)", "y ~ C(run) + C(seed)"))
    table = anova_lm(fitted, typ=3)
    lack, df_lack = fitted.ssr - full.ssr, fitted.df_resid - full.df_resid
    expected = [(table.sum_sq[name], 1) for name in ("a", "b", "c", "a:b", "a:c")]
    expected += [(table.sum_sq["C(seed)"], table.df["C(seed)"]), (lack, df_lack), (full.ssr, full.df_resid)]
    analysis = statistics.analyse(LEVELS, EFFECTS, y)
    found = analysis.lines
    assert [line.term for line in found] == [*["effect"] * 5, "seed", "lack of fit", "error"]
    assert [line.effect for line in found] == [*EFFECTS, None, None, None]
    for line, (squares, df) in zip(found, expected, strict=True):
        assert (line.sum_of_squares, line.df) == (pytest.approx(squares), df)
    for line, one in zip(found, analysis.estimates, strict=False):
        assert (line.f, line.p) == (pytest.approx((one.estimate / one.error) ** 2), pytest.approx(one.p))
    assert found[5].f is found[5].p is found[7].f is found[7].p is None
    # Lack of fit: the contrasts that are left, against how they vary over seeds, by Greenhouse and Geisser.
    runs = ~np.isnan(y).all(axis=1)
    left = np.linalg.qr(np.column_stack([design(LEVELS[runs]), np.eye(runs.sum())]))[0][:, 6 : runs.sum()]
    z = left.T @ y[np.ix_(runs, ~np.isnan(y[runs]).any(axis=0))]
    n = z.shape[1]
    s = np.atleast_2d(np.cov(z))
    epsilon = np.trace(s) ** 2 / (df_lack * np.trace(s @ s))
    f = n * (z.mean(axis=1) ** 2).sum() / np.trace(s)
    assert found[6].f == pytest.approx(f)
    assert found[6].p == pytest.approx(stats.f.sf(f, epsilon * df_lack, epsilon * df_lack * (n - 1)))


def design(levels: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(levels)), *(levels[:, list(effect)].prod(axis=1) for effect in EFFECTS)])


@pytest.mark.parametrize("shape", [(8, 4), (8, 12), (16, 6)])
def test_sphericity_is_johns_and_its_p_is_uniform_where_there_is_no_structure(shape):
    random = np.random.default_rng(3)
    runs, n = shape
    levels = np.array(list(itertools.product([-1, 1], repeat=int(math.log2(runs)))))
    p_values = []
    for k in range(400):
        y = random.normal(size=shape) + random.normal(size=n)
        found = statistics.analyse(levels, [(0,)], y).sphericity
        assert found is not None
        p_values.append(found.p)
        if k < 5:
            s = np.cov(np.linalg.qr(np.column_stack([np.ones(runs), np.eye(runs)]))[0][:, 1:runs].T @ y)
            u = (runs - 1) * np.trace(s @ s) / np.trace(s) ** 2 - 1
            assert found == statistics.Sphericity(u=pytest.approx(u), p=found.p, epsilon=pytest.approx(1 / (1 + u)))
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    y = random.normal(size=shape) + random.normal(size=n) + 6 * levels[:, :1] * random.normal(size=n)
    assert statistics.analyse(levels, [(0,)], y).sphericity.p < 0.01  # the twin: an edit whose effect varies


@pytest.mark.parametrize("there", [[0], []])
def test_without_two_complete_seeds_there_are_estimates_alone(there):
    """Nothing tells how far the only value of a run is off, so that nothing is claimed."""
    y = values()
    y[3, 1:] = np.nan
    y[5, 0] = y[5, 0] if there else np.nan
    found = statistics.analyse(LEVELS, EFFECTS, y)
    fitted = smf.ols(f"{FORMULA} + C(seed)", frame(y)).fit()
    expected = np.array([2, 2, 2, 4, 4]) * fitted.params[["a", "b", "c", "a:b", "a:c"]]
    assert [e.estimate for e in found.estimates] == pytest.approx(list(expected))
    assert (found.error_of, found.lines, found.complete) == ("none", (), tuple(there))
    for one in found.estimates:
        assert one.n == len(there)
        assert one.low is one.p is one.error is one.p_equivalent(1.0) is None


def test_seeds_of_one_run_alone_are_no_seeds_of_an_effect():
    """All runs at one seed and one of them at eight more, all alike: by nine signs p would be 2^-8."""
    y = np.full((8, 9), np.nan)
    y[:, 0] = 2.3 - 0.05 * LEVELS.sum(axis=1)
    y[0] = y[0, 0]
    for one in statistics.analyse(LEVELS, EFFECTS, y).estimates:
        assert (one.n, one.p) == (1, None)
        assert one.estimate is not None


def test_effects_are_differences_and_differences_of_differences():
    y = values()
    found = statistics.analyse(LEVELS, [*EFFECTS, (0, 1, 2)], y).estimates
    means = {tuple(levels): row.mean() for levels, row in zip(LEVELS, y, strict=True)}

    def mean(a: int, b: int) -> float:
        return float(np.mean([means[a, b, c] for c in (-1, 1)]))

    assert found[0].estimate == pytest.approx(np.mean([mean(1, b) - mean(-1, b) for b in (-1, 1)]))
    assert found[3].estimate == pytest.approx((mean(1, 1) - mean(-1, 1)) - (mean(1, -1) - mean(-1, -1)))
    threes = [levels.prod() * means[tuple(levels)] for levels in LEVELS]
    assert found[5].estimate == pytest.approx(sum(threes))


def test_seeds_that_differ_cost_nothing():
    y = values()
    once, apart = (statistics.analyse(LEVELS, EFFECTS, one) for one in (y, y + 100 * np.arange(4)))
    assert [e.error for e in apart.estimates] == pytest.approx([e.error for e in once.estimates])
    assert [e.estimate for e in apart.estimates] == pytest.approx([e.estimate for e in once.estimates])


def test_with_one_seed_lack_of_fit_is_the_error():
    y = values(seeds=1)
    found = statistics.analyse(LEVELS, EFFECTS, y)
    fitted = smf.ols(FORMULA, frame(y)).fit()
    assert (found.error_of, found.seeds) == ("lack of fit", 1)
    assert found.estimates[0].p == pytest.approx(fitted.pvalues["a"])
    assert found.estimates[0].df == fitted.df_resid == 2
    assert [line.term for line in found.lines] == [*["effect"] * 5, "lack of fit"]
    assert found.lines[-1].f is None


def test_with_one_seed_and_nothing_left_there_is_no_interval():
    every = [effect for size in (1, 2, 3) for effect in itertools.combinations(range(3), size)]
    found = statistics.analyse(LEVELS, every, values(seeds=1))
    assert found.error_of == "none"
    for one in found.estimates:
        assert one.estimate is not None
        assert one.error is one.low is one.p is one.df is one.p_equivalent(1.0) is None
    assert all(line.f is None for line in found.lines)


def test_more_seeds_give_the_saturated_layout_an_error():
    every = [effect for size in (1, 2, 3) for effect in itertools.combinations(range(3), size)]
    found = statistics.analyse(LEVELS, every, values())
    assert found.error_of == "seeds"
    assert {line.term for line in found.lines} == {"effect", "seed", "error"}


def test_what_lost_runs_leave_together_is_not_told():
    """Without the runs where a and b differ the two are one, and their interaction does not vary."""
    y = values()
    y[LEVELS[:, 0] != LEVELS[:, 1]] = np.nan
    a, b, c, ab, ac = statistics.analyse(LEVELS, EFFECTS, y).estimates
    assert a.estimate is b.estimate is ab.estimate is None
    assert (a.entangled, b.entangled, ab.entangled) == (((1,),), ((0,),), ())
    assert "confounded with other effects" in a.reason
    assert "does not vary" in ab.reason
    kept = frame(y)
    fitted = smf.ols("y ~ a + c + a:c + C(seed)", kept).fit()
    assert (c.estimate, ac.estimate) == pytest.approx((2 * fitted.params["c"], 4 * fitted.params["a:c"]))
    assert c.reason == ac.reason == ""


def test_without_any_result_nothing_is_told():
    found = statistics.analyse(LEVELS, EFFECTS, np.full((8, 4), np.nan))
    assert {one.reason for one in found.estimates} == {"no run has a result"}
    assert (found.cells, found.lines, found.error_of) == (0, (), "none")


def test_a_single_cell_tells_nothing():
    y = np.full((8, 4), np.nan)
    y[3, 2] = 1.0
    found = statistics.analyse(LEVELS, EFFECTS, y)
    assert all(one.estimate is None for one in found.estimates)
    assert (found.runs, found.seeds, found.cells) == (1, 1, 1)


@pytest.mark.parametrize("seeds", [2, 4, 6])
def test_without_spread_signs_decide(seeds):
    """The seeds differ, the runs of each by the same numbers: no error, so as many signs as seeds."""
    y = 2.3 + 0.1 * np.arange(seeds) + 0.05 * LEVELS[:, [0]]
    a, b, *_ = statistics.analyse(LEVELS, EFFECTS, y).estimates
    assert (a.method, a.error, a.df) == ("sign", 0, None)
    assert (a.p, b.p, b.estimate) == (2.0 ** (1 - seeds), 1.0, 0.0)
    assert math.isfinite(a.low) == (seeds >= 6)
    assert a.p_equivalent(0.2) == 2.0**-seeds
    assert a.p_equivalent(0.05) == 1


def test_a_little_spread_is_students_again():
    y = 2.3 + 0.05 * LEVELS[:, [0]] + 1e-9 * values()
    assert statistics.analyse(LEVELS, EFFECTS, y).estimates[0].method == "student"
    assert statistics.analyse(LEVELS, EFFECTS, y, size=1e5).estimates[0].method == "sign"


@pytest.mark.parametrize(
    ("levels", "effects", "y", "words"),
    [(LEVELS, [(0,)], np.zeros((7, 2)), "same runs"), (LEVELS * 2, [(0,)], np.zeros((8, 2)), "levels must be"),
     (LEVELS, [(0, 1), (1, 0)], np.zeros((8, 2)), "distinct"), (LEVELS, [()], np.zeros((8, 2)), "one edit or more"),
     (LEVELS, [(0,)], np.full((8, 2), np.inf), "finite")],
)  # fmt: skip
def test_what_is_no_factorial_is_refused(levels, effects, y, words):
    with pytest.raises(ValueError, match=words):
        statistics.analyse(levels, effects, y)


def test_no_effects_leave_an_analysis_of_blocks_and_error():
    found: Analysis = statistics.analyse(LEVELS, [], values())
    assert found.estimates == ()
    assert [(line.term, line.df) for line in found.lines] == [("seed", 3), ("lack of fit", 7), ("error", 21)]
