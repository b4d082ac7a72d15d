"""What the plan says before anything is trained: the noise floor, what can be seen above it, aliases, looks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from designed_fixtures import designed
from report_fixtures import path
from scipy import stats
from test_report_tables import render

from ablate.report.comparisons import unequal_lines
from ablate.report.json_form import plan_to_json
from ablate.report.screens.plan import plan_screen
from ablate.report.screens.result import result_screen
from ablate.space.judge import Judge, Judged
from ablate.statistics import Floor
from ablate.verdict.fairness_audit import Unequal, UnequalQuantity
from ablate.verdict.judge import judge

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
    return " ".join(render(plan_screen(plan, (), rules=ruled, floors=floors, means=means), 100).split())


def test_without_a_floor_it_says_how_to_get_one():
    text = lines(path("a", "b"), judging())
    assert "no noise floor yet for eval loss, peak kurtosis with this recipe, scale and corpus" in text
    assert "add noise: {seeds: 6}, which trains pre_ln again with another initialisation" in text
    assert "80 % of the time" not in text  # nothing is promised


def test_without_rules_nothing_is_said_of_noise():
    assert "noise" not in render(plan_screen(path("a"), ()), 100)


def test_the_floor_has_its_interval_and_says_whose_it_is():
    low, high = (SD * np.sqrt(5 / stats.chi2.ppf(q, 5)) for q in (0.975, 0.025))
    text = lines(path("a", "b", seeds=5), judging(), FLOOR)
    assert f"noise floor of eval loss (A/A, pre_ln): the differences have sd 0.00210 [{low:.5f}, {high:.5f}]" in text
    assert "n = 6 pairs" in text
    assert "no noise floor yet for peak kurtosis" in text  # the other one is still missing


@pytest.mark.parametrize(("family", "tests"), [("metric", 3), ("page", 6)])
def test_what_can_be_seen_is_at_the_level_of_the_verdict(family, tests):
    """The smallest difference found 80 % of the time by a paired t-test at α/m, here from scipy's noncentral t."""
    text = lines(path("a", "b", seeds=5), judging(family=family), FLOOR)
    level, ratios = 0.04 / tests, np.linspace(0.5, 8, 7501)
    critical = stats.t.ppf(1 - level / 2, 4)
    at = ratios[np.searchsorted(stats.nct.sf(critical, 4, ratios * np.sqrt(5)), 0.8)]
    low, high = (np.sqrt(5 / stats.chi2.ppf(q, 5)) for q in (0.975, 0.025))
    found = text.split("5 seeds detect a difference of ")[1].split(" with 80 % power")[0]
    numbers = [float(word.strip("[],")) for word in found.split()]
    assert numbers == pytest.approx([at * SD, at * SD * low, at * SD * high], rel=4e-3)
    assert f"at level {level:.2g} over {tests} comparisons" in text


def test_ratios_are_factors():
    text = lines(path("a", seeds=5), judging(), PEAK)
    assert "the log ratios have sd 0.0400" in text
    assert "5 seeds detect a difference of a factor 1.0" in text
    assert "half the margin of a factor 1.05 takes" in text


def test_the_seeds_for_a_margin_are_from_the_upper_limit_of_the_sd():
    text = lines(path("a", seeds=5), judging(margin=0.002), FLOOR)
    upper = SD * np.sqrt(5 / stats.chi2.ppf(0.2, 5))
    half = [stats.t.ppf(0.96, n - 1) * upper / np.sqrt(n) for n in range(2, 100)]
    needed = 2 + next(i for i, width in enumerate(half) if width <= 0.001)
    assert (
        f"to narrow the interval to half the margin of 0.00200 takes {needed} seeds, planned from the upper 80 % "
        "confidence limit of the sd" in text
    )


def test_a_margin_that_is_a_share_waits_for_a_mean():
    plan = path("a", seeds=5)
    assert "a margin of 1% has no value until the baseline has a mean" in lines(plan, judging(margin="1%"), FLOOR)
    text = lines(plan, judging(margin="1%"), FLOOR, means={"eval_loss": 2.0})
    assert "half the margin of 0.0200 takes 3 seeds" in text
    assert "half the margin" not in lines(plan, judging(margin="none"), FLOOR)


def test_more_seeds_than_any_plan_has_are_not_promised():
    assert "takes more than 1000 seeds" in lines(path("a", seeds=5), judging(margin=1e-6), FLOOR)


def test_one_seed_sees_nothing():
    text = lines(path("a", seeds=1), judging(), FLOOR)
    assert "one seed has no spread to judge by, so nothing can be detected" in text


@pytest.mark.parametrize(("seeds", "said"), [(4, "4 seeds find nothing"), (8, "8 seeds find any difference")])
def test_without_spread_it_is_what_the_sign_test_sees(seeds, said):
    flat = Floor(metric="eval_loss", scale="linear", n=6, sd=0.0, whose="pre_ln")
    text = lines(path("a", "b", seeds=seeds), judging(margin=0.002), flat)
    assert f"A/A arms do not vary, so the sign test decides: {said} at level 0.013, which needs 8" in text
    assert "detect a difference of" not in text and "narrow the interval" not in text
    assert "to find equivalence within 0.00200 by the sign test takes 7 seeds" in text  # 2^-7 < 0.04/3 < 2^-6


def test_with_looks_it_is_what_the_last_would_see():
    plan = replace(path("a", seeds=4), looks=(4, 6, 9))
    assert "9 seeds detect a difference of" in lines(plan, judging(), FLOOR)
    assert "if only the last analysis were made" in lines(plan, judging(), FLOOR)


def test_a_plan_that_learns_says_that_more_may_follow():
    plan = replace(path("a", seeds=4), open=True)
    text = render(plan_screen(plan, ()), 100)
    assert "8 trials over 4 seeds: 8 to run for now" in text and "search" not in text
    everything = {trial.id for trial in plan.trials}
    assert "all known already, nothing to run for now" in render(plan_screen(plan, everything), 100)


def test_the_table_of_aliases_says_it_once():
    plan = designed("d_optimal", seeds=1)
    assert any(note.startswith("aliases in the estimates") for note in plan.notes)
    text = render(plan_screen(plan, ()), 200)
    assert "Aliases, confounded effects" in text and "aliases in the estimates" not in text
    assert all(note[:60] in text for note in plan.notes if not note.startswith("aliases in the estimates"))


def test_of_many_edits_what_is_left_out_is_said():
    plan = designed("{leave_one_out: {from: pre_ln, to: op, split: true}}", seeds=1)
    whole = max(plan.variants, key=lambda variant: len(variant.edits))
    assert len(whole.edits) > 3
    text = render(plan_screen(plan, ()), 200)
    for edit in whole.edits:
        assert f"all of {whole.name} except {edit}" in text
        assert text.count(edit) == 3  # of the whole, in a name, and as what that one leaves out
    few = designed("{leave_one_out: {from: pre_ln, to: op}}", seeds=1)
    assert max(len(variant.edits) for variant in few.variants) <= 3
    assert "all of" not in render(plan_screen(few, ()), 200)


def test_where_no_edits_are_applied_there_is_no_column_of_them():
    plan = path("a", seeds=1)
    assert "edits applied" in render(plan_screen(plan, ()), 200)
    whole = replace(plan, variants=tuple(replace(variant, edits=()) for variant in plan.variants))
    text = render(plan_screen(whole, ()), 200)
    assert "edits applied" not in text and "none" not in text and all(v.name in text for v in plan.variants)


def test_what_the_grammar_sets_is_a_note_and_no_warning():
    plan = replace(path("a", seeds=1), notes=("model: head untied: not set", "margin: 1 of eval_loss is wide"))
    text = render(plan_screen(plan, ()), 200)
    assert "· model: head untied" in text and "! margin: 1 of" in text and "! model" not in text


def test_a_plan_without_aliases_has_no_table_of_them():
    assert "Aliases" not in render(plan_screen(designed("factorial"), ()), 100)


def test_what_was_declared_equal_and_what_was_not_is_said():
    rows = (
        UnequalQuantity(variant="v1", name="op, wide", quantity="parameters", baseline="1,000", here="1,009",
            share=0.009, declared=True),
        UnequalQuantity(variant="v1", name="op, wide", quantity="width", baseline="128", here="136", share=0.0625,
            declared=False),
        UnequalQuantity(variant="v2", name="sas", quantity="hidden width", baseline="512", here="512, 64", share=None,
            declared=False),
    )  # fmt: skip
    found = Unequal(terms="wide", declared="equal steps, parameters within 1 %", rows=rows, equal="the same: steps")
    summary = judge(path("a"), judging(), {})
    text = " ".join(render(result_screen(summary, unequal=(found,)), 100).split())
    assert "declared equal steps" not in text and "the same: steps" not in text  # what was equal is on the page
    said = "op, wide differs in parameters: +0.9 %, as close as possible; width: 136 against 128"
    assert f"≠ {said}" in text
    assert "≠ sas differs in hidden width: 512, 64 against 512" in text
    near = replace(found, rows=(replace(rows[0], within=0.01), *rows[1:]))
    text = " ".join(render(result_screen(summary, unequal=(near,)), 100).split())
    assert "parameters: +0.9 %, within the 1 % declared" in text and "as near" not in text
    assert "≠" not in render(result_screen(summary), 100)


def test_a_variant_under_several_terms_has_one_line_of_what_is_not_equal():
    row = UnequalQuantity(
        variant="v1", name="op", quantity="training FLOPs", baseline="100", here="90", share=-0.1, declared=False
    )
    steps = Unequal(terms="steps", declared="equal steps", rows=(row,), equal="")
    flops = Unequal(terms="flops", declared="equal FLOPs", rows=(replace(row, declared=True),), equal="")
    (line,) = unequal_lines((steps, flops))
    assert line == "op under steps and flops differs in training FLOPs: -10 %, as close as possible"
    other = replace(flops, rows=(replace(row, variant="v2", name="op, flops"),))
    assert [line.split(" differs")[0] for line in unequal_lines((steps, other))] == ["op under steps", "op, flops"]


@pytest.mark.parametrize(("salt", "search"), [(0, False), (1, False), (0, True)])
def test_how_to_get_a_floor_is_said_where_nothing_gives_one(salt, search):
    plan = path("a", seeds=3)
    if salt:
        arm = replace(plan.variants[0], id="aa", setting=replace(plan.variants[0].setting, salt=1))
        trials = [replace(t, variant="aa", salt=1) for t in plan.trials if t.variant == "v0"]
        plan = replace(plan, variants=(*plan.variants, arm), trials=(*plan.trials, *trials))
    text = lines(replace(plan, design="search from pre_ln") if search else plan, judging())
    assert ("add noise: {seeds: 6}, which trains" in text) == (not salt and not search)
    assert ("its A/A arm (3 pairs) will give one" in text) == bool(salt)
    assert ("no noise floor" in text) == (not search)


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
