"""What is corrected for together: which comparisons are one, and how often "equivalent" is false at the margin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from designed_fixtures import LOOKS, designed, ends, rules, sweeps
from report_fixtures import finals as made
from report_fixtures import losses, path
from scipy import stats
from scipy.stats import binom
from statsmodels.stats.multitest import multipletests

from ablate.plan.plan import Comparison, Plan
from ablate.space.judge import Judged
from ablate.verdict.contrasts import family_size
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

MARGIN = 0.02
TIGHT = Judged(margin=MARGIN, scale="linear", better="lower")
FEW, MANY = 400, 10_000


def bound(times: int) -> float:
    return float(binom.ppf(0.9998, times, 0.05)) / times if times < MANY else 0.057


def apart(plan: Plan, sign: int) -> tuple[list[float], Callable[[Summary], bool]]:
    """Means by variant, some the margin apart, and whether a summary calls two that are so equivalent."""
    if plan.factors:
        factors = plan.factors[0][1]
        levels = dict(factors.runs)
        shifts = [sign * MARGIN * levels[variant.id][0] / 2 for variant in plan.variants]
        wrong = {factors.effects[0][0]}
        return shifts, lambda summary: any(
            e.verdict == "equivalent" for e in summary.effects if e.change in wrong or e.kind == "baseline"
        )
    shifts = [sign * MARGIN * (i % 2) for i in range(len(plan.variants))]
    mean = {variant.id: shift for variant, shift in zip(plan.variants, shifts, strict=True)}
    true = [sum(w * mean[id] for id, w in c.weights or ((c.before, -1), (c.after, 1))) for c in plan.comparisons]
    return shifts, lambda summary: any(
        e.verdict == "equivalent"
        for e, difference in zip(summary.effects, true, strict=True)
        if abs(difference) > MARGIN / 2
    )


def false_equivalences(design: str, sign: int, looks: tuple[int, ...], times: int, sd: float = 0.004) -> float:
    plan = designed(design, seeds=4, looks=looks)
    shifts, wrong = apart(plan, sign)
    ruled = rules(judged=TIGHT)
    found = [wrong(judge(plan, ruled, finals)) for finals in sweeps(plan, times, rng=7, shifts=shifts, sd=sd)]
    return float(np.mean(found))


@pytest.mark.full
@pytest.mark.parametrize("sign", [-1, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("design", ["path", pytest.param("factorial", marks=pytest.mark.full)])
def test_a_difference_as_large_as_the_margin_is_not_called_equivalent(design, sign):
    assert false_equivalences(design, sign, (), FEW) <= bound(FEW)


@pytest.mark.full
def test_nor_at_any_look():
    assert false_equivalences("compare", 1, (4, 6, 9), FEW) <= bound(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [(), LOOKS])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("design", ["compare", "path", "leave_one_out", "factorial"])
def test_nor_in_ten_thousand_sweeps(design, sign, looks):
    assert false_equivalences(design, sign, looks, MANY) <= bound(MANY)


def test_with_the_margin_a_little_wider_than_it_is_it_would_be():
    """The twin: differences well inside the margin are called equivalent, so that the tests above could fail."""
    plan = designed("{compare: [pre_ln, op]}", seeds=6)
    ruled = rules(judged=TIGHT)
    shifts = [0.0, 0.8 * MARGIN]
    found = [judge(plan, ruled, f).effects[0].verdict for f in sweeps(plan, FEW, rng=7, shifts=shifts, sd=0.002)]
    assert np.mean([verdict == "equivalent" for verdict in found]) > bound(FEW)


def test_without_holm_some_of_several_would_be_called_equivalent_too_often():
    plan = designed("compare", seeds=4)
    ruled = rules(judged=TIGHT)
    shifts = [0.0, *[MARGIN] * (len(plan.variants) - 1)]
    found = [judge(plan, ruled, f) for f in sweeps(plan, FEW, rng=7, shifts=shifts, sd=0.004)]
    assert np.mean([any(e.p_equivalent < 0.05 for e in one.effects) for one in found]) > bound(FEW)
    assert np.mean([any(e.verdict == "equivalent" for e in one.effects) for one in found]) <= bound(FEW)


def random_losses(plan: Plan, rng: int = 3, sd: float = 0.01) -> Summary:
    return judge(plan, rules(judged=TIGHT), next(sweeps(plan, 1, rng=rng, sd=sd)))


@pytest.mark.parametrize(
    ("design", "tests"),
    [("compare", 3), ("path", 2 * 5 - 1), ("factorial", 3 + 3 + 1)],
)
def test_every_comparison_counts_once(design, tests):
    """Of a path the first edit is the first step from the baseline too; of a factorial edits, pairs and the whole."""
    plan = designed(design)
    assert family_size(plan) == random_losses(plan).tests == tests
    assert family_size(plan, ("eval_loss", "peak_kurtosis", "a"), page=True) == 3 * tests


def test_before_and_after_changed_about_are_the_same_comparison():
    plan = path("a", seeds=3)
    turned = Comparison(kind="baseline", change="back", detail="", before="v1", after="v0")
    both = replace(plan, comparisons=(plan.comparisons[0], turned))
    summary = judge(both, rules(judged=TIGHT), made({"v0": losses(2.3, 2.31, 2.32), "v1": losses(2.2, 2.22, 2.2)}))
    there, back = summary.effects
    assert summary.tests == 1
    assert (there.estimate, there.low, there.tost_high) == (-back.estimate, -back.high, -back.tost_low)
    assert (there.p, there.p_adjusted) == (back.p, back.p_adjusted)
    assert there.p_adjusted == there.p
    assert {there.verdict, back.verdict} == {"better", "worse"}


@pytest.mark.full
def test_a_page_is_one_family():
    plan = designed("compare")
    names = ("eval_loss", "token_correlation")
    finals = next(sweeps(plan, 1, *names))
    summary = judge(plan, rules(*names, judged=TIGHT, family="page"), finals)
    p = [effect.p for effect in summary.effects]
    assert summary.tests == len(p) == 6
    assert [e.p_adjusted for e in summary.effects] == pytest.approx(multipletests(p, method="holm")[1])
    assert [e.q for e in summary.effects] == pytest.approx(multipletests(p, method="fdr_bh")[1])
    p = [effect.p_equivalent for effect in summary.effects]
    assert [e.p_equivalent_adjusted for e in summary.effects] == pytest.approx(multipletests(p, method="holm")[1])


def test_what_could_not_be_compared_counts_as_a_test():
    """An arm that diverged makes the others look no surer."""
    plan = path("a", "b", seeds=3)
    before, after = [2.30, 2.31, 2.29], [2.20, 2.22, 2.185]
    gone = made({"v0": losses(*before), "v1": losses(*after), "v2": ["diverged"] * 3})
    summary = judge(plan, rules(judged=TIGHT), gone)
    assert summary.tests == 3
    first = summary.effects[0]
    assert first.p == pytest.approx(stats.ttest_rel(before, after).pvalue)
    assert first.p_adjusted == pytest.approx(3 * first.p)


def test_an_edit_out_of_reach_asks_for_the_seeds_that_decide_it_among_all():
    """The level that seeds are planned at is the one that a verdict takes: of six comparisons more than of one."""
    alone, among = path("a", seeds=4), path("a", "b", "c", "d", seeds=4)
    shared = {"v0": losses(2.30, 2.31, 2.29, 2.30), "v1": losses(2.27, 2.30, 2.29, 2.28)}
    rest = {f"v{i}": losses(2.3, 2.33, 2.25, 2.31) for i in (2, 3, 4)}
    one = judge(alone, rules(), made(shared)).effects[0]
    other = judge(among, rules(), made(shared | rest)).effects[0]
    assert one.verdict == other.verdict == "undecided"
    assert other.p == one.p and other.seeds_needed > one.seeds_needed > 4


def test_half_a_thousandth_of_a_loss_is_undecided_at_four_seeds():
    """80 losses with mean 3.2791 and sd 0.0019; of any 4 against any 4 others a difference of 0.0005 says nothing."""
    listed = stats.norm.ppf((np.arange(80) + 0.5) / 80)
    listed = 3.2791 + 0.0019 * listed / listed.std(ddof=1)
    assert (listed.mean(), listed.std(ddof=1)) == (pytest.approx(3.2791), pytest.approx(0.0019))
    plan = designed("{compare: [pre_ln, op]}", seeds=4)
    random = np.random.default_rng(0)
    for _ in range(200):
        before, after = random.permutation(listed)[:8].reshape(2, 4)
        after = after - after.mean() + before.mean() - 0.0005
        effect = judge(plan, rules(), ends(plan, {"eval_loss": np.stack([before, after])})).effects[0]
        assert (effect.estimate, effect.n) == (pytest.approx(-0.0005), 4)
        assert effect.verdict == "undecided" and effect.low < 0 < effect.high
        assert effect.seeds_needed is None or effect.seeds_needed > 8


def test_noise_is_in_no_family_and_never_a_finding():
    plan = designed("{compare: [pre_ln, op]}", seeds=4, extra="{seeds: 4}")
    assert family_size(plan) == 1
    values = np.array([[2.3, 2.31, 2.29, 2.3], [2.301, 2.311, 2.292, 2.3], [1.9, 1.91, 1.88, 1.9]])
    summary = judge(plan, rules(), ends(plan, {"eval_loss": values}))
    noise = summary.effects[-1]
    assert noise.kind == "noise" and noise.p < 1e-4 and noise.low > -0.5
    assert (noise.verdict, noise.p_adjusted, noise.seeds_needed) == ("undecided", None, None)
    assert noise.sd == pytest.approx(np.std(values[2] - values[0], ddof=1))
    assert summary.arms[-1].name == "pre_ln, A/A"
    assert not summary.decided  # op is as good as pre_ln here, with no margin to say so
    assert judge(plan, rules(judged=TIGHT), ends(plan, {"eval_loss": values})).decided
