"""What the plan says before anything is trained: the noise floor, what can be seen above it, aliases, looks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from designed_worlds import designed
from report_worlds import path
from scipy import stats
from test_report_tables import render

from ablate.report.json_form import plan_to_json
from ablate.report.tables import ResultScreen, plan_table
from ablate.report.unequal import Row, Unequal
from ablate.report.verdicts import judge
from ablate.space.documents import Judge, Judged
from ablate.statistics import Floor

pytestmark = pytest.mark.fast

SD = 0.0021
FLOOR = Floor(metric="eval_loss", scale="linear", n=6, sd=SD, whose="pre_ln")
PEAK = Floor(metric="peak_kurtosis", scale="log", n=6, sd=0.04, whose="pre_ln")


def judging(margin: str | float = 0.01, peak: str | float = "5%", family: str = "metric") -> Judge:
    metrics = {
        "eval_loss": Judged(margin=margin, scale="linear", better="lower"),
        "peak_kurtosis": Judged(margin=peak, scale="log", better="lower"),
    }
    return Judge(metrics=metrics, against="pre_ln", confidence=0.95, family=family)  # type: ignore[arg-type]


def lines(plan, ruled: Judge, *floors: Floor, means=None) -> str:
    return " ".join(render(plan_table(plan, (), rules=ruled, floors=floors, means=means), 100).split())


def test_without_a_floor_it_says_how_to_get_one():
    text = lines(path("a", "b"), judging())
    assert "no noise floor yet of eval loss, peak kurtosis for this recipe, scale and corpus" in text
    assert "noise: {seeds: 6} trains pre_ln again with another initialisation" in text
    assert "80 % of the time" not in text  # nothing is promised


def test_without_rules_nothing_is_said_of_noise():
    assert "noise" not in render(plan_table(path("a"), ()), 100)


def test_the_floor_has_its_interval_and_says_whose_it_is():
    low, high = (SD * np.sqrt(5 / stats.chi2.ppf(q, 5)) for q in (0.975, 0.025))
    text = lines(path("a", "b", seeds=5), judging(), FLOOR)
    assert f"noise floor of eval loss (A/A, pre_ln): the differences have sd 0.00210 [{low:.5f}, {high:.5f}]" in text
    assert "n = 6 pairs" in text
    assert "no noise floor yet of peak kurtosis" in text  # the other one is still missing


@pytest.mark.parametrize(("family", "tests"), [("metric", 3), ("page", 6)])
def test_what_can_be_seen_is_at_the_level_of_the_verdict(family, tests):
    """The smallest difference found 80 % of the time by a paired t-test at α/m, here from scipy's noncentral t."""
    text = lines(path("a", "b", seeds=5), judging(family=family), FLOOR)
    level, ratios = 0.05 / tests, np.linspace(0.5, 8, 7501)
    critical = stats.t.ppf(1 - level / 2, 4)
    at = ratios[np.searchsorted(stats.nct.sf(critical, 4, ratios * np.sqrt(5)), 0.8)]
    low, high = (np.sqrt(5 / stats.chi2.ppf(q, 5)) for q in (0.975, 0.025))
    found = text.split("5 seeds find a difference of ")[1].split(" 80 % of the time")[0]
    numbers = [float(word.strip("[],")) for word in found.split()]
    assert numbers == pytest.approx([at * SD, at * SD * low, at * SD * high], rel=3e-3)
    assert f"at level {level:.2g} over {tests} comparisons" in text


def test_ratios_are_factors():
    text = lines(path("a", seeds=5), judging(), PEAK)
    assert "the log ratios have sd 0.0400" in text
    assert "5 seeds find a difference of a factor 1.0" in text
    assert "half the margin (a factor 1.05) takes" in text


def test_the_seeds_for_a_margin_are_from_the_upper_limit_of_the_sd():
    text = lines(path("a", seeds=5), judging(margin=0.002), FLOOR)
    upper = SD * np.sqrt(5 / stats.chi2.ppf(0.2, 5))
    half = [stats.t.ppf(0.95, n - 1) * upper / np.sqrt(n) for n in range(2, 100)]
    needed = 2 + next(i for i, width in enumerate(half) if width <= 0.001)
    assert (
        f"a half-width of half the margin (0.00200) takes {needed} seeds, from the 80 % upper limit of the sd" in text
    )


def test_a_margin_that_is_a_share_waits_for_a_mean():
    plan = path("a", seeds=5)
    assert "a margin of 1% is no number before the baseline has a mean" in lines(plan, judging(margin="1%"), FLOOR)
    text = lines(plan, judging(margin="1%"), FLOOR, means={"eval_loss": 2.0})
    assert "half the margin (0.0200) takes 3 seeds" in text
    assert "half the margin" not in lines(plan, judging(margin="none"), FLOOR)


def test_more_seeds_than_any_plan_has_are_not_promised():
    assert "takes more than 1000 seeds" in lines(path("a", seeds=5), judging(margin=1e-6), FLOOR)


def test_one_seed_sees_nothing():
    text = lines(path("a", seeds=1), judging(), FLOOR)
    assert "one seed has no spread to judge by, so nothing can be seen" in text


def test_with_looks_it_is_what_the_last_would_see():
    plan = replace(path("a", seeds=4), looks=(4, 6, 9))
    assert "9 seeds find a difference of" in lines(plan, judging(), FLOOR)
    assert "were it looked only at the last" in lines(plan, judging(), FLOOR)


def test_a_plan_that_learns_says_that_more_may_follow():
    plan = replace(path("a", seeds=4), open=True)
    text = render(plan_table(plan, ()), 100)
    assert "8 trials over 4 seeds: 8 to run for now" in text and "search" not in text
    everything = {trial.id for trial in plan.trials}
    assert "all known already, nothing to run for now" in render(plan_table(plan, everything), 100)


def test_a_plan_without_aliases_has_no_table_of_them():
    assert "Aliases" not in render(plan_table(designed("factorial"), ()), 100)


def test_what_was_declared_equal_and_what_was_not_is_said():
    rows = (
        Row(variant="v1", name="op, wide", quantity="parameters", baseline="1,000", here="1,009", share=0.009,
            declared=True),
        Row(variant="v1", name="op, wide", quantity="width", baseline="128", here="136", share=0.0625, declared=False),
        Row(variant="v2", name="sas", quantity="hidden width", baseline="512", here="512, 64", share=None,
            declared=False),
    )  # fmt: skip
    found = Unequal(terms="wide", declared="equal steps, parameters within 1 %", rows=rows, equal="the same: steps")
    summary = judge(path("a"), judging(), {})
    text = " ".join(render(ResultScreen(summary, unequal=(found,)), 100).split())
    assert "≠ wide: declared equal steps, parameters within 1 %; the same: steps" in text
    assert "op, wide is not equal in parameters: 1,009 against 1,000 (+0.9 %), as near as it comes; width: 136" in text
    assert "sas is not equal in hidden width: 512, 64 against 512" in text
    assert "≠" not in render(ResultScreen(summary), 100)


def test_json_has_the_floors_the_factors_and_the_looks():
    plan = replace(designed("factorial"), looks=(4, 6))
    told = json.loads(plan_to_json(plan, (), floors=(FLOOR,)))
    assert told["looks"] == [4, 6] and told["open"] is False
    (floor,) = told["floors"]
    assert (floor["metric"], floor["n"], floor["whose"]) == ("eval_loss", 6, "pre_ln")
    assert floor["sd_low"] < floor["sd"] < floor["sd_high"]
    (factors,) = told["factors"]
    assert len(factors["runs"]) == 8 and factors["terms"] == ""
    assert {one["kind"] for one in told["comparisons"]} == {"main", "interaction", "baseline"}
    assert {one["split"] for one in told["trials"]} == {"verdict"}
