"""A metric without a better side is found higher, lower or the same: in verdicts, claims, the front and words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import page_fixtures
import pytest
import searched_fixtures as searched
from designed_fixtures import FREE, designed, ends
from page_fixtures import record
from report_fixtures import finals, path

from ablate.report import answers, footnotes, wording
from ablate.report.document import plain
from ablate.report.effect_tables import to_markdown
from ablate.report.page import answer, forest, pareto
from ablate.report.plot import svg_of
from ablate.report.searched.confirmation import improved, verdicts
from ablate.report.terminal_renderer import STYLES
from ablate.space.judge import Expected, Judge, Judged
from ablate.verdict.judge import judge
from ablate.verdict.judgement import OPPOSITE, renamed
from ablate.verdict.summary import Effect, Summary, verdict_of

GONE = "diverged"
SIDES = {better: FREE.model_copy(update={"better": better}) for better in ("lower", "higher", "none")}
SAME = Judged(margin=0.5, scale="linear", better="none")
LOW = (2.30, 2.31, 2.29, 2.30, 2.32, 2.28, 2.27, 2.33)
HIGH = tuple(value + 0.3 + 0.01 * place for place, value in enumerate(LOW))


def ruled(*expect: Expected, **metrics: Judged) -> Judge:
    return Judge(metrics=metrics or {"m": SIDES["none"]}, against="pre_ln", confidence=0.95, expect=expect)


def judged(before, after, how: Judged = SIDES["none"], *expect: Expected) -> Summary:
    made = [[GONE if value is None else {"m": value} for value in side] for side in (before, after)]
    plan = path("edit", seeds=len(before))
    return judge(plan, ruled(*expect, m=how), finals({"v0": made[0], "v1": made[1]}))


def one(before, after, how: Judged = SIDES["none"]) -> Effect:
    return judged(before, after, how).effects[0]


@pytest.mark.parametrize(
    ("better", "up", "down"), [("lower", "worse", "better"), ("higher", "better", "worse"), ("none", "higher", "lower")]
)
def test_a_verdict_has_the_words_of_its_metric_both_ways_and_by_rank(better, up, down):
    assert (one(LOW, HIGH, SIDES[better]).verdict, one(HIGH, LOW, SIDES[better]).verdict) == (up, down)
    for rises, word in ((True, up), (False, down)):
        assert verdict_of(rises, better, by_rank=False) == word
        assert verdict_of(rises, better, by_rank=True) == f"{word}_by_rank"
        assert OPPOSITE[verdict_of(rises, better, by_rank=True)] == verdict_of(not rises, better, by_rank=True)


def test_equivalent_and_undecided_stay_what_they_are():
    assert one(LOW, HIGH, SAME).verdict == "equivalent" and one(LOW, HIGH, SAME).differs
    assert one(LOW, LOW[::-1]).verdict == "undecided"


TWELVE = tuple(2.3 + 0.01 * place for place in range(13))
ABOVE = tuple(value + 0.3 + 0.01 * place for place, value in enumerate(TWELVE))


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_diverged_run_is_on_no_side_and_counts_against_the_others(side):
    def lost(values):
        return (None, *values[1:])

    before, after = (lost(TWELVE), ABOVE) if side == "before" else (TWELVE, lost(ABOVE))
    effect = one(before, after)
    assert (effect.verdict, effect.ranked, effect.n) == ("higher_by_rank", 13, 12)
    assert "judged by ranks over 13 seeds, with a diverged run neither higher nor lower than any" in effect.note
    assert "1 seed with a lost run counts against the direction of the others" in effect.note
    assert one(after, before).verdict == "lower_by_rank"
    sided = one(before, after, SIDES["higher" if side == "before" else "lower"])
    assert sided.p < effect.p  # the twin: a metric with a better side has a place for it
    assert "with a diverged run worse than any number" in sided.note


def test_runs_that_diverge_are_no_finding_by_themselves():
    """Seven of eight runs after diverged, which is worse where lower is better, and neither higher nor lower here."""
    effect = one(LOW, (2.2, *[None] * 7))
    assert (effect.verdict, effect.p) == ("undecided", 1.0)
    assert one(LOW, (2.2, *[None] * 7), SIDES["lower"]).verdict == "worse_by_rank"  # the twin


def test_a_seed_at_which_both_diverge_is_a_tie():
    effect = one((None, *LOW[1:]), (None, *HIGH[1:]))
    assert (effect.verdict, effect.p, effect.ranked) == ("higher_by_rank", 2.0**-6, 8)
    assert "1 seed is a tie" in effect.note and "counts against" not in effect.note


def test_in_a_factorial_too():
    plan = designed("{factorial: {from: pre_ln, to: op}}", seeds=9)
    made = 2 + 0.01 * np.random.default_rng(5).standard_normal((len(plan.variants), 9))
    made += np.array(["+qk_norm" in variant.edits for variant in plan.variants])[:, None]
    values = ends(plan, {"m": made})
    lost = next(trial.id for trial in plan.trials if trial.seed == 3 and trial.variant == plan.variants[-1].id)
    values[lost] = {"status": "diverged", "step": 3, "metrics": {}}

    def found(better: str) -> Effect:
        summary = judge(plan, ruled(m=SIDES[better]), values)
        return next(effect for effect in summary.effects if effect.change == "+qk_norm")

    effect, sided = found("none"), found("lower")
    assert (sided.verdict, sided.p) == ("worse_by_rank", 2.0**-8)
    assert effect.ranked == 9 and effect.p > sided.p
    assert "1 seed with a lost run counts against" in effect.note


@pytest.mark.parametrize(
    ("verdict", "then", "now", "as_now"),
    [
        ("better", "lower", "none", "lower"),
        ("worse", "lower", "none", "higher"),
        ("better", "higher", "none", "higher"),
        ("higher", "none", "lower", "worse"),
        ("lower", "none", "higher", "worse"),
        ("better", "lower", "higher", "worse"),
        ("worse", "lower", "lower", "worse"),
        ("equivalent", "lower", "none", "equivalent"),
        ("undecided", "lower", "none", "undecided"),
        ("better_by_rank", "lower", "none", "undecided"),
        ("better_by_rank", "lower", "lower", "better_by_rank"),
    ],
)
def test_an_earlier_finding_has_the_name_of_its_direction(verdict, then, now, as_now):
    effect = replace(one(LOW, HIGH), verdict=verdict, ranked=8 * ("rank" in verdict))
    told = renamed(effect, then, now)
    assert told.verdict == as_now and told.estimate == effect.estimate
    assert ("ranked on another side" in told.note) == (told.verdict == "undecided" != verdict)


def test_a_trend_of_a_speed_up_is_better_where_it_grows_whichever_side_its_loss_has():
    effect = replace(one(LOW, HIGH), kind="trend", verdict="better")
    assert renamed(effect, "lower", "higher").verdict == "better"
    assert renamed(effect, "lower", "none").verdict == "higher"
    assert "the speed-up grows" in wording.trend(renamed(effect, "lower", "none"))


def test_a_claim_comes_true_by_those_words():
    def claims(*verdict: str) -> str:
        told = Expected(claim="c", of="op", metric="m", verdict=verdict)
        return judged(LOW, HIGH, SIDES["none"], told).expectations[0].outcome

    assert (claims("higher"), claims("lower")) == ("as expected", "not as expected")
    assert claims("lower", "higher") == "as expected"


@pytest.mark.parametrize(("order", "outcome"), [("pre_ln < op", "as expected"), ("op < pre_ln", "not as expected")])
@pytest.mark.parametrize("better", ["lower", "higher", "none"])
def test_an_order_is_of_values_whichever_side_is_better(order, outcome, better):
    told = Expected(claim="c", order=order, metric="m")
    assert judged(LOW, HIGH, SIDES[better], told).expectations[0].outcome == outcome


def test_it_has_no_part_in_the_front():
    plan = designed("{compare: [pre_ln, op, sas]}", seeds=2)
    made = {
        "loss": np.array([[2.3], [2.2], [2.4]]) + np.zeros((3, 2)),
        "rate": np.array([[0.5], [0.4], [0.6]]) + np.zeros((3, 2)),
        "m": np.array([[9.0], [8.0], [1.0]]) + np.zeros((3, 2)),
    }

    def front(**metrics: str) -> list[str]:
        rules = ruled(**{name: SIDES[better] for name, better in metrics.items()})
        summary = judge(plan, rules, ends(plan, made))
        assert ("metrics without a better side do not count" in " ".join(footnotes.definitions(summary, {}))) == (
            "none" in metrics.values() and bool(summary.front)
        )
        return [summary.arm(id).name for id in summary.front]

    assert front(loss="lower", rate="lower", m="none") == front(loss="lower", rate="lower") == ["op"]
    assert front(loss="lower", rate="lower", m="lower") == ["op", "sas"]  # the twin
    assert front(loss="lower", m="none") == []


def without_sides(summary: Summary, *names: str) -> Summary:
    """The summary as if nothing were better of some metrics."""
    of = {metric.name: metric.name in names for metric in summary.metrics}
    words = {"better": "lower", "worse": "higher"}
    return replace(
        summary,
        metrics=tuple(replace(m, better="none") if of[m.name] else m for m in summary.metrics),
        effects=tuple(
            replace(e, verdict=words.get(e.verdict, e.verdict)) if of[e.metric] else e for e in summary.effects
        ),
    )


def test_the_sides_of_a_forest_are_lower_and_higher():
    found = record()
    summary = without_sides(found.summary, "eval_loss")
    drawn = list(map(svg_of, forest.plots(summary)))
    assert "← lower" in drawn[0] and "higher →" in drawn[0] and "better →" not in drawn[0]
    assert "← better" in drawn[1]
    for word in ("better", "worse"):
        assert f"var(--{word})" not in drawn[0]


def test_it_is_drawn_against_no_other_as_a_trade_off():
    found = page_fixtures.record()
    names = [metric.name for metric in found.seen()]
    assert len(list(pareto.front_plots(found))) == len(names) - 1
    assert (
        len(list(pareto.front_plots(replace(found, summary=without_sides(found.summary, names[0]))))) == len(names) - 2
    )


def test_every_text_says_that_neither_side_is_better():
    summary = judged(LOW, HIGH)
    told = " ".join(footnotes.definitions(summary, {}))
    assert "m: neither side is better" in told and "higher, lower: p < 0.04" in told
    assert "for higher and lower it does not contain zero" in told and "better, worse" not in told
    assert "(neither side is better; margin none)" in to_markdown(summary, {})
    assert answer.grid(summary).heading[1] == "m (neither side is better)"
    assert "m higher (+0.335 [" in " ".join(answer.conclusion(summary))
    sentence = plain(next(iter(answers.sentences(summary))).words)
    assert "raises m by 0.335" in sentence and "(higher)" in sentence
    both = footnotes.findings(judge(path("edit", seeds=2), ruled(m=SIDES["none"], n=SIDES["lower"]), {}))
    assert both == ["better", "worse", "higher", "lower"]
    assert not {STYLES["higher"], STYLES["lower"]} & {STYLES["better"], STYLES["worse"]}


def test_by_rank_is_explained_where_neither_side_is_better():
    told = " ".join(footnotes.definitions(judged(TWELVE, (None, *ABOVE[1:])), {}))
    assert "against the other seeds where neither side is better" in told
    assert "where neither" not in " ".join(footnotes.definitions(judged(TWELVE, (None, *ABOVE[1:]), FREE), {}))


def test_an_objective_of_a_search_has_a_side_though_its_metric_has_none():
    found = searched.confirmed()
    effect = replace(verdicts(found, found.chosen[0])[0], verdict="lower")
    assert improved(effect, found) and improved(replace(effect, verdict="lower_by_rank"), found)
    assert not improved(replace(effect, verdict="higher"), found)
    goals = tuple(replace(objective, goal="max") for objective in found.objectives)
    assert improved(replace(effect, verdict="higher"), replace(found, objectives=goals))
