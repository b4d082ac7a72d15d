"""Factorials and weighted sums through the judge: the numbers against statsmodels and scipy, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from designed_worlds import FREE, designed, ends, rules, sweeps
from scipy import stats
from statsmodels.formula.api import ols
from test_report_tables import render

from ablate.plan.plan import Alias, Plan
from ablate.report.summary import Effect, Summary
from ablate.report.tables import plan_table
from ablate.report.verdicts import judge
from ablate.space.documents import Judge, Judged

MARGIN = Judged(margin=0.02, scale="linear", better="lower")
RATIO = Judged(margin="5%", scale="log", better="lower")


def table(plan: Plan, finals: dict, *, log: bool = False) -> pd.DataFrame:
    """A row for each result: the levels of the edits as a, b, …, the seed, and y on the scale of the metric."""
    ((_, factors),) = plan.factors
    levels = dict(factors.runs)
    rows = []
    for trial in plan.trials:
        end = finals.get(trial.id)
        if end is not None and end["status"] == "finished":
            y = end["metrics"]["eval_loss"]
            row = dict(zip("abcdefgh", levels[trial.variant], strict=False))
            rows.append(row | {"seed": trial.seed, "run": trial.variant, "y": np.log(y) if log else y})
    return pd.DataFrame(rows)


def effects(summary: Summary) -> list[Effect]:
    return [effect for effect in summary.effects if effect.kind in ("main", "interaction")]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("lost", [0, 3])
def test_effects_and_their_analysis_are_those_of_least_squares_with_seeds_as_blocks(log, lost):
    plan = designed("factorial", seeds=4)
    random = np.random.default_rng(lost)
    values = 2.3 + random.normal(0, 0.02, (8, 4)) + random.normal(0, 0.05, 4)
    finals = ends(plan, {"eval_loss": values})
    for trial in random.permutation([trial.id for trial in plan.trials])[:lost]:
        finals[trial] = {"status": "diverged", "step": 3, "metrics": {}}
    summary = judge(plan, rules(judged=RATIO if log else MARGIN), finals)
    data = table(plan, finals, log=log)
    fit = ols("y ~ a + b + c + a:b + a:c + b:c + C(seed)", data).fit()
    error = ols("y ~ C(run) + C(seed)", data).fit()
    names = ["a", "b", "c", "a:b", "a:c", "b:c"]
    margin = summary.metrics[0].margin
    for effect, name in zip(effects(summary), names, strict=True):
        times = 2 if ":" not in name else 4
        se = times * np.sqrt(fit.normalized_cov_params.loc[name, name] * error.mse_resid)
        t = stats.t(error.df_resid)
        assert effect.estimate == pytest.approx(times * fit.params[name])
        assert (effect.df, effect.method, effect.n) == (error.df_resid, "pooled", 4)
        assert effect.low == pytest.approx(effect.estimate - t.ppf(0.975) * se)
        assert effect.p == pytest.approx(2 * t.sf(abs(effect.estimate) / se))
        assert effect.p_equivalent == pytest.approx(t.cdf((abs(effect.estimate) - margin) / se))
    anova = {line.term: line for line in summary.anova}
    expected = sm.stats.anova_lm(fit, typ=3)
    for effect, name in zip(effects(summary), names, strict=True):
        assert anova[effect.change].sum_of_squares == pytest.approx(expected.loc[name, "sum_sq"])
    assert anova["seed"].sum_of_squares == pytest.approx(expected.loc["C(seed)", "sum_sq"])
    assert anova["error"].sum_of_squares == pytest.approx(error.ssr)
    assert anova["lack of fit"].sum_of_squares == pytest.approx(fit.ssr - error.ssr)
    assert anova["lack of fit"].df == fit.df_resid - error.df_resid


def test_a_sum_over_variants_is_one_sample_of_seeds():
    plan = designed("{add_one_in: {from: pre_ln, to: op}}", seeds=5)
    (finals,) = sweeps(plan, 1, rng=4)
    effect = next(e for e in judge(plan, rules(judged=MARGIN), finals).effects if e.kind == "interaction")
    weights = dict(next(c for c in plan.comparisons if c.kind == "interaction").weights)
    sums = np.zeros(5)
    for trial in plan.trials:
        sums[trial.seed] += weights.get(trial.variant, 0.0) * finals[trial.id]["metrics"]["eval_loss"]
    expected = stats.ttest_1samp(sums, 0)
    assert (effect.estimate, effect.p, effect.n) == (pytest.approx(sums.mean()), pytest.approx(expected.pvalue), 5)
    assert (effect.before, effect.after, effect.df) == ("", "", 4)


def test_a_seed_that_lacks_a_variant_is_left_out_of_a_sum_and_named():
    plan = designed("{add_one_in: {from: pre_ln, to: op}}", seeds=5)
    (finals,) = sweeps(plan, 1, rng=4)
    lost = next(trial for trial in plan.trials if trial.seed == 2 and plan.variant(trial.variant).name == "op")
    finals[lost.id] = {"status": "diverged", "step": 3, "metrics": {}}
    effect = next(e for e in judge(plan, rules(), finals).effects if e.kind == "interaction")
    assert effect.n == 4
    assert "seed 2 left out: diverged for op" in effect.note and "survivors" in effect.note


def test_cells_of_other_versions_than_the_rest_of_their_seed_are_left_out():
    plan = designed("factorial", seeds=3)
    (finals,) = sweeps(plan, 1, rng=4)
    whole = effects(judge(plan, rules(), {id: {**end, "versions": "old"} for id, end in finals.items()}))
    # All of a seed under other versions are blocked with it; one alone is no part of its block.
    block = {t.id: {**finals[t.id], "versions": "new" if t.seed == 1 else "old"} for t in plan.trials}
    assert [e.estimate for e in effects(judge(plan, rules(), block))] == [e.estimate for e in whole]
    odd = block | {plan.trials[0].id: {**finals[plan.trials[0].id], "versions": "new"}}
    found = effects(judge(plan, rules(), odd))
    assert found[0].df == whole[0].df - 1
    assert "1 of 24 results left out (run with other versions or on another device): pre_ln at seed 0" in found[0].note


def test_a_variant_in_several_runs_is_one_run():
    """The same numbers twice would pass for independent ones."""
    plan = designed("factorial", seeds=3)
    ((terms, factors),) = plan.factors
    doubled = replace(factors, runs=(*factors.runs, (factors.runs[0][0], tuple(-x for x in factors.runs[0][1]))))
    (finals,) = sweeps(plan, 1, rng=4)
    once = effects(judge(plan, rules(), finals))
    twice = effects(judge(replace(plan, factors=((terms, doubled),)), rules(), finals))
    assert [(e.estimate, e.df) for e in once] == [(e.estimate, e.df) for e in twice]


def test_an_effect_that_no_factorial_of_the_plan_estimates_is_a_mistake():
    plan = designed("factorial", seeds=2)
    ((terms, factors),) = plan.factors
    fewer = replace(plan, factors=((terms, replace(factors, effects=factors.effects[:-1])),))
    with pytest.raises(ValueError, match="is no effect of this plan's factorial"):
        judge(fewer, rules(), {})


def test_an_active_alias_is_in_the_estimate_as_often_as_the_table_says():
    """What the screen says is mixed with an effect is what its estimate is off by."""
    plan = designed("{plackett_burman: {from: pre_ln, to: op, split: true}}", seeds=3)
    ((_, factors),) = plan.factors
    alias = next(one for one in factors.aliases if len(one.term) == 1 and len(one.other) == 2)
    places = [factors.edits.index(edit) for edit in alias.other]
    levels = dict(factors.runs)
    active = [0.08 / 4 * np.prod([levels[v.id][i] for i in places]) if v.id in levels else 0.0 for v in plan.variants]
    values = 2.3 + np.array(active)[:, None] + np.random.default_rng(0).normal(0, 1e-6, (len(active), 3))
    summary = judge(plan, rules(), ends(plan, {"eval_loss": values}))
    found = {effect.change: effect.estimate for effect in effects(summary)}
    assert found[alias.term[0]] == pytest.approx(alias.times * 0.08, abs=1e-5)
    shown = render(plan_table(plan, ()), 2000)
    rows = [line for line in shown.splitlines() if line.startswith(f"{alias.term[0]} ")]
    assert any(f"{alias.times:.3g} times {' × '.join(alias.other)}" in row for row in rows)


def test_many_aliases_are_counted_not_cut_off():
    plan = designed("factorial", seeds=2)
    ((terms, factors),) = plan.factors
    a, b, c = factors.edits
    others = [(f"x{i}", f"y{i}") for i in range(11)]
    made = replace(
        factors,
        resolution="III",
        aliases=(*(Alias(term=(a,), other=o, times=-0.5) for o in others), Alias(term=(b,), other=(a, c), times=1.0)),
    )
    shown = render(plan_table(replace(plan, factors=((terms, made),)), ()), 300)
    assert "Aliases, resolution III" in shown
    assert "-0.5 times x7 × y7, and 3 more" in shown
    assert any(line.split() == f"{b} {a} × {c}".split() for line in shown.splitlines())


def test_the_front_is_of_all_metrics_by_means():
    plan = designed("{compare: [pre_ln, op, sas, sas_p]}", seeds=2)
    loss = np.array([[2.3], [2.2], [2.4], [2.35]]) + np.zeros((4, 2))
    rate = np.array([[0.5], [0.4], [0.6], [0.3]]) + np.zeros((4, 2))  # higher is better
    higher = Judged(margin="none", scale="linear", better="higher")
    ruled = Judge(metrics={"eval_loss": FREE, "token_correlation": higher}, against="pre_ln", confidence=0.95)
    summary = judge(plan, ruled, ends(plan, {"eval_loss": loss, "token_correlation": rate}))
    assert [summary.arm(id).name for id in summary.front] == ["pre_ln", "op", "sas"]
    assert judge(plan, rules(), ends(plan, {"eval_loss": loss})).front == ()
