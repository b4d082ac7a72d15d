"""Verdicts: what is claimed when it is true, when it is not, and when there is little to go by."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from report_fixtures import LOSS, PEAK, finals, losses, path, rules, trial
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ablate.plan.plan import Comparison, Setting
from ablate.report import wording
from ablate.space.judge import Judged
from ablate.verdict.experiment import Final, experiment_of
from ablate.verdict.hypothesis_test import absolute_margin
from ablate.verdict.judge import judge
from ablate.verdict.summary import Effect, ExpectedStep

FREE = Judged(margin="none", scale="linear", better="lower")
TIGHT = Judged(margin=0.02, scale="linear", better="lower")


def one_edit(before, after, judged=LOSS, metric="eval_loss", confidence=0.95) -> Effect:
    """The edit of a plan with a single one; sides as `report_fixtures.finals` takes them."""
    plan = path("edit", seeds=max(len(before), len(after)))
    return judge(plan, rules(confidence, **{metric: judged}), finals({"v0": before, "v1": after})).effects[0]


def simulate(shifts, *, judged, times=2000, seeds=5, sd=0.01, rng=0) -> list[tuple[Effect, ...]]:
    """Judge a path `times` times; edit i moves the loss by shifts[i]; seeds share noise, arms have their own."""
    generator = np.random.default_rng(rng)
    plan = path(*(f"edit{i}" for i in range(len(shifts))), seeds=seeds)
    levels = 2.3 + np.concatenate([[0.0], np.cumsum(shifts)])
    found = []
    for _ in range(times):
        common = generator.normal(0, 0.05, seeds)
        drawn = {f"v{i}": losses(*(level + common + generator.normal(0, sd, seeds))) for i, level in enumerate(levels)}
        found.append(judge(plan, rules(eval_loss=judged), finals(drawn)).comparisons("edit"))
    return [tuple(effects[0] for effects in comparisons) for comparisons in found]


def share(simulated, *verdicts) -> float:
    """How often any edit got one of the verdicts."""
    return float(np.mean([any(effect.verdict in verdicts for effect in edits) for edits in simulated]))


def test_one_null_is_called_better_or_worse_one_time_in_twenty():
    assert share(simulate([0.0], judged=FREE), "better", "worse") <= 0.057


@pytest.mark.full
def test_a_family_of_nulls_errs_no_more_often_than_one():
    simulated = simulate([0.0, 0.0, 0.0], judged=FREE)
    assert share(simulated, "better", "worse") <= 0.057
    unadjusted = np.mean([any(effect.p < 0.05 for effect in edits) for edits in simulated])
    assert unadjusted > 0.08  # which is what Holm is for


def test_a_real_effect_is_found():
    simulated = simulate([-0.04, 0.0, 0.04], judged=FREE, times=300)
    assert np.mean([edits[0].verdict == "better" for edits in simulated]) > 0.8
    assert np.mean([edits[2].verdict == "worse" for edits in simulated]) > 0.8


@pytest.mark.full
def test_a_difference_as_large_as_the_margin_passes_as_equivalent_one_time_in_twenty():
    assert share(simulate([0.02], judged=TIGHT, seeds=8), "equivalent") <= 0.057


def test_no_difference_is_found_equivalent():
    assert share(simulate([0.0], judged=TIGHT, times=300, seeds=8), "equivalent") > 0.8


def test_the_direction_is_the_metrics():
    before, after = losses(2.31, 2.29, 2.33, 2.30), losses(2.21, 2.18, 2.24, 2.20)
    higher = Judged(margin="none", scale="linear", better="higher")
    assert one_edit(before, after, FREE).verdict == "better"
    assert one_edit(after, before, FREE).verdict == "worse"
    assert one_edit(before, after, higher).verdict == "worse"


def test_two_sides_whose_losses_are_the_same_bits_are_identical_and_more_seeds_change_nothing():
    before = losses(2.31, 2.29, 2.33)
    effect = one_edit(before, before, TIGHT)
    assert (effect.verdict, effect.identical, effect.seeds_needed) == ("undecided", True, None)
    assert "identical at every seed; more seeds change nothing" in effect.note and "sign test" not in effect.note
    assert wording.verdict(effect) == "identical"
    plan = path("edit", seeds=3)
    assert judge(plan, rules(eval_loss=TIGHT), finals({"v0": before, "v1": before})).decided


def test_a_table_may_have_rounded_its_numbers_so_that_ties_in_it_are_not_identical():
    plan, before = path("edit", seeds=3), losses(2.31, 2.29, 2.33)
    table = replace(experiment_of(plan), elsewhere=True)
    found = judge(table, rules(eval_loss=TIGHT), finals({"v0": before, "v1": before}))
    assert not any(effect.identical for effect in found.effects) and not found.decided


def test_a_claim_of_equivalence_is_fulfilled_by_two_that_are_identical_and_one_of_a_difference_is_not():
    effect = one_edit(losses(2.31, 2.29), losses(2.31, 2.29), TIGHT)
    outcomes = [ExpectedStep(verdicts=(said,), effect=effect).outcome for said in ("equivalent", "better")]
    assert outcomes == ["as expected", "not as expected"]


def test_an_equal_metric_beside_another_loss_is_not_identical():
    peaks = {"v0": [(2.31, 5.0), (2.29, 6.0), (2.33, 5.5)], "v1": [(2.31, 5.0), (2.29, 6.0), (2.3300001, 5.5)]}
    ends = finals(
        {name: [{"eval_loss": loss, "peak_kurtosis": peak} for loss, peak in of] for name, of in peaks.items()}
    )
    found = judge(path("edit", seeds=3), rules(eval_loss=TIGHT, peak_kurtosis=PEAK), ends)
    (tied,) = (effect for effect in found.effects if effect.metric == "peak_kurtosis" and effect.kind == "edit")
    assert tied.estimate == 0 and not tied.identical and not found.decided


def test_one_seed_is_never_identical():
    effect = one_edit(losses(2.31), losses(2.31), TIGHT)
    assert not effect.identical


def test_a_sure_difference_inside_the_margin_is_equivalent_and_said_to_differ():
    effect = one_edit(losses(2.31, 2.29, 2.33, 2.30), losses(2.313, 2.2931, 2.333, 2.3029))
    assert (effect.verdict, effect.differs) == ("equivalent", True)
    assert effect.p_adjusted < 0.05


def test_without_a_margin_nothing_is_equivalent():
    before, after = losses(2.31, 2.29, 2.33, 2.30), losses(2.3101, 2.2898, 2.3301, 2.2999)
    assert one_edit(before, after).verdict == "equivalent"
    assert one_edit(before, after, FREE).verdict == "undecided"


def test_confidence_moves_the_verdict():
    before, after = losses(2.31, 2.29, 2.33, 2.30), losses(2.29, 2.26, 2.32, 2.28)
    assert one_edit(before, after, FREE).verdict == "better"
    assert one_edit(before, after, FREE, confidence=0.99).verdict == "undecided"


@pytest.mark.parametrize(
    ("margin", "log", "expected"),
    [("1%", False, 0.025), (0.04, False, 0.04), ("5%", True, math.log(1.05)), (0.1, True, 0.1), ("none", True, None),
     ("0%", False, None)],
)  # fmt: skip
def test_margins_are_absolute_on_their_scale(margin, log, expected):
    assert absolute_margin(margin, log=log, baseline_mean=-2.5) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("mean", [None, 0.0])
def test_a_share_of_nothing_is_no_margin(mean):
    assert absolute_margin("1%", log=False, baseline_mean=mean) is None


def test_a_margin_of_five_percent_is_a_factor_of_1_05():
    peak = Judged(margin="5%", scale="log", better="lower")
    before = [{"peak": x} for x in (3.0, 2.0, 4.0, 3.5)]
    assert one_edit(before, [{"peak": x["peak"] * f} for x, f in zip(before, (1.04, 1.035, 1.045, 1.04), strict=True)],
                    peak, "peak").verdict == "equivalent"  # fmt: skip
    assert one_edit(before, [{"peak": x["peak"] * f} for x, f in zip(before, (1.06, 1.055, 1.065, 1.06), strict=True)],
                    peak, "peak").verdict == "worse"  # fmt: skip


def test_the_margin_is_the_baselines_even_between_later_steps():
    plan = path("a", "b")
    ends = {"v0": losses(2.0, 2.1, 2.2, 2.0, 2.2), "v1": losses(*[100.0] * 5), "v2": losses(*[100.0] * 5)}
    effects = judge(plan, rules(), finals(ends)).effects
    assert [effect.margin for effect in effects] == pytest.approx([0.021] * 4)


def test_holm_covers_all_distinct_comparisons_of_a_metric():
    """The first edit of a path is also the first step against its baseline: three edits, two more comparisons."""
    plan = path("a", "b", "c")
    generator = np.random.default_rng(3)
    ends = {f"v{i}": losses(*(2.3 + shift + generator.normal(0, 0.01, 5))) for i, shift in enumerate((0, 0.04, 0, 0))}
    summary = judge(plan, rules(), finals(ends))
    family = sorted({(effect.p, effect.p_adjusted, effect.q) for effect in summary.effects})
    assert len(summary.effects) == 6 and len(family) == summary.tests == 5
    p = [one for one, _, _ in family]
    assert [one for _, one, _ in family] == pytest.approx(multipletests(p, method="holm")[1])
    assert [one for _, _, one in family] == pytest.approx(multipletests(p, method="fdr_bh")[1])


@pytest.mark.full
def test_the_equivalences_of_a_metric_are_a_family_of_their_own():
    plan = path("a", "b", "c")
    generator = np.random.default_rng(3)
    ends = {f"v{i}": losses(*(2.3 + generator.normal(0, 0.0095, 5))) for i in range(4)}
    effects = judge(plan, rules(eval_loss=TIGHT), finals(ends)).effects
    for effect in effects:
        d = np.subtract(*([end["eval_loss"] for end in ends[id]] for id in (effect.after, effect.before)))
        below = stats.ttest_1samp(d, -0.02, alternative="greater").pvalue
        above = stats.ttest_1samp(d, 0.02, alternative="less").pvalue
        assert effect.p_equivalent == pytest.approx(max(below, above))
    family = sorted({(effect.p_equivalent, effect.p_equivalent_adjusted, effect.verdict) for effect in effects})
    expected = multipletests([p for p, _, _ in family], method="holm")[1]
    assert [one for _, one, _ in family] == pytest.approx(expected)
    verdicts = ["equivalent" if p < 0.04 else "undecided" for p in expected]
    assert [verdict for _, _, verdict in family] == verdicts and len(set(verdicts)) == 2


def test_nothing_run():
    effect = one_edit([None] * 5, [None] * 5)
    assert (effect.n, effect.verdict, effect.estimate, effect.seeds_needed) == (0, "undecided", None, None)
    assert "seeds 1, 2, 3, 4, 5 not paired: not run before, not run after" in effect.note
    assert "no seed has a result on both sides" in effect.note


def test_one_seed_has_a_difference_and_no_interval():
    effect = one_edit(losses(2.3), losses(2.2))
    assert (effect.n, effect.verdict) == (1, "undecided")
    assert effect.estimate == pytest.approx(-0.1)
    assert (effect.low, effect.p, effect.seeds_needed) == (None, None, None)
    assert "one pair has no spread" in effect.note


def test_only_common_seeds_are_paired_and_the_others_named():
    effect = one_edit([*losses(2.3, 2.31, 2.29), "bug", None], losses(2.2, 2.215, 2.19, 2.1, 9.9))
    assert effect.n == 3
    assert effect.estimate == pytest.approx(np.mean([2.2 - 2.3, 2.215 - 2.31, 2.19 - 2.29]))
    assert "seed 4 not paired: bug before" in effect.note
    assert "seed 5 not paired: not run before" in effect.note


def test_a_diverged_seed_is_counted_and_the_rest_called_survivors():
    effect = one_edit(losses(2.3, 2.31, 2.29, 2.3), [*losses(2.2, 2.215, 2.19), "diverged"])
    assert (effect.n, effect.diverged_after, effect.ended_after, effect.verdict) == (3, 1, 4, "undecided")
    assert effect.survivors and effect.ranked == 4
    assert "survivors only: 0 of 4 diverged before, 1 of 4 after" in effect.note
    assert not one_edit(losses(2.3, 2.31), losses(2.2, 2.215)).survivors


@pytest.mark.parametrize("side", ["before", "after"])
def test_all_diverged_on_one_side_is_its_own_verdict(side):
    gone, fine = ["diverged"] * 3, losses(2.3, 2.31, 2.29)
    effect = one_edit(gone, fine) if side == "before" else one_edit(fine, gone)
    assert (effect.verdict, effect.n, effect.estimate) == ("diverged", 0, None)
    assert getattr(effect, f"diverged_{side}") == 3


def test_a_relative_margin_of_a_diverged_baseline_is_said_to_be_missing():
    plan = path("edit", seeds=2)
    summary = judge(plan, rules(), finals({"v0": ["diverged"] * 2, "v1": losses(2.3, 2.4)}))
    assert summary.metrics[0].margin is None
    assert summary.metrics[0].why_no_margin == "1 % of pre_ln's mean is undefined, pre_ln diverged at every seed"


@pytest.mark.parametrize(("value", "judged"), [(math.nan, LOSS), (math.inf, LOSS), (0.0, PEAK), (-1.0, PEAK)])
def test_a_value_that_is_no_number_leaves_its_pair_and_is_named(value, judged):
    effect = one_edit([{"m": x} for x in (3.0, 3.1, 3.2)], [{"m": x} for x in (2.0, 2.2, value)], judged, "m")
    assert effect.n == 2
    assert f"seed 3 not paired: m is {value:g} after" in effect.note


def test_a_metric_nobody_measured_is_named():
    effect = one_edit(losses(2.3, 2.4), losses(2.3, 2.4), FREE, "token_correlation")
    assert (effect.n, effect.verdict) == (0, "undecided")
    assert "no token_correlation before, no token_correlation after" in effect.note


@pytest.mark.parametrize(("n", "verdict"), [(4, "undecided"), (5, "equivalent")])
def test_identical_sides_need_five_seeds_to_be_equivalent(n, verdict):
    ties = [{"gradient_norm": 2.3 + 0.01 * i, "eval_loss": 1.0} for i in range(n)]
    effect = one_edit(ties, [each | {"eval_loss": 1.1} for each in ties], metric="gradient_norm")
    assert (effect.verdict, effect.estimate, effect.identical) == (verdict, 0.0, False)
    # More seeds would be judged a second time, at 0.8 %: 2^-n is below it from seven on.
    assert effect.seeds_needed == (7 if verdict == "undecided" else None)
    assert "identical at every seed" in effect.note


@pytest.mark.parametrize(("n", "verdict"), [(5, "undecided"), (6, "better")])
def test_a_constant_difference_needs_six(n, verdict):
    before = losses(*(2.3 + 0.01 * i for i in range(n)))
    effect = one_edit(before, losses(*(x["eval_loss"] - 0.5 for x in before)))
    assert effect.verdict == verdict
    assert effect.seeds_needed == (8 if verdict == "undecided" else None)  # 2^(1-n) < 0.8 %


@pytest.mark.full
def test_undecided_says_how_many_seeds_would_do():
    """With that many seeds of the same spread, and no true difference, equivalence is mostly found."""
    before, after = losses(2.31, 2.29, 2.33), losses(2.34, 2.27, 2.345)
    effect = one_edit(before, after)
    assert effect.verdict == "undecided"
    assert effect.seeds_needed > 3
    spread = np.std(np.subtract([2.34, 2.27, 2.345], [2.31, 2.29, 2.33]), ddof=1) / math.sqrt(2)
    margin = Judged(margin=0.0231, scale="linear", better="lower")
    assert share(simulate([0.0], judged=margin, times=200, seeds=effect.seeds_needed, sd=spread), "equivalent") > 0.9
    assert share(simulate([0.0], judged=margin, times=200, seeds=3, sd=spread), "equivalent") < 0.2


def test_arms_have_levels_and_success_rates():
    plan = path("edit", seeds=4)
    ends = {"v0": [{"peak": 1.0}, {"peak": 4.0}, "diverged", None], "v1": [None] * 4}
    arm, empty = judge(plan, rules(peak=PEAK), finals(ends)).arms
    assert arm.levels["peak"].mean == pytest.approx(2.0)
    assert arm.levels["peak"].sd == pytest.approx(np.std(np.log([1.0, 4.0]), ddof=1))
    assert (arm.finished, arm.diverged, arm.ended, arm.missing) == (2, 1, 3, ((4, "not run"),))
    assert 0.2 < arm.success()[0] < 2 / 3 < arm.success()[1] < 1
    assert (empty.levels, empty.success()) == ({}, (0.0, 1.0))


def test_order_of_seeds_and_of_metrics_does_not_matter():
    before, after = [2.31, 2.29, 2.33, 2.36], [2.29, 2.28, 2.335, 2.34]
    ends = finals({"v0": losses(*before), "v1": losses(*after)})
    plan = path("edit", seeds=4)
    backwards: dict[str, Final] = dict(reversed(ends.items()))
    assert judge(plan, rules(), ends) == judge(plan, rules(), backwards)


def test_a_plan_with_two_trials_of_one_seed_cannot_be_paired():
    plan = path("edit")
    doubled = type(plan)(**{**{f: getattr(plan, f) for f in plan.__slots__}, "trials": (*plan.trials, trial("v0", 1))})
    with pytest.raises(ValueError, match="two trials of seed 1"):
        judge(doubled, rules(), {})


def test_trials_of_other_versions_or_devices_are_not_paired():
    plan = path("edit", seeds=3)
    ends = finals({"v0": losses(2.30, 2.31, 2.29), "v1": losses(2.10, 2.12, 2.08)})
    here = {trial: {**end, "versions": "a"} for trial, end in ends.items()}
    assert judge(plan, rules(eval_loss=LOSS), here).effects[0].n == 3  # the same everywhere: all are paired
    here["v1-2"]["versions"] = "b"
    effect = judge(plan, rules(eval_loss=LOSS), here).effects[0]
    assert effect.n == 2
    assert "seed 2 not paired: run with different versions or on different devices" in effect.note


@pytest.mark.full
def test_a_difference_beyond_the_margin_asks_for_the_seeds_that_find_it():
    """A narrow interval would take hundreds; with what is asked instead, a difference of that size is mostly found."""
    noise = np.array([-0.09, 0.07, 0.02, 0.06, -0.06])
    effect = one_edit(losses(*(2.5 + 0 * noise)), losses(*(2.575 + noise)))
    sd = float(np.std(noise, ddof=1))
    assert effect.verdict == "undecided" and effect.estimate == pytest.approx(0.075)
    narrow = 2 * (1.645 * sd / 0.0125) ** 2 / 2  # about what half the margin of 0.025 on each side would take
    assert effect.seeds_needed < narrow / 2
    found = simulate([0.075], judged=Judged(margin="1%", scale="linear", better="lower"), times=200,
                     seeds=effect.seeds_needed, sd=sd / math.sqrt(2))  # fmt: skip
    assert share(found, "worse") > 0.75


def test_trials_that_something_was_chosen_by_have_no_part_in_a_verdict():
    """A variant was tuned at the seed of the verdict, with another setting and on another split."""
    plan = path("edit", seeds=3)
    tuning = tuple(replace(trial(v.id, 1), id=f"{v.id}-tuning", split="tuning") for v in plan.variants)
    ends = finals({"v0": losses(2.30, 2.31, 2.29), "v1": losses(2.10, 2.12, 2.08)})
    tuned = {one.id: Final(status="finished", step=9, metrics={"eval_loss": 9.0}) for one in tuning}
    whole = replace(plan, trials=(*tuning, *plan.trials))
    assert judge(whole, rules(), ends | tuned) == judge(plan, rules(), ends)


def test_more_seeds_of_noise_than_of_the_verdict_are_not_missing_from_it():
    """The baseline is trained at two more seeds beside its A/A arm: no verdict's business, but all of the noise's."""
    plan = path("edit", seeds=3)
    salted = replace(plan.variants[0], id="aa", names=("pre_ln, A/A",), setting=Setting(salt=1))
    seeds = range(1, 6)
    more = (*(trial("v0", seed) for seed in seeds), *(trial("aa", seed) for seed in seeds))
    noise = Comparison(kind="noise", change="nothing", detail="", before="v0", after="aa")
    trials = {one.id: one for one in (*plan.trials, *more)}
    with_noise = replace(
        plan,
        variants=(*plan.variants, salted),
        comparisons=(*plan.comparisons, noise),
        trials=tuple(trials.values()),
    )
    before, after = losses(2.30, 2.31, 2.29, 2.32, 2.28), losses(2.31, 2.30, 2.30, 2.31, 2.29)
    ends = finals({"v0": before, "v1": losses(2.10, 2.12, 2.08), "aa": after})
    summary = judge(with_noise, rules(), ends)
    *effects, aa = summary.effects
    assert [effect.n for effect in effects] == [3, 3] and {effect.note for effect in effects} == {""}
    assert (aa.n, aa.note, summary.arms[0].finished, summary.arms[-1].finished) == (5, "", 3, 5)
    assert aa.sd == pytest.approx(np.std([0.01, -0.01, 0.01, -0.01, 0.01], ddof=1))
