"""Claims of several comparisons and of a correlation: what became of them, against computations made here."""

import json
from dataclasses import replace

import numpy as np
import pytest
from claim_worlds import Ran, carry_out, claim, correlation, equivalent, order
from designed_fixtures import designed, ends
from scipy import stats

from ablate.plan.plan import FORECAST_DEFINITIONS, Forecast
from ablate.report.effect_tables import to_markdown
from ablate.report.json_form import to_json
from ablate.session.judging import verdict_document
from ablate.space.judge import FORECAST_NUMBERS, Expected, Judge, Judged
from ablate.store.query import query
from ablate.verdict.claims import spearman
from ablate.verdict.judge import judge

pytestmark = pytest.mark.fast

SEEDS = 6
LOSS = Judged(margin=0.05, scale="linear", better="lower")


def summary_of(*claims, loss, kurtosis=None, better="lower", seeds=SEEDS):
    """A comparison of pre_ln, op, sas and sas_p, by values [variant, seed]."""
    plan = designed("compare", seeds=seeds)
    metrics = {"eval_loss": LOSS.model_copy(update={"better": better})}
    rules = Judge(metrics=metrics, against="pre_ln", confidence=0.95, expect=claims)
    values = {"eval_loss": loss} | ({} if kurtosis is None else {"peak_kurtosis": kurtosis})
    return judge(plan, rules, ends(plan, values))


def stated(**form):
    return Expected(claim="it is so", metric="eval_loss", **form)


def levels(*means, sd=0.01):
    random = np.random.default_rng(5)
    return np.array(means)[:, None] + random.normal(size=(len(means), SEEDS)) * sd


def outcomes(summary):
    return [expectation.outcome for expectation in summary.expectations]


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_an_order_is_one_of_values_whichever_way_is_better(better):
    loss = levels(3.0, 2.5, 3.5, 3.0)
    claims = [stated(order=text) for text in ("op < pre_ln < sas", "sas < pre_ln < op", "op < pre_ln", "pre_ln < op")]
    seen = summary_of(*claims, loss=loss, better=better)
    assert outcomes(seen) == ["as expected", "not as expected", "as expected", "not as expected"]


def test_a_step_that_is_equivalent_is_no_order_and_one_undecided_leaves_it_open():
    noisy = levels(3.0, 2.5, 3.001, 3.0)
    noisy[3] = 3.0 + np.array([0.5, -0.5, 0.4, -0.4, 0.1, 0.1])
    claims = [
        stated(order="op < pre_ln < sas"),
        stated(order="op < pre_ln < sas_p"),
        stated(order="pre_ln < op < pre_ln"),
    ]
    assert outcomes(summary_of(*claims[:2], loss=noisy)) == ["not as expected", "undecided"]


def test_equivalents_are_all_that_the_design_compares_of_them():
    loss = levels(3.0, 3.001, 3.002, 2.5)
    claims = [stated(equivalent=names) for names in (("pre_ln", "op", "sas"), ("op", "sas_p", "pre_ln"))]
    seen = summary_of(*claims, loss=loss)
    assert outcomes(seen) == ["as expected", "not as expected"]
    assert [len(expectation.steps) for expectation in seen.expectations] == [2, 2]
    assert seen.tests == 3, "the claims have added no comparison"


def test_a_correlation_is_tested_over_seeds_not_over_rows():
    random = np.random.default_rng(9)
    loss = random.normal(size=(4, SEEDS)) + 9
    kurtosis = loss + 0.4 * random.normal(size=loss.shape)
    (seen,) = summary_of(
        stated(correlation="peak_kurtosis", verdict="positive"), loss=loss, kurtosis=kurtosis
    ).expectations
    each = [stats.spearmanr(kurtosis[:, seed], loss[:, seed]).statistic for seed in range(SEEDS)]
    test = stats.ttest_1samp(each, 0.0)
    bounds = test.confidence_interval(0.96)  # the level of a first judgement is 0.8 of 0.05
    told = seen.correlation
    assert told.over_seeds == pytest.approx(each)
    assert (told.n, told.rows) == (SEEDS, 4)
    assert told.p == pytest.approx(test.pvalue)
    assert (told.low, told.high) == pytest.approx((bounds.low, min(1.0, bounds.high)))
    assert seen.outcome == ("as expected" if test.pvalue < 0.04 else "undecided")
    over_all = stats.spearmanr(kurtosis.ravel(), loss.ravel())
    assert over_all.pvalue < told.p / 3, "all runs at once would pass as more certain"


def test_without_a_correlation_none_is_found_and_the_other_sign_contradicts():
    random = np.random.default_rng(2)
    loss, other = random.normal(size=(2, 4, SEEDS)) + 9
    positive = stated(correlation="peak_kurtosis", verdict="positive")
    assert outcomes(summary_of(positive, loss=loss, kurtosis=other)) == ["undecided"]
    falls = -loss + 20 + 0.05 * other
    both = [positive, stated(correlation="peak_kurtosis", verdict="negative")]
    assert outcomes(summary_of(*both, loss=loss, kurtosis=falls)) == ["not as expected", "as expected"]


def test_a_forecast_is_one_number_for_all_seeds():
    loss = levels(3.0, 2.5, 3.5, 4.0, sd=0.4)
    plan = designed("compare", seeds=SEEDS)
    cosines = dict(zip([v.id for v in plan.variants], (0.3, 0.2, 0.4, 0.1), strict=True))
    forecasts = tuple((id, Forecast(cosine=cosine)) for id, cosine in cosines.items())
    claims = (stated(correlation="forecast.cosine", verdict="positive"),)
    rules = Judge(metrics={"eval_loss": LOSS}, against="pre_ln", confidence=0.95, expect=claims)
    (seen,) = judge(replace(plan, forecasts=forecasts), rules, ends(plan, {"eval_loss": loss})).expectations
    each = [stats.spearmanr(list(cosines.values()), loss[:, seed]).statistic for seed in range(SEEDS)]
    assert seen.correlation.over_seeds == pytest.approx(each)
    refused = ((forecasts[0][0], Forecast(refused="it is not known")), *forecasts[1:])
    (less,) = judge(replace(plan, forecasts=refused), rules, ends(plan, {"eval_loss": loss})).expectations
    assert (less.correlation.rows, less.correlation.note) == (3, "6 seeds of 6 without all 4 variants")
    (none,) = judge(plan, rules, ends(plan, {"eval_loss": loss})).expectations
    assert (none.correlation.mean, none.outcome) == (None, "undecided")


def test_the_numbers_of_a_forecast_are_those_that_it_has():
    assert tuple(FORECAST_DEFINITIONS) == FORECAST_NUMBERS


def test_several_correlations_are_a_family():
    random = np.random.default_rng(4)
    loss = random.normal(size=(4, SEEDS)) + 9
    kurtosis = loss + 0.5 * random.normal(size=loss.shape)
    alone = stated(correlation="peak_kurtosis", verdict="positive")
    (one,) = summary_of(alone, loss=loss, kurtosis=kurtosis).expectations
    two = summary_of(alone, alone.model_copy(update={"claim": "again"}), loss=loss, kurtosis=kurtosis).expectations
    assert one.correlation.p_adjusted == one.correlation.p
    assert [each.correlation.p_adjusted for each in two] == pytest.approx([min(1.0, 2 * one.correlation.p)] * 2)


def test_a_variant_without_a_value_is_told_and_left_out():
    loss = levels(3.0, 2.5, 3.5, 4.0)
    kurtosis = loss.copy()
    kurtosis[3, 2] = np.nan
    (seen,) = summary_of(
        stated(correlation="peak_kurtosis", verdict="positive"), loss=loss, kurtosis=kurtosis
    ).expectations
    assert seen.correlation.note == "1 seed of 6 without all 4 variants"


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_spearmans_also_with_ties(seed):
    x, y = np.random.default_rng(seed).integers(0, 4, size=(2, 9)).astype(float)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_json_sql_and_the_page_have_every_form(tmp_path, monkeypatch):
    claims = [claim(), order(), equivalent("base", "hot"), correlation()]
    summary = carry_out(tmp_path, [Ran(day=1, claims=claims, seeds=5)], monkeypatch)
    rows = query(
        tmp_path, "SELECT about, expected, verdict, outcome, correlation, stamped FROM claims ORDER BY position"
    ).rows
    assert [row[0] for row in rows] == ["hot", "hot < base < cold", "base, hot", "with peak_kurtosis"]
    assert [row[3] for row in rows] == outcomes(summary)
    assert rows[1][1:3] == (["better", "worse"], "better, worse")
    assert rows[3][4] == pytest.approx(summary.expectations[3].correlation.mean)
    assert {row[5] for row in rows} == {"before results"}
    entries = json.loads(to_json(summary))["expectations"]
    assert [len(entry["steps"]) for entry in entries] == [1, 2, 1, 0]
    assert entries[3]["correlation"]["sign"] == summary.expectations[3].correlation.sign
    page = to_markdown(summary, {})
    assert all(f"| {each['claim']} |" in page for each in claims)
    plain = replace(summary, expectations=summary.expectations[:3])
    assert "correlations" in verdict_document(summary, Ran(day=1).plan)
    assert "correlations" not in verdict_document(plain, Ran(day=1).plan)
