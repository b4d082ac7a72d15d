"""The interval shown beside a verdict agrees with it, and is what independent computation gives."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from designed_fixtures import DESIGNS, LOOKS, designed, ends, rules
from report_fixtures import LOSS, PEAK, finals, losses, path
from report_fixtures import rules as judge_rules
from scipy import stats

from ablate.space.judge import Judged
from ablate.statistics.paired import sign_flip_interval
from ablate.verdict.judge import judge
from ablate.verdict.summary import Effect, Summary

MARGIN = Judged(margin=0.02, scale="linear", better="lower")
LOG = Judged(margin="2%", scale="log", better="lower")


def disagreements(summary: Summary) -> list[str]:
    """Verdicts that their intervals do not bear out."""
    found = []
    for effect in summary.effects:
        if not effect.judged or effect.ranked or effect.adjusted_low is None:
            continue
        low, high = effect.adjusted_low, effect.adjusted_high
        zero, margin = low <= 0 <= high, effect.margin
        inside = margin is not None and -margin < low and high < margin
        right = {
            "better": not zero,
            "worse": not zero,
            "equivalent": inside,
            "undecided": zero and not inside,
        }[effect.verdict]
        if not right:
            found.append(f"{effect.kind} {effect.change}: {effect.verdict} beside [{low}, {high}], margin {margin}")
    return found


@pytest.mark.sampled(2, gate=14)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("seeds", [2, 3, 5, 8, 12, 16])
def test_no_verdict_stands_beside_an_interval_that_says_otherwise(design, seeds):
    plan, random = designed(design, seeds=seeds), np.random.default_rng(seeds)
    seen = set()
    for judged, family in product((MARGIN, LOG), ("metric", "page")):
        for _ in range(12):
            base = 2.3 + random.normal(0, 0.02, seeds)
            shifts = random.choice([0.0, 0.0, 0.004, 0.03, -0.05], len(plan.variants))[:, None]
            noise = random.normal(0, random.choice([0.002, 0.01]), (len(plan.variants), seeds))
            other = random.normal(1.0, 0.01, (len(plan.variants), seeds)) + shifts
            made = ends(plan, {"eval_loss": base + shifts + noise, "peak_kurtosis": other})
            summary = judge(plan, rules("eval_loss", "peak_kurtosis", judged=judged, family=family), made)
            assert disagreements(summary) == []
            seen |= {effect.verdict for effect in summary.effects}
            assert all(effect.adjusted_low is not None for effect in summary.effects if effect.p_adjusted is not None)
    assert {"better", "worse"} & seen or seeds == 2


def test_with_looks_too():
    plan, random = designed("compare", seeds=max(LOOKS), looks=LOOKS), np.random.default_rng(0)
    methods = set()
    for _ in range(40):
        shifts = random.choice([0.0, 0.004, 0.03], len(plan.variants))[:, None]
        made = ends(plan, {"eval_loss": 2.3 + shifts + random.normal(0, 0.01, (len(plan.variants), max(LOOKS)))})
        summary = judge(plan, rules("eval_loss", judged=MARGIN), made)
        assert disagreements(summary) == []
        methods |= {effect.method for effect in summary.effects}
    assert methods == {"repeated"}


def test_a_single_interval_would_disagree():
    """What the test above would see if the intervals were not adjusted."""
    plan, random = designed("compare", seeds=5), np.random.default_rng(1)
    wrong = 0
    for _ in range(60):
        made = ends(plan, {"eval_loss": 2.3 + random.normal(0, 0.01, (len(plan.variants), 5))})
        summary = judge(plan, rules("eval_loss", judged=MARGIN), made)
        single = replace(
            summary, effects=tuple(replace(e, adjusted_low=e.low, adjusted_high=e.high) for e in summary.effects)
        )
        wrong += len(disagreements(single))
    assert wrong > 0


def one_by_one(effects: list[Effect], values: dict[str, np.ndarray], level: float) -> dict[str, tuple[float, float]]:
    """Holm's procedure, step by step, and Student's interval at the level of each step."""
    differences = {e.after: values[e.after] - values[e.before] for e in effects}
    p = {after: float(stats.ttest_1samp(d, 0).pvalue) for after, d in differences.items()}
    bounds, step, stopped = {}, 0, False
    for after in sorted(p, key=p.__getitem__):
        held = level / (len(p) - step)
        d = differences[after]
        half = stats.t.ppf(1 - held / 2, d.size - 1) * d.std(ddof=1) / math.sqrt(d.size)
        bounds[after] = (d.mean() - half, d.mean() + half)
        stopped = stopped or p[after] >= held
        step += not stopped
    return bounds


def test_the_interval_is_students_at_the_step_of_holm():
    random = np.random.default_rng(5)
    free = Judged(margin="none", scale="linear", better="lower")
    for _ in range(20):
        plan = path("one", "two", "three", seeds=6)
        shifts = random.choice([0.0, 0.02, 0.05], 4)
        values = {f"v{i}": 2.0 + shifts[i] + random.normal(0, 0.01, 6) for i in range(4)}
        plan = replace(plan, comparisons=tuple(c for c in plan.comparisons if c.kind == "baseline"))
        summary = judge(plan, judge_rules(eval_loss=free), finals({v: losses(*x) for v, x in values.items()}))
        level = summary.judgements[0].level
        expected = one_by_one(list(summary.effects), values, level)
        for effect in summary.effects:
            assert effect.method == "student"
            assert (effect.adjusted_low, effect.adjusted_high) == pytest.approx(expected[effect.after], rel=1e-9)
            held = 1 - effect.adjusted_confidence
            assert any(math.isclose(held, level / k) for k in (1, 2, 3))


def test_the_interval_by_flips_holds_the_shifts_that_flips_do_not_reject():
    random = np.random.default_rng(3)
    for n, miss in ((8, 0.05), (10, 0.02), (12, 0.0125)):
        d = random.normal(0.01, 0.02, n)
        low, high = sign_flip_interval(d, miss)
        signs = np.array(list(product((-1, 1), repeat=n)))

        def p(shift: float, d: np.ndarray = d, signs: np.ndarray = signs) -> float:
            sums = np.abs(signs @ (d - shift))
            return float(np.mean(sums >= abs((d - shift).sum()) - 1e-12))

        width = high - low
        assert p(low + 1e-6 * width) >= miss > p(low - 1e-6 * width)
        assert p(high - 1e-6 * width) >= miss > p(high + 1e-6 * width)
    assert sign_flip_interval(np.arange(5.0), 0.05) == (-math.inf, math.inf)


def test_flips_make_the_interval_where_they_make_the_p():
    random = np.random.default_rng(8)
    plan = path("one", seeds=12)
    for shift in (0.0, 0.005, 0.01, 0.02):
        sides = {"v0": losses(*random.normal(2, 0.01, 12)), "v1": losses(*(2 + shift + random.normal(0, 0.01, 12)))}
        summary = judge(
            plan, judge_rules(eval_loss=Judged(margin="none", scale="linear", better="lower")), finals(sides)
        )
        effect = summary.effects[0]
        assert effect.method == "sign_flip" and disagreements(summary) == []
        d = np.array([b["eval_loss"] - a["eval_loss"] for a, b in zip(sides["v0"], sides["v1"], strict=True)])
        assert (effect.adjusted_low, effect.adjusted_high) == sign_flip_interval(d, summary.judgements[0].level)


def test_without_a_verdict_there_is_no_adjusted_interval():
    plan = path("one", seeds=3)
    open_ = judge(plan, judge_rules(eval_loss=LOSS), finals({"v0": losses(2, 2.1, 2.2), "v1": losses(1.9, 2.0)}))
    assert all(effect.adjusted_low is None for effect in open_.effects)
    ranked = judge(
        plan, judge_rules(eval_loss=LOSS), finals({"v0": losses(2, 2.1, 2.2), "v1": [*losses(1.9, 2.0), "diverged"]})
    )
    assert all(effect.ranked and effect.adjusted_low is None for effect in ranked.effects)


def test_on_the_log_scale_it_is_of_logarithms():
    plan = path("one", seeds=5)
    sides = {"v0": [{"peak_kurtosis": x} for x in (3.0, 3.1, 2.9, 3.3, 3.0)]}
    sides["v1"] = [{"peak_kurtosis": x} for x in (2.0, 2.2, 2.1, 2.0, 1.9)]
    effect = judge(plan, judge_rules(peak_kurtosis=PEAK), finals(sides)).effects[0]
    d = np.log([2.0 / 3.0, 2.2 / 3.1, 2.1 / 2.9, 2.0 / 3.3, 1.9 / 3.0])
    expected = stats.t.interval(0.96, 4, d.mean(), stats.sem(d))
    assert effect.verdict == "better"
    assert (effect.adjusted_low, effect.adjusted_high) == pytest.approx(expected, rel=1e-9)
