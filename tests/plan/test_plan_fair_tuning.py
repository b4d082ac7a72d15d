"""Tuning: the same for every variant, on splits and seeds of its own."""

import math

import pytest
from space_fixtures import space

from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.plan import Known
from ablate.plan.tuning import choose, tuning_seeds, tuning_settings
from ablate.space.load import load_space

TUNE = "{tune: {seeds: 2, lr: [1e-3, 1e-2, 1e-1], weight_decay: [0, 0.1]}}"
GRID = [(lr, decay) for lr in (1e-3, 1e-2, 1e-1) for decay in (0.0, 0.1)]
DESIGN = "{compare: [pre_ln, sas_p]}"
JUDGE = "{against: pre_ln, metrics: {eval_loss: {margin: 1%}}}"


def world(tmp_path, **sections):
    return space(tmp_path, **{"design": DESIGN, "judge": JUDGE, "fair": TUNE, **sections})


def planned(found, **known):
    return build_plan(found, vocab_size=256, corpus="corpus", known=Known(**known))


def setting(trial):
    return trial.work.recipe.optimizer.settings["lr"], trial.work.recipe.optimizer.settings["weight_decay"]


def tuned(**values):
    return tuple(values.items())


def finals(plan, value, status=lambda trial: "finished"):
    """Ends of all tuning trials, whose loss is `value(name, setting, seed)`."""
    return {
        t.id: {
            "status": status(t),
            "step": 20,
            "metrics": {"eval_loss": value(plan.variant(t.variant).name, setting(t), t.seed)},
        }
        for t in plan.trials
        if t.split == "tuning"
    }


def best_of(name, at, seed):
    """pre_ln is best at 1e-2 without decay, sas_p at 1e-3 with it."""
    wanted = {"pre_ln": (1e-2, 0.0), "sas_p": (1e-3, 0.1)}[name]
    return 2.0 + abs(math.log10(at[0] / wanted[0])) + abs(at[1] - wanted[1]) + 0.01 * (seed % 2)


def test_every_variant_has_every_setting_at_seeds_and_on_a_split_of_its_own(tmp_path):
    found = world(tmp_path)
    plan = planned(found)
    assert plan.open
    assert {t.split for t in plan.trials} == {"tuning"}
    assert {t.seed for t in plan.trials} == {1_000_000, 1_000_001} == set(tuning_seeds(found.fair.tune))
    for variant in plan.variants:
        its = [(*setting(t), t.seed) for t in plan.trials if t.variant == variant.id]
        assert sorted(its) == sorted((*one, seed) for one in GRID for seed in (1_000_000, 1_000_001))
    assert len({t.id for t in plan.trials}) == 2 * 6 * 2
    assert any(
        note == "each model is tuned over 6 settings (lr 0.001, 0.01, 0.1 × weight decay 0, 0.1), by eval loss on the "
        "tuning split at 2 separate seeds: 24 trials before those of the verdict"
        for note in plan.notes
    )


def test_each_goes_on_with_its_own_best(tmp_path):
    found = world(tmp_path)
    plan = planned(found)
    pre_ln, sas_p = (v.id for v in plan.variants)
    choice = choose(found, plan, finals(plan, best_of))
    assert choice.tuned == {pre_ln: tuned(lr=1e-2, weight_decay=0.0), sas_p: tuned(lr=1e-3, weight_decay=0.1)}
    assert choice.notes == (
        "pre_ln: lr 0.01, weight decay 0 is the best of 6 settings by eval loss",
        "sas_p: lr 0.001, weight decay 0.1 is the best of 6 settings by eval loss; lr and weight decay are at the "
        "edge of their grids: widen them, as the best may lie beyond",
    )
    after = planned(found, tuned=choice.tuned)
    assert not after.open
    assert {t.id for t in plan.trials} < {t.id for t in after.trials}
    verdict = [t for t in after.trials if t.split == "verdict"]
    assert {(t.variant, setting(t), t.seed) for t in verdict} == {
        (pre_ln, (1e-2, 0.0), 0), (pre_ln, (1e-2, 0.0), 1), (sas_p, (1e-3, 0.1), 0), (sas_p, (1e-3, 0.1), 1)
    }  # fmt: skip
    assert [v.id for v in after.variants] == [v.id for v in plan.variants]
    assert [v.setting.tuned for v in after.variants] == list(choice.tuned.values())


def test_a_setting_that_is_the_recipes_shares_the_trials_of_an_untuned_space(tmp_path):
    plan = planned(world(tmp_path))
    of = {v.id: tuned(lr=1e-2, weight_decay=0.1) for v in plan.variants}
    verdict = {t.id for t in planned(world(tmp_path), tuned=of).trials if t.split == "verdict"}
    assert verdict == {t.id for t in planned(world(tmp_path, fair=None)).trials}


def test_some_may_be_chosen_for_before_others(tmp_path):
    found = world(tmp_path)
    plan = planned(found)
    ends = finals(plan, best_of)
    late = next(t.id for t in plan.trials if plan.variant(t.variant).name == "sas_p")
    del ends[late]
    choice = choose(found, plan, ends)
    assert list(choice.tuned) == [plan.variants[0].id]
    after = planned(found, tuned=choice.tuned)
    assert after.open
    assert {after.variant(t.variant).name for t in after.trials if t.split == "verdict"} == {"pre_ln"}
    assert len(choose(found, plan, ends, failed=[late]).tuned) == 2


@pytest.mark.parametrize("how", ["diverged", "infinite", "not a number", "missing", "failed"])
def test_a_setting_that_loses_a_seed_is_not_chosen(tmp_path, how):
    found = world(tmp_path)
    plan = planned(found)
    (lost,) = (
        t.id
        for t in plan.trials
        if plan.variant(t.variant).name == "pre_ln" and setting(t) == (1e-2, 0.0) and t.seed == 1_000_000
    )
    ends = finals(plan, best_of)
    if how == "failed":
        del ends[lost]
    else:
        value = {"infinite": math.inf, "not a number": math.nan}.get(how, 0.0)
        status = "diverged" if how == "diverged" else "finished"
        ends[lost] = {"status": status, "step": 3, "metrics": {} if how == "missing" else {"eval_loss": value}}
    choice = choose(found, plan, ends, failed=[lost] if how == "failed" else ())
    assert choice.tuned[plan.variants[0].id] == tuned(lr=1e-2, weight_decay=0.1)
    assert "6 settings (1 of them without a value at some seed)" in choice.notes[0]


def test_where_all_are_lost_the_recipe_holds_and_that_is_said(tmp_path):
    found = world(tmp_path)
    plan = planned(found)
    choice = choose(found, plan, finals(plan, lambda *_: math.inf))
    assert set(choice.tuned.values()) == {()}
    assert choice.notes[0] == (
        "pre_ln: none of its 6 settings has eval loss at all tuning seeds: trained with the recipe's values"
    )
    after = planned(found, tuned=choice.tuned)
    assert not after.open
    assert {setting(t) for t in after.trials if t.split == "verdict"} == {(1e-2, 0.1)}


def test_means_are_over_seeds_and_on_the_scale_that_is_judged(tmp_path):
    """One setting is better in the mean, the other in the mean of logarithms; higher may be better."""
    pairs = {1e-3: (1.0, 9.0), 1e-2: (4.0, 4.1)}
    found = {}
    for scale in ("linear", "log"):
        for better in ("lower", "higher"):
            judge = f"{{against: pre_ln, metrics: {{peak_kurtosis: {{scale: {scale}, better: {better}}}}}}}"
            it = world(tmp_path, judge=judge, fair="{tune: {seeds: 2, lr: [1e-3, 1e-2]}}")
            plan = planned(it)
            ends = {
                t.id: {
                    "status": "finished",
                    "step": 9,
                    "metrics": {"peak_kurtosis": pairs[setting(t)[0]][t.seed - 1_000_000]},
                }
                for t in plan.trials
            }
            ((_, lr),) = choose(it, plan, ends).tuned[plan.baseline]
            found[scale, better] = lr
    assert found == {
        ("linear", "lower"): 1e-2,
        ("log", "lower"): 1e-3,
        ("linear", "higher"): 1e-3,
        ("log", "higher"): 1e-2,
    }


def test_of_equals_the_one_listed_first_is_chosen(tmp_path):
    found = world(tmp_path)
    plan = planned(found)
    choice = choose(found, plan, finals(plan, lambda *_: 1.0))
    assert set(choice.tuned.values()) == {tuned(lr=1e-3, weight_decay=0.0)}
    # No decay is below 0, so that the least of them is no edge.
    assert choice.notes[0].endswith("; lr is at the edge of its grid: widen it, as the best may lie beyond")


def test_each_of_the_terms_tunes_its_own_models(tmp_path):
    fair = "{tune: {seeds: 1, lr: [1e-3, 1e-2]}, under: {equal steps: {budget: steps}, equal FLOPs: {budget: flops}}}"
    found = world(tmp_path, fair=fair)
    plan = planned(found)
    per = {v.name: sum(t.variant == v.id for t in plan.trials) for v in plan.variants}
    assert per == {"pre_ln": 2, "sas_p": 2, "sas_p, equal FLOPs": 2}
    steps = {plan.variant(t.variant).name: t.work.recipe.steps for t in plan.trials}
    assert steps["sas_p, equal FLOPs"] > steps["sas_p"] == steps["pre_ln"]


def test_the_noise_arm_follows_the_baseline(tmp_path):
    found = world(tmp_path, noise="{seeds: 2}")
    before = planned(found)
    assert not any(t.salt for t in before.trials)
    assert len(before.trials) == 24  # the A/A arm itself is not tuned
    choice = choose(found, before, finals(before, best_of))
    after = planned(found, tuned=choice.tuned)
    assert {setting(t) for t in after.trials if t.salt} == {(1e-2, 0.0)}


def test_without_tuning_there_is_nothing_to_choose(tmp_path):
    found = world(tmp_path, fair=None)
    plan = planned(found)
    assert choose(found, plan, {}).tuned == {}
    assert planned(found, tuned={plan.baseline: tuned(lr=5.0)}).trials == plan.trials


def test_settings_are_all_combinations_in_order(tmp_path):
    listed = tuning_settings(world(tmp_path).fair.tune.fields)
    assert [tuple(value for _, value in one) for one in listed] == GRID


RATE_ALONE = '''
"""Sign descent."""
from ablate.train.optimizers.declare import Document, Positive, implements, optimizer


@optimizer("sign", source="this test")
class Sign(Document):
    lr: Positive


import torch


@implements(Sign)
def build(parameters, settings): ...
'''


def test_a_setting_that_the_optimiser_does_not_have_is_told(tmp_path):
    plugin = tmp_path / "sign.py"
    plugin.write_text(RATE_ALONE, encoding="utf-8")
    path = world(tmp_path, fair="{tune: {seeds: 2, lr: [1e-3, 1e-2]}}").path

    def plan(*settings):
        settings = ["recipe.optimizer={sign: {lr: 1e-2}}", *settings]
        return planned(load_space(path, declarations((plugin,)), settings=settings))

    assert {t.work.recipe.optimizer.settings["lr"] for t in plan().trials} == {1e-3, 1e-2}
    with pytest.raises(InputError, match=r"unknown key .weight_decay. in fair\.tune: sign has no such field"):
        plan("fair.tune.weight_decay=[0, 0.1]")
