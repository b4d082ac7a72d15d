"""Looking after several numbers of seeds: what counts, what stays, when it stops, and what the screen says of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from designed_fixtures import designed, ends, rules, sweeps
from test_report_tables import render

from ablate import statistics
from ablate.plan.plan import Plan
from ablate.report.screens.result import result_screen
from ablate.space.judge import Judged
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

LOOKS = (4, 6, 9)
MARGIN = Judged(margin=0.02, scale="linear", better="lower")
SHARED = np.array([0.011, -0.018, 0.004, 0.021, -0.009, 0.013, -0.002, 0.008, -0.015])
NOISE = 0.001 * np.array([1.0, -2, 1.5, -0.5, 2, -1, 0.5, -1.5, 0.0])


def at(seeds: int, plan: Plan) -> Plan:
    """The plan as it is while that many seeds are asked for."""
    return replace(plan, seeds=plan.seeds[:seeds], trials=tuple(t for t in plan.trials if t.seed in plan.seeds[:seeds]))


def world(*differences: object, looks: tuple[int, ...] = LOOKS) -> tuple[Plan, dict]:
    """pre_ln and one block for each row of differences from it."""
    names = ["pre_ln", "op", "sas", "sas_p"][: len(differences) + 1]
    plan = designed(f"{{compare: [{', '.join(names)}]}}", looks=looks)
    before = 2.3 + SHARED
    values = np.stack([before, *(before + np.broadcast_to(d, before.shape) for d in differences)])
    return plan, ends(plan, {"eval_loss": values})


def judged(plan: Plan, finals: dict, margin: Judged = MARGIN) -> Summary:
    return judge(plan, rules(judged=margin), finals)


def test_what_is_plain_at_the_first_look_needs_no_more():
    plan, finals = world(-0.1 + NOISE)
    summary = judged(plan, finals)
    (effect,) = summary.effects
    assert (summary.looked, summary.decided, effect.verdict, effect.n) == (4, True, "better", 4)
    assert summary.arms[0].finished == 4  # later seeds, had there been any, have no part in it
    assert summary.effects == judged(at(4, plan), finals).effects


def test_it_goes_on_until_all_is_decided():
    plan, finals = world(-0.1 + NOISE, 20 * NOISE)
    first = judged(at(4, plan), finals)
    assert (first.looked, first.decided) == (4, False)
    last = judged(plan, finals)
    assert (last.looked, last.effects[1].n) == (9, 9)
    assert [effect.verdict for effect in last.effects] == ["better", "undecided"]


GONE = np.where(np.arange(9) < 4, -0.1 + NOISE, np.where(np.arange(9) < 6, 0.2, 0.1) + 10 * NOISE)
"""Plainly below zero at four seeds; at all nine it may be anything."""


def test_what_was_found_stays_found_with_the_numbers_it_was_found_with():
    """A difference that is gone again at the last look was found at the first, at a level that allows for it."""
    plan, finals = world(GONE, 20 * NOISE)
    first, last = judged(at(4, plan), finals).effects[0], judged(plan, finals).effects[0]
    assert first.verdict == last.verdict == "better"
    assert replace(last, note="") == first and first.note == ""
    assert last.high < 0 and last.p < last.p_adjusted < 0.05
    d = statistics.of_differences(GONE)
    assert d.mean > 0 and d.p > 0.05  # what all nine seeds alone would say
    assert last.note.startswith(f"found at 4 seeds; at all 9: {d.mean:+.2f} [-0.")
    text = render(result_screen(judged(plan, finals)), 200)
    assert f"lowers eval loss by {-first.estimate:.4f}" in text and "raises" not in text
    assert "op: found at 4 seeds; at all 9: " in text
    assert "a verdict found at an interim analysis keeps the numbers of that analysis" in text


@pytest.mark.parametrize("later", [0.1, 0.3])
def test_a_find_that_the_last_interval_leaves_out_is_none(later):
    """Below zero at four seeds, and so far above it after them that no value below is left."""
    d = np.where(np.arange(20) < 4, -0.01 + 0.02 * NOISE[np.arange(20) % 9], later + NOISE[np.arange(20) % 9])
    plan = designed("{compare: [pre_ln, op, sas]}", looks=(4, 20))
    before = 2.3 + SHARED[np.arange(20) % 9]
    wild = 20 * NOISE[np.arange(20) % 9]
    finals = ends(plan, {"eval_loss": np.stack([before, before + d, before + wild])})
    free = Judged(margin="none", scale="linear", better="lower")
    first, last = judged(at(4, plan), finals, free), judged(plan, finals, free)
    assert first.effects[0].verdict == "better"
    effect = last.effects[0]
    assert (effect.verdict, effect.n, effect.low > 0) == ("undecided", 20, True)
    assert "a difference was found at 4 seeds: -0.0" in effect.note and "no longer at all 20: +" in effect.note
    assert not last.decided
    assert "a difference was found at 4 seeds" in render(result_screen(last), 200)


def test_nor_is_equivalence():
    """Alike at four seeds, and after them so far apart that the interval of all lies beyond the margin."""
    some = np.arange(20) % 9
    plan = designed("{compare: [pre_ln, op, sas]}", looks=(4, 20))
    before, wild = 2.3 + SHARED[some], 20 * NOISE[some]
    for later, stands in ((0.4, False), (0.004, True)):
        d = np.where(np.arange(20) < 4, 0.1 * NOISE[some], later + NOISE[some])
        finals = ends(plan, {"eval_loss": np.stack([before, before + d, before + wild])})
        tight = Judged(margin=0.004, scale="linear", better="lower")
        first, last = judged(at(4, plan), finals, tight).effects[0], judged(plan, finals, tight).effects[0]
        assert first.verdict == "equivalent"
        if stands:  # the interval of all 20 has a value inside: so it does, with the numbers it was found with
            assert (last.verdict, last.estimate, last.n) == ("equivalent", first.estimate, 4)
        else:  # what is left is that they differ
            assert (last.verdict, last.n) == ("worse", 20)
            assert "equivalence was found at 4 seeds: " in last.note


def test_q_is_of_the_look_that_is_shown():
    """Not the least of all looks: that bounds nothing."""
    plan, finals = world(GONE, np.where(np.arange(9) < 4, -0.01 + 2 * NOISE, 0.02 * np.arange(9) - 0.1))
    first, last = judged(at(4, plan), finals), judged(plan, finals)
    assert first.effects[0].q == last.effects[0].q
    assert (last.effects[1].n, last.effects[1].verdict) == (9, "undecided")
    assert first.effects[1].q < last.effects[1].q


def test_each_look_is_held_against_its_own_level():
    plan, finals = world(-0.1 + NOISE, 20 * NOISE)
    bounds = statistics.boundaries(LOOKS, 2, alpha=0.05, margin=True)
    summary = judged(at(4, plan), finals)
    p = [effect.p for effect in summary.effects]
    adjusted = statistics.holm(p)
    for effect, one in zip(summary.effects, adjusted, strict=True):
        assert effect.p_adjusted == pytest.approx(min(1, one * (1 - 0.95) / bounds.levels[0]))
    assert bounds.levels[0] < 0.05


def test_intervals_are_repeated_ones():
    """Wider than Student's, by the level of the look, and of t also where signs would be flipped without looks."""
    plan, finals = world(10 * NOISE, looks=(4, 9))
    effect = judged(plan, finals).effects[0]
    level = statistics.boundaries((4, 9), 1, alpha=0.05, margin=True).interval_levels[1]
    d = 10 * NOISE
    plain = statistics.of_differences(d, confidence=1 - level, only_student=True)
    assert (effect.method, effect.low, effect.high) == ("repeated", pytest.approx(plain.low), pytest.approx(plain.high))
    assert effect.high - effect.low > np.ptp([statistics.of_differences(d).low, statistics.of_differences(d).high])


def test_the_intervals_of_all_looks_hold_the_difference_together():
    plan = designed("{compare: [pre_ln, op]}", looks=LOOKS)
    missed = []
    for finals in sweeps(plan, 400, rng=5):
        looks = [judge(replace(at(n, plan), looks=LOOKS), rules(), finals).effects[0] for n in LOOKS]
        missed.append(any(not effect.low < 0 < effect.high for effect in looks))
    assert np.mean(missed) <= 0.09  # 400 sweeps at 5 %


def test_nothing_counts_before_the_first_look_is_complete():
    plan, finals = world(-0.1 + NOISE)
    lacking = {id: end for id, end in finals.items() if id != plan.trials[2].id}
    summary = judged(at(4, plan), lacking)
    assert (summary.looked, summary.decided, summary.effects[0].verdict) == (None, False, "undecided")
    assert summary.effects[0].n == 3 and summary.effects[0].p_adjusted is None
    assert "before the first look, at 4 seeds" in summary.notes[-1]


def test_a_later_look_that_is_not_complete_does_not_count_yet():
    plan, finals = world(20 * NOISE)
    lacking = {id: end for id, end in finals.items() if id != at(6, plan).trials[-1].id}
    summary = judged(at(6, plan), lacking)
    assert (summary.looked, summary.effects[0].n) == (4, 4)
    assert "judged at 4 of 6 seeds" in summary.notes[-1]


def test_a_trial_that_failed_has_ended():
    plan, finals = world(-0.1 + NOISE)
    failed = finals | {plan.trials[2].id: {"status": "bug", "step": 3, "metrics": {}}}
    summary = judged(at(4, plan), failed)
    assert (summary.looked, summary.effects[0].n) == (4, 3)
    assert "not paired: bug" in summary.effects[0].note


def test_what_diverged_asks_for_no_more_seeds():
    plan, finals = world(-0.1 + NOISE, 0.0 * NOISE)
    gone = plan.variants[2].id
    lost = {t.id: {"status": "diverged", "step": 3, "metrics": {}} for t in plan.trials if t.variant == gone}
    summary = judged(plan, finals | lost)
    assert (summary.looked, summary.decided, summary.effects[1].verdict) == (4, True, "diverged")


def test_the_margin_of_a_look_is_of_the_seeds_of_that_look():
    """So that a look comes out the same when it is replayed with more seeds."""
    plan, finals = world(-0.1 + NOISE, 20 * NOISE)
    share = Judged(margin="1%", scale="linear", better="lower")
    first, last = judged(at(4, plan), finals, share), judged(plan, finals, share)
    assert first.metrics[0].margin == pytest.approx(0.01 * np.mean(2.3 + SHARED[:4]))
    assert last.metrics[0].margin == pytest.approx(0.01 * np.mean(2.3 + SHARED))


@pytest.mark.parametrize(
    ("seeds", "rows", "said"),
    [
        (4, [-0.1 + NOISE], "analysed at 4 seeds (of 4, 6, 9): everything is decided, no more seeds are needed"),
        (4, [20 * NOISE], "interim analysis at 4 seeds (of 4, 6, 9): not everything is decided, the next one is at 6"),
        (9, [20 * NOISE], "analysed at 9 seeds, the last of 4, 6, 9: no α is left, so more seeds would find nothing"),
    ],
)
def test_the_screen_says_where_it_stands(seeds, rows, said):
    plan, finals = world(*rows)
    text = render(result_screen(judged(at(seeds, plan), finals)), 200)
    assert said in text
    assert "Holm's correction" not in text and "correction for interim analyses" in text
    assert "Student's 95 % interval" not in text
