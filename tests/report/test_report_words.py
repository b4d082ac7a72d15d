"""Words that must be true of the numbers beside them: of fronts, survivors, designs, levels, margins, seeds."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import page_fixtures as worlds
import pytest
from designed_fixtures import FREE, designed, ends, rules
from report_fixtures import LOSS, PEAK, finals, losses, path
from report_fixtures import rules as judging
from test_report_tables import render

from ablate import statistics
from ablate.report import footnotes, html_renderer, wording
from ablate.report.document import ReportDocument, TableOf
from ablate.report.html_renderer import CSS
from ablate.report.page import cost, forest
from ablate.report.page.verdicts import verdicts
from ablate.report.plot import svg_of
from ablate.report.screens.result import result_screen
from ablate.space.judge import Judge, Judged
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

pytestmark = pytest.mark.fast


def said(summary: Summary) -> str:
    return " ".join(render(result_screen(summary), 200).split())


def with_peaks(losses: list[float], peaks: list[float]) -> list:
    return [
        "diverged" if math.isnan(loss) else {"eval_loss": loss, "peak_kurtosis": peak}
        for loss, peak in zip(losses, peaks, strict=True)
    ]


def test_who_survives_the_easy_seed_alone_is_not_on_the_front_for_it():
    """Worse at the one seed that it finished, and better than the mean of all five: seeds are compared, not means."""
    hard, nan = [2.30, 2.50, 2.55, 2.60, 2.65], math.nan
    lucky = with_peaks([2.31, nan, nan, nan, nan], [1.1, 9, 9, 9, 9])
    steady = with_peaks(hard, [1.0, 3.0, 3.0, 3.0, 3.0])
    judged = judging(eval_loss=LOSS, peak_kurtosis=PEAK)
    summary = judge(path("a", seeds=5), judged, finals({"v0": steady, "v1": lucky}))
    levels = [arm.levels["eval_loss"].mean for arm in summary.arms]
    assert levels[1] < levels[0] and summary.front == ("v0",)
    better = with_peaks([2.29, nan, nan, nan, nan], [0.9, 9, 9, 9, 9])
    summary = judge(path("a", seeds=5), judged, finals({"v0": steady, "v1": better}))
    assert summary.front == ("v1",)  # at the seed that both have it is better, and that is all that is said
    assert "Pareto front: op (diverged 4 of 5) (no other variant is better" in said(summary)


def test_variants_without_a_seed_in_common_do_not_beat_each_other():
    one = with_peaks([2.3, math.nan], [1.0, 9.0])
    other = with_peaks([math.nan, 2.2], [9.0, 0.5])
    summary = judge(path("a", seeds=2), judging(eval_loss=LOSS, peak_kurtosis=PEAK), finals({"v0": one, "v1": other}))
    assert summary.front == ("v0", "v1")


@pytest.mark.parametrize(("value", "scale"), [(math.nan, "linear"), (math.inf, "linear"), (0.0, "log"), (-1.0, "log")])
def test_seeds_without_a_number_count_against_what_those_with_one_say(value, scale):
    """Two of five seeds finish with a value that says nothing: they might have said the contrary."""
    before = losses(2.30, 2.31, 2.29, 2.30, 2.32)
    after = losses(2.10, 2.11, 2.091, value, value)
    one = Judge(metrics={"eval_loss": Judged(margin="none", scale=scale, better="lower")}, against="pre_ln",
                confidence=0.95)  # fmt: skip
    effect = judge(path("a"), one, finals({"v0": before, "v1": after})).effects[0]
    assert (effect.n, effect.verdict, effect.unusable_before, effect.unusable_after) == (3, "undecided", 0, 2)
    assert effect.survivors and (effect.ranked, wording.pairs(effect)) == (5, "3/5")
    assert "2 seeds with a lost run count against the direction of the others" in effect.note
    assert "seeds 4, 5 not paired: eval_loss is" in effect.note
    whole = judge(path("a"), one, finals({"v0": before, "v1": losses(2.10, 2.11, 2.091, 2.10, 2.119)})).effects[0]
    assert not whole.survivors and wording.verdict(whole) == "better"


def test_what_was_not_measured_is_not_lost():
    """A metric that a finished trial has no value of at all, as before it was measured, is named and counts as none."""
    before = losses(2.30, 2.31, 2.29, 2.30)
    after = [*losses(2.10, 2.11, 2.091), {"other": 1.0}]
    effect = judge(path("a", seeds=4), judging(), finals({"v0": before, "v1": after})).effects[0]
    assert (effect.n, effect.survivors) == (3, False) and "seed 4 not paired: no eval_loss after" in effect.note


@pytest.mark.parametrize(
    ("ended", "verdict"),
    [
        (["diverged", "bug", "bug", "out_of_memory", None], "undecided"),
        (["diverged", None, None, None, None], "undecided"),
        (["diverged", "diverged", None, None, None], "diverged"),
        (["diverged"] * 5, "diverged"),
        (["bug"] * 5, "undecided"),
    ],
)
def test_one_seed_that_diverged_is_not_all_of_them(ended, verdict):
    summary = judge(path("a"), judging(), finals({"v0": losses(2.3, 2.31, 2.3, 2.29, 2.3), "v1": ended}))
    assert summary.effects[0].verdict == verdict
    assert judge(path("a", seeds=1), judging(), finals({"v0": losses(2.3), "v1": ["diverged"]})).effects[0].verdict == (
        "diverged"
    )


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ("factorial", "beyond the sum of what each does without the other"),
        ("add_one_in", "the whole difference minus the sum of what each edit does alone"),
        ("leave_one_out", "the whole difference minus the sum of what each edit does with all others present"),
    ],
)
def test_an_interaction_is_what_the_design_makes_of_it(design, words):
    plan = designed(design)
    summary = judge(plan, rules(), ends(plan, {"eval_loss": 2.3 + np.zeros((len(plan.variants), 4))}))
    lines = [line for line in footnotes.definitions(summary, {}) if line.startswith("interaction: ")]
    assert len(lines) == 1 and words in lines[0]


def factorial(seeds: int = 4, lost: int | None = None) -> Summary:
    plan = designed("factorial", seeds=seeds)
    values = 2.3 + np.random.default_rng(2).normal(0, 0.01, (len(plan.variants), seeds))
    made = ends(plan, {"eval_loss": values})
    gone = {t.id for t in plan.trials if lost is not None and t.variant == plan.variants[lost].id}
    return judge(plan, rules(), {id: {**end, "status": "diverged"} if id in gone else end for id, end in made.items()})


def test_an_effect_is_averaged_over_the_others_only_where_all_runs_are_there():
    averaged = "each averaged over runs with and without the other edits"
    assert averaged in said(factorial())
    assert averaged not in said(factorial(lost=3))


def test_what_an_interval_covers_is_said_where_there_is_one_over_seeds():
    """Of one seed there is none, or one of what a factorial's effects leave unexplained: that covers no seeds."""
    covered = footnotes.COVERED
    assert "initialisation, the order of the data and the choice of held-out data" in covered
    assert covered in said(losses_of(3)) and covered in said(factorial())
    assert covered not in said(losses_of(1)) and covered not in said(factorial(seeds=1))
    page = " ".join(footnotes.definitions(losses_of(3), {}))
    assert covered in page
    assert " text" not in page and " windows" not in page  # of which there may be none: the data may be images


def losses_of(seeds: int) -> Summary:
    """Of two blocks at so many seeds."""
    values = {"v0": losses(*np.linspace(2.3, 2.4, seeds)), "v1": losses(*np.linspace(2.2, 2.35, seeds))}
    return judge(path("a", seeds=seeds), judging(eval_loss=LOSS), finals(values))


def test_the_error_is_said_to_be_what_it_is():
    within = "interval from how that effect varies over seeds, separately for each effect"
    assert within in said(factorial(seeds=4))
    alone = said(factorial(seeds=1))
    assert within not in alone and "by t with the residual of all effects as the error" in alone


def test_the_p_of_an_analysis_of_variance_is_said_not_to_be_adjusted():
    line = "analysis of variance: each sum of squares is that of a term given all others; p is not adjusted"
    assert line in footnotes.definitions(factorial(), {})
    plain = judge(path("a"), judging(), finals({"v0": losses(2.3, 2.31), "v1": losses(2.2, 2.21)}))
    assert line not in footnotes.definitions(plain, {})


@pytest.mark.parametrize(("edits", "seeds"), [(1, 10), (2, 12), (2, 13)])
def test_from_how_many_pairs_signs_are_flipped_is_so(edits, seeds):
    """The number said is the least at which the method is so, in a family of that size."""
    plan = path(*"abcd"[:edits], seeds=seeds)
    random = np.random.default_rng(4)
    made = {v.id: losses(*random.normal(2.3, 0.01, seeds)) for v in plan.variants}
    summary = judge(plan, judging(), finals(made))
    (line,) = [line for line in footnotes.definitions(summary, {}) if line.startswith("p with")]
    first = int(line.split()[2])
    d, tests = random.normal(0, 1, 40), summary.tests
    methods = [statistics.of_differences(d[:n], level=0.04 / tests).method for n in range(2, 33)]
    assert [n for n, method in zip(itertools.count(2), methods, strict=False) if method == "student"][-1] == first - 1
    assert 8 < first <= seeds and (f"over {tests} comparisons" in line) == (tests > 1)


def test_a_margin_of_nothing_says_why_it_is_none():
    fine = losses(2.2, 2.21, 2.2, 2.2, 2.2)

    def why(before: list) -> str:
        return judge(path("a"), judging(), finals({"v0": before, "v1": fine})).metrics[0].why_no_margin

    assert why(["diverged"] * 5) == "1 % of pre_ln's mean is undefined, pre_ln diverged at every seed"
    assert why([None] * 5) == "1 % of pre_ln's mean has no value yet"
    assert why(losses(*[math.nan] * 5)) == "1 % of pre_ln's mean is undefined, none of its values is usable"


def test_seeds_for_the_sign_test_are_not_said_to_be_for_an_interval():
    flat = judge(path("a", seeds=3), judging(), finals({"v0": losses(2.3, 2.3, 2.3), "v1": losses(2.2, 2.2, 2.2)}))
    assert flat.effects[0].seeds_needed is not None
    (line,) = [line for line in footnotes.definitions(flat, {}) if line.startswith("+k seeds")]
    assert "would be enough for the sign test" in line
    assert "margin on each side" not in line and "upper limit" not in line
    both = path("a", "b", seeds=3)
    made = {"v0": losses(2.3, 2.3, 2.3), "v1": losses(2.2, 2.2, 2.2), "v2": losses(2.2, 2.3, 2.1)}
    (line,) = [one for one in footnotes.definitions(judge(both, judging(), finals(made)), {}) if one.startswith("+k")]
    assert "margin on each side" in line and "sign test (where differences do not vary)" in line
    assert "confidence limit of the sd" in line


def test_what_varies_is_planned_without_the_sign_test():
    plan = path("a", seeds=3)
    made = finals({"v0": losses(2.3, 2.31, 2.3), "v1": losses(2.2, 2.29, 2.3)})
    summary = judge(plan, Judge(metrics={"eval_loss": FREE}, against="pre_ln", confidence=0.95), made)
    (line,) = [one for one in footnotes.definitions(summary, {}) if one.startswith("+k")]
    assert "sign test" not in line


@pytest.mark.parametrize(("seeds", "visible"), [(4, "nothing, by the sign test"), (12, "any, by the sign test")])
def test_the_page_promises_of_a_floor_without_spread_what_the_sign_test_does(seeds, visible):
    flat = statistics.Floor(metric="eval_loss", scale="linear", n=6, sd=0.0, whose="pre_ln")
    record = worlds.record(floors=(flat,))
    ((_, _, _, seen, _, _),) = cost.noise(replace(record, plan=replace(record.plan, looks=(seeds,)))).rows
    assert seen == visible


def test_the_tables_of_the_page_say_which_p_they_show_and_keep_differences_whole():
    grid = verdicts(worlds.record())[0]
    assert grid.heading[6:] == ("p (Holm)", "q (Benjamini-Hochberg)", "p of equivalence (Holm)")
    cell = grid.rows[0][3]
    assert f"<td class=w>{cell}</td>" in html_renderer.render(
        ReportDocument(title="", about=(), parts=(TableOf(grid),))
    )
    assert "@media screen and (min-width:40rem){td.w{white-space:nowrap}}" in CSS


def test_words_in_a_forest_stand_on_paper():
    """The line of no difference would run through them."""
    svg = svg_of(next(forest.plots(worlds.record().summary)))
    assert svg.count("var(--paper)") >= 2 * svg.count("+qk_norm") > 0
