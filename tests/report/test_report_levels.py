"""Factors with several levels through the judge and on screens: against statsmodels, and how often noise is called."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from designed_fixtures import designed, rules, sweeps
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from test_report_tables import render

from ablate.plan.designs.design_matrix import places_of
from ablate.report.page import PageRecord, doses, pareto, verdicts
from ablate.report.plot import svg_of
from ablate.report.screens.result import result_screen
from ablate.report.wording import phrase
from ablate.verdict.factorial import averaged
from ablate.verdict.judge import judge

DEPTHS = "{factorial: {from: pre_ln, to: op, vary: {model.layers: [4, 8, 16]}}}"
SWEEP = (
    "{factorial: {from: pre_ln, vary: {recipe.optimizer.adamw.eps: [1e-8, 1e-6, 1e-4],"
    " block.*_residual.gain: [1, 0.5]}}}"
)
KINDS = "{factorial: {from: pre_ln, to: op, vary: {model.head: [untied, tied]}}}"


def factors_of(plan):
    ((_, factors),) = plan.factors
    return factors


def effects(summary):
    return {effect.change: effect for effect in summary.effects if effect.kind in ("main", "interaction")}


def moved(plan, *, trend, edit_trend=0.0):
    """Shifts of the variants: a trend over the last factor, and how much more of it with the first edit."""
    factors = factors_of(plan)
    t, levels = places_of(factors.varied[-1]), dict(factors.runs)
    return [
        0.0 if v.id not in levels else t[levels[v.id][-1]] * (trend + edit_trend * levels[v.id][0]) / 2
        for v in plan.variants
    ]


@pytest.mark.fast
def test_effects_and_lines_are_those_of_statsmodels():
    plan = designed(DEPTHS, seeds=6)
    (finals,) = sweeps(plan, 1, rng=2, shifts=moved(plan, trend=0.2, edit_trend=0.1))
    summary = judge(plan, rules(), finals)
    factors = factors_of(plan)
    levels, t = dict(factors.runs), places_of(factors.varied[0])
    rows = [
        {
            **dict(zip("abc", levels[trial.variant], strict=False)),
            "t": t[levels[trial.variant][3]],
            "y": finals[trial.id]["metrics"]["eval_loss"],
            "seed": trial.seed,
        }
        for trial in plan.trials
    ]
    data = pd.DataFrame(rows)
    data["level"] = data.t.round(6)
    found = effects(summary)
    fit = ols("y ~ (a + b + c + t) ** 2 + C(seed)", data).fit()
    curve = ols("y ~ a + b + c + t + I(t ** 2) + C(seed)", data).fit()
    assert found["model.layers: trend"].estimate == pytest.approx(2 * fit.params["t"])
    assert found["model.layers: curvature"].estimate == pytest.approx(curve.params["I(t ** 2)"])
    first = factors.edits[0]
    assert found[f"{first} × model.layers: trend"].estimate == pytest.approx(4 * fit.params["a:t"])
    assert found[first].estimate == pytest.approx(2 * fit.params["a"])
    whole = anova_lm(ols("y ~ (a + b + c + C(level)) ** 2 + C(seed)", data).fit(), typ=1)
    lines = {line.term: line for line in summary.anova}
    assert lines["model.layers"].df == 2 and lines[f"{first} × model.layers"].df == 2
    assert lines["model.layers"].sum_of_squares == pytest.approx(whole.loc["C(level)", "sum_sq"])
    assert lines[f"{first} × model.layers"].sum_of_squares == pytest.approx(whole.loc["a:C(level)", "sum_sq"])
    assert found["model.layers: trend"].verdict == "worse" and averaged(summary)
    assert summary.tests == 11 + 1


@pytest.mark.fast
def test_levels_without_order_are_judged_against_the_first():
    plan = designed(KINDS, seeds=5)
    (finals,) = sweeps(plan, 1, rng=3)
    summary = judge(plan, rules(), finals)
    levels = dict(factors_of(plan).runs)
    ends = [(levels[trial.variant][-1], finals[trial.id]["metrics"]["eval_loss"]) for trial in plan.trials]
    by_level = [np.mean([value for at, value in ends if at == level]) for level in (0, 1)]
    assert effects(summary)["model.head=tied"].estimate == pytest.approx(by_level[1] - by_level[0])
    assert averaged(summary)


@pytest.mark.fast
def test_a_lost_run_leaves_the_rest_and_says_what_is_mixed():
    plan = designed(SWEEP, seeds=5)
    lost = np.zeros((len(plan.variants), 5), dtype=bool)
    lost[2] = True
    (finals,) = sweeps(plan, 1, rng=4, lost=lost)
    summary = judge(plan, rules(), finals)
    assert {effect.verdict for effect in effects(summary).values()} == {"undecided"}
    assert all("no verdict" in effect.note for effect in effects(summary).values())
    assert any("the estimate also contains" in effect.note for effect in effects(summary).values())
    assert not averaged(summary)
    one = np.zeros((len(plan.variants), 5), dtype=bool)
    one[2, 1] = True
    (finals,) = sweeps(plan, 1, rng=4, lost=one)
    found = effects(judge(plan, rules(), finals))
    assert {effect.method for effect in found.values()} == {"worst_rank"}
    assert all(effect.n == 4 for effect in found.values())


@pytest.mark.fast
def test_one_seed_and_none_have_lines_or_say_why_not():
    plan = designed(DEPTHS, seeds=1)
    (finals,) = sweeps(plan, 1, rng=4)
    summary = judge(plan, rules(), finals)
    lines = {line.term: line for line in summary.anova}
    assert lines["model.layers"].df == 2 and lines["lack of fit"].df == 23 - 3 - 2 - 3 - 6
    assert judge(plan, rules(), {}).anova == ()


@pytest.mark.full
def test_nothing_is_called_something_in_one_of_twenty_sweeps_at_most_and_a_trend_is_found():
    """Better or worse of any effect, corrected together; a trend that is there is found."""
    plan = designed(SWEEP, seeds=6)
    times = 300
    called = sum(
        any(effect.verdict != "undecided" for effect in effects(judge(plan, rules(), finals)).values())
        for finals in sweeps(plan, times, rng=5)
    )
    assert called / times <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / times)
    trend = f"{factors_of(plan).varied[-1].address}: trend"
    found = [
        effects(judge(plan, rules(), finals))[trend].verdict
        for finals in sweeps(plan, 20, rng=6, shifts=moved(plan, trend=0.2))
    ]
    assert found.count("worse") >= 18


def page_record(plan, summary):
    """A page of nothing but verdicts."""
    empty = dict.fromkeys(
        ("blocks", "curves", "layers", "gains", "endings", "corpus", "floors", "unequal", "again"), ()
    )
    return PageRecord(
        plan=plan, summary=summary, rules=rules(), definitions={}, versions={}, source="", resolved="", **empty
    )


@pytest.mark.fast
def test_the_levels_of_runs_are_shown_and_drawn():
    plan = designed(SWEEP, seeds=5)
    (finals,) = sweeps(plan, 1, rng=4, shifts=moved(plan, trend=0.2))
    record = page_record(plan, judge(plan, rules(), finals))
    factors = factors_of(plan)
    grid = verdicts.runs(record, "", factors)
    assert grid.heading[1:3] == ("recipe.optimizer.adamw.eps", "block.*_residual.gain")
    assert {row[1:3] for row in grid.rows} == {(e, g) for e in ("1e-08", "1e-06", "0.0001") for g in ("0.5", "1")}
    first, second = doses.plots(record, factors, "")
    assert len(first.rows) == len(second.rows) == 6
    assert {row[2] for row in first.rows} == {"block.*_residual.gain=0.5", "block.*_residual.gain=1"}
    for _, level, curve, metric, mean, low, high in first.rows:
        row = next(row for row in grid.rows if row[1] == level and f"block.*_residual.gain={row[2]}" == curve)
        arm = next(arm for arm in record.summary.arms if arm.name == row[0])
        assert (metric, mean) == ("eval_loss", pytest.approx(arm.levels["eval_loss"].mean))
        expected = stats.t.interval(0.95, 4, loc=mean, scale=arm.levels["eval_loss"].sd / np.sqrt(5))
        assert (low, high) == (pytest.approx(expected[0]), pytest.approx(expected[1]))
    assert list(pareto.interaction_plots(record, factors, "")) == []
    drawn = svg_of(first)
    assert drawn.startswith("<svg") and "1e-06" in drawn


@pytest.mark.fast
def test_curves_are_told_apart_by_two_edits_and_are_means_over_the_others():
    plan = designed(DEPTHS, seeds=4)
    (finals,) = sweeps(plan, 1, rng=4)
    record, factors = page_record(plan, judge(plan, rules(), finals)), factors_of(plan)
    (plot,) = doses.plots(record, factors, "")
    assert len(plot.rows) == 4 * 3 and "A point is the mean of all runs" in plot.caption
    a, b, _ = factors.edits
    assert {row[2] for row in plot.rows} == {f"without {a} and {b}", a, b, f"{a} and {b}"}
    assert len(list(pareto.interaction_plots(record, factors, ""))) == 1


def test_screens_say_what_trends_and_levels_are():
    for design, said in (
        (SWEEP, "recipe.optimizer.adamw.eps: trend: the change from 1e-08 to 0.0001, by the least-squares line"),
        (KINDS, "model.head=…: that level against untied"),
    ):
        plan = designed(design, seeds=4)
        (finals,) = sweeps(plan, 1, rng=4)
        shown = render(result_screen(judge(plan, rules(), finals), {}), 300)
        assert said in shown
        assert ("Factors, each averaged over the levels of the others" in shown) == (design == SWEEP)
    plain = designed("factorial", seeds=4)
    (finals,) = sweeps(plain, 1, rng=4)
    shown = render(result_screen(judge(plain, rules(), finals), {}), 300)
    assert "trend" not in shown and "Edits, each averaged over runs with and without the other edits" in shown


@pytest.mark.fast
def test_a_curvature_is_told_as_the_ends_against_the_middle():
    plan = designed("{factorial: {from: pre_ln, vary: {recipe.clip: [1, 2, 3]}}}", seeds=6)
    levels = dict(factors_of(plan).runs)
    shifts = [0.0 if v.id not in levels else 0.3 * (levels[v.id][0] - 1) ** 2 for v in plan.variants]
    (finals,) = sweeps(plan, 1, rng=4, shifts=shifts)
    effect = effects(judge(plan, rules(), finals))["recipe.clip: curvature"]
    assert effect.estimate == pytest.approx(0.3, abs=0.05) and effect.verdict == "worse"
    said = phrase(effect, judge(plan, rules(), finals).metrics[0])
    assert said.startswith("eval loss at the ends of the range lies above its middle by 0.") and said.endswith(
        "(worse)"
    )
