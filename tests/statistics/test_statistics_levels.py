"""Factors with several levels: estimates, errors and lines against least squares written out here, and error rates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from ablate.plan.designs.design_matrix import coded, columns_of, terms_of
from ablate.plan.plan import Factors, VariedFactor
from ablate.statistics import analyse

ORDERED = VariedFactor(address="depth", values=(4, 8, 16, 32), scale="log")
NOMINAL = VariedFactor(address="kind", values=("a", "b", "c"), scale="nominal")
T = np.array([-1, -1 / 3, 1 / 3, 1])


def factorial(*varied, edits=1, without=()):
    """Every combination of edits and levels, and its columns, terms, effects and the terms of each line."""
    rows = list(product(*[(-1, 1)] * edits, *(range(len(one.values)) for one in varied)))
    rows = [row for row in rows if row not in without]
    names = tuple("abcdef"[:edits])
    factors = Factors(edits=names, runs=tuple((str(row), row) for row in rows), effects=(), varied=varied)
    columns = columns_of(factors)
    terms, shown = terms_of(columns, interactions=True)
    lines: dict = {}
    for place, term in enumerate(terms):
        lines.setdefault(tuple(columns[i].factor for i in term), []).append(place)
    return rows, columns, coded(factors, rows), terms, shown, lines


def table(rows, seeds, rng, *, sd=1.0, varies=1.0, trend=0.0):
    """Seeds share noise; what the edit, the trend and its curvature do varies over seeds."""
    rng = np.random.default_rng(rng)
    edit, t = np.array([row[0] for row in rows]), T[[row[1] for row in rows]]
    own = sd * rng.normal(size=(len(rows), seeds))
    shared = rng.normal(size=seeds)
    moves = varies * rng.normal(size=(3, seeds))
    return own + shared + np.outer(edit, moves[0]) + np.outer(t, trend + moves[1]) + np.outer(t**2, moves[2])


@pytest.mark.fast
def test_trend_curvature_and_interaction_are_those_of_means_by_level():
    """By the mean of each level at each seed, and numpy's polynomials, with nothing of the columns."""
    rows, columns, levels, terms, _, lines = factorial(ORDERED)
    values = table(rows, 6, 1)
    found = analyse(levels, terms, values, lines=list(lines.values()))
    by_name = {tuple(columns[i].name for i in e.effect): e for e in found.estimates}
    of = values.reshape(2, 4, 6)
    slopes = np.array([[2 * np.polyfit(T, of[e, :, s], 1)[0] for s in range(6)] for e in range(2)])
    curves = [np.poly1d(np.polyfit(T, of[:, :, s].mean(axis=0), 2)) for s in range(6)]
    expected = {
        ("a",): of[1].mean(axis=0) - of[0].mean(axis=0),
        ("depth: trend",): slopes.mean(axis=0),
        ("depth: curvature",): np.array([(c(-1) + c(1)) / 2 - c(0) for c in curves]),
        ("a", "depth: trend"): slopes[1] - slopes[0],
    }
    for name, seeds in expected.items():
        test = stats.ttest_1samp(seeds, 0)
        low, high = test.confidence_interval(0.95)
        one = by_name[name]
        assert (one.estimate, one.p, one.df) == (pytest.approx(seeds.mean()), pytest.approx(test.pvalue), 5)
        assert (one.low, one.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.fast
@pytest.mark.parametrize("without", [(), ((1, 2, 1), (-1, 0, 2), (1, 3, 0))])
def test_lines_are_partial_sums_of_squares_with_all_their_degrees_of_freedom(without):
    """Against the fall of the residual of a float64 least squares on indicators, also where runs are left out."""
    rows, columns, levels, terms, _, lines = factorial(ORDERED, NOMINAL, without=without)
    values = np.random.default_rng(3).normal(size=(len(rows), 5))
    found = {line.effect: line for line in analyse(levels, terms, values, lines=list(lines.values())).lines}
    means = values.mean(axis=1)

    def indicators(which):
        keys = [tuple(row[i] for i in which) for row in rows]
        return np.array([[float(key == k) for k in sorted(set(keys))] for key in keys])

    def left(spans):
        x = np.column_stack([np.ones(len(rows)), *map(indicators, spans)])
        fit, *_ = np.linalg.lstsq(x, means, rcond=None)
        return float(((means - x @ fit) ** 2).sum()), int(np.linalg.matrix_rank(x))

    for pair in ((0, 1), (0, 2), (1, 2)):
        pairs = [other for other in ((0, 1), (0, 2), (1, 2)) if other != pair]
        whole, rank = left([(0, 1), (0, 2), (1, 2)])
        fewer, less = left(pairs)
        line = found[terms[lines[pair][0]]]
        assert (line.sum_of_squares, line.df) == (pytest.approx(5 * (fewer - whole)), rank - less)
        contrasts = line.df
        assert line.f is not None and 0 < line.p <= 1 and contrasts == (rank - less)
    if not without:
        total = 5 * float(((means[:, None] - means.mean()) ** 2).sum())
        assert sum(line.sum_of_squares for line in found.values() if line.effect) <= total + 1e-9
        one = found[terms[lines[(1,)][0]]]
        by_level = np.array([means[[row[1] == level for row in rows]].mean() for level in range(4)])
        assert one.sum_of_squares == pytest.approx(5 * 6 * float(((by_level - by_level.mean()) ** 2).sum()))
        assert one.df == 3
    assert columns[0].name == "a"


@pytest.mark.fast
def test_levels_without_order_are_differences_to_the_first():
    rows, columns, levels, terms, _, lines = factorial(NOMINAL, edits=2)
    values = np.random.default_rng(4).normal(size=(len(rows), 5))
    estimates = analyse(levels, terms, values, lines=list(lines.values())).estimates
    found = {tuple(columns[i].name for i in e.effect): e for e in estimates}
    means = values.mean(axis=1)

    def mean(**at):
        return means[[all(row["abk".index(n)] == v for n, v in at.items()) for row in rows]].mean()

    assert found[("kind=b",)].estimate == pytest.approx(mean(k=1) - mean(k=0))
    assert found[("kind=c",)].estimate == pytest.approx(mean(k=2) - mean(k=0))
    with_b = mean(k=2, b=1) - mean(k=0, b=1)
    assert found[("b", "kind=c")].estimate == pytest.approx(with_b - (mean(k=2, b=-1) - mean(k=0, b=-1)))


@pytest.mark.fast
def test_edits_alone_are_still_checked_to_be_present_or_not():
    with pytest.raises(ValueError, match=r"-1 or \+1"):
        analyse(np.array([[0.5], [-1.0]]), [(0,)], np.zeros((2, 3)))


def rates(times, *, trend, pooled=False):
    """How often a trend, and the line of its factor, have p < 5 %, where what it does varies over seeds."""
    rows, columns, levels, terms, _, lines = factorial(ORDERED)
    at = next(i for i, term in enumerate(terms) if columns[term[0]].name == "depth: trend")
    called = line_called = 0
    for once in range(times):
        values = table(rows, 6, once, varies=1.0, trend=trend)
        found = analyse(levels, terms, values, lines=list(lines.values()))
        if pooled:  # the error of an ordinary analysis of variance, one for all effects
            error = next(line for line in found.lines if line.term == "error")
            codes = levels[:, terms[at][0]]
            squares = 6 * float((codes @ values.mean(axis=1)) ** 2) / float((codes**2).sum())
            called += stats.f.sf(squares / (error.sum_of_squares / error.df), 1, error.df) < 0.05
        else:
            called += found.estimates[at].p < 0.05
        line = next(line for line in found.lines if line.effect == terms[lines[(1,)][0]])
        line_called += line.p < 0.05
    return called / times, line_called / times


@pytest.mark.full
def test_a_trend_that_is_none_is_called_in_one_of_twenty_at_most():
    trend, line = rates(1500, trend=0.0)
    bound = 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1500)
    assert trend <= bound and line <= bound


@pytest.mark.full
def test_with_one_error_for_all_it_would_be_called_too_often():
    """The twin: the same tables, so that the one above can fail; and a trend that is there is found."""
    assert rates(300, trend=0.0, pooled=True)[0] > 0.1
    assert rates(100, trend=4.0)[0] > 0.9
