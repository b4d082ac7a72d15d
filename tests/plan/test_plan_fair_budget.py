"""Steps that spend what the baseline spends."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from space_fixtures import space

from ablate.plan.build import build_plan
from ablate.plan.matching import compared_counts, nearest_steps
from ablate.plan.models import Models
from ablate.plan.plan import Known

DESIGN = "{compare: [pre_ln, sas_p, post_ln]}"
JUDGE = "{against: pre_ln, metrics: {eval_loss: {margin: 1%}}}"
STEPS, BATCH = 20, 4


def world(tmp_path, fair, paces=None, **sections):
    found = space(tmp_path, **{"design": DESIGN, "judge": JUDGE, "fair": fair, **sections})
    known = Known(paces=paces or {})
    return found, Models(found, 256, "corpus"), build_plan(found, vocab_size=256, corpus="corpus", known=known)


def steps(plan):
    """By the name of the variant; nobody is trained in two ways."""
    found = {(plan.variant(t.variant).name, t.work.recipe.steps) for t in plan.trials}
    assert len(found) == len({name for name, _ in found})
    return dict(found)


def notes(plan, word):
    return [note for note in plan.notes if word in note]


@given(st.integers(1, 10**6), st.integers(1, 10**15), st.integers(1, 10**15))
def test_no_other_number_of_steps_is_nearer(baseline, wanted, here):
    found = nearest_steps(baseline, wanted, here)
    assert found >= 1
    off = abs(found * here - baseline * wanted)
    assert all(off <= abs(other * here - baseline * wanted) for other in (max(1, found - 1), found + 1))


def test_equal_steps_and_equal_tokens_are_the_same_trials(tmp_path):
    _, _, plain = world(tmp_path, "{budget: steps}")
    _, _, tokens = world(tmp_path, "{budget: tokens}")
    assert [t.id for t in tokens.trials] == [t.id for t in plain.trials]
    assert notes(tokens, "equal tokens: 20") == [
        "equal tokens: 20 steps × 4 sequences × 16 tokens = 1,280 tokens for every block, the same as equal steps"
    ]


def test_equal_flops_are_the_baselines_to_the_nearest_step(tmp_path):
    found, models, plan = world(tmp_path, "{budget: flops}")
    flops = {name: models.cost(found.blocks[name]).flops for name in ("pre_ln", "sas_p", "post_ln")}
    assert flops["sas_p"] < flops["pre_ln"] == flops["post_ln"]
    wanted = STEPS * flops["pre_ln"] / flops["sas_p"]
    assert steps(plan) == {"pre_ln": STEPS, "post_ln": STEPS, "sas_p": math.floor(wanted + 0.5)}
    here = 3 * flops["sas_p"] * BATCH * steps(plan)["sas_p"]
    there = 3 * flops["pre_ln"] * BATCH * STEPS
    (note,) = notes(plan, "sas_p: steps")
    off = f"{100 * (here / there - 1):+.1f} %"
    assert note == f"sas_p: steps 20 → {steps(plan)['sas_p']}, training FLOPs {here:,} against {there:,} ({off})"


def test_the_gradients_of_frozen_weights_are_not_paid_for(tmp_path):
    weights = ", ".join(f"{name}: {{frozen: orthogonal}}" for name in ("query", "key", "value", "projection"))
    frozen = f"{{frozen: [residual: [layer_norm, attention: {{{weights}}}], residual: [layer_norm, mlp]]}}"
    sections = {"design": "{compare: [pre_ln, frozen]}", "blocks": frozen}
    _, models, plan = world(tmp_path, "{budget: flops}", **sections)
    pre_ln, other = plan.variants
    sizes = models.architecture(pre_ln.block).sizes
    spared = 4 * sizes.n_layers * 2 * sizes.seq_len * sizes.d_model**2
    assert (pre_ln.spared, other.spared, other.flops) == (0, spared, pre_ln.flops)
    assert steps(plan)["frozen"] == round(STEPS * 3 * pre_ln.flops / (3 * pre_ln.flops - spared)) > STEPS
    (note,) = notes(plan, "frozen: steps")
    assert f"training FLOPs {(3 * pre_ln.flops - spared) * BATCH * steps(plan)['frozen']:,} against" in note


def test_what_spends_as_much_anyway_is_trained_once(tmp_path):
    _, _, plain = world(tmp_path, "{budget: steps}")
    _, _, both = world(tmp_path, "{under: {equal steps: {budget: steps}, equal FLOPs: {budget: flops}}}")
    assert [v.name for v in both.variants] == ["pre_ln", "sas_p", "post_ln", "sas_p, equal FLOPs"]
    assert {v.name: v.terms for v in both.variants}["post_ln"] == ("equal steps", "equal FLOPs")
    assert {t.id for t in plain.trials} < {t.id for t in both.trials}
    assert len(both.trials) == len(plain.trials) + 2


def test_match_comes_before_the_budget(tmp_path):
    fair = "{budget: flops, match: {parameters: 5%, by: depth}}"
    _, models, plan = world(tmp_path, fair, design="{compare: [pre_ln, sas_p]}")
    pre_ln, sas_p = plan.variants
    assert sas_p.setting.layers == 5
    assert sas_p.flops == models.cost(sas_p.block, sas_p.setting).flops > pre_ln.flops
    assert steps(plan)["sas_p"] == round(STEPS * pre_ln.flops / sas_p.flops) < STEPS


def test_while_paces_are_not_known_nothing_is_trained_that_hangs_on_them(tmp_path):
    fair = "{under: {equal steps: {budget: steps}, equal wall-clock: {budget: wallclock}}}"
    _, _, plan = world(tmp_path, fair)
    waiting = [v for v in plan.variants if v.setting.open]
    assert plan.open
    assert [v.name for v in waiting] == ["sas_p, equal wall-clock", "post_ln, equal wall-clock"]
    assert len({v.id for v in plan.variants}) == 5
    assert {plan.variant(t.variant).name for t in plan.trials} == {"pre_ln", "sas_p", "post_ln"}
    assert [c.change for c in plan.comparisons if c.terms == "equal wall-clock"] == [v.name for v in waiting]
    assert notes(plan, "seconds per step are measured once, when the space runs")


def test_with_paces_steps_take_as_long_as_the_baselines(tmp_path):
    found, models, _ = world(tmp_path, "{budget: wallclock}")
    of = {name: models.as_written(found.blocks[name]) for name in ("pre_ln", "sas_p", "post_ln")}
    paces = {of["pre_ln"]: 0.010, of["sas_p"]: 0.008, of["post_ln"]: 0.010}
    _, _, plan = world(tmp_path, "{budget: wallclock}", paces)
    assert not plan.open
    assert steps(plan) == {"pre_ln": 20, "sas_p": 25, "post_ln": 20}
    assert notes(plan, "sas_p: ") == ["sas_p: steps 20 → 25, 8 ms per step against 10 ms, total time +0.0 %"]
    assert plan.variants[2].setting.plain  # as fast as the baseline, so trained as under equal steps
    _, _, slow = world(tmp_path, "{budget: wallclock}", paces | {of["sas_p"]: 5.0})
    assert steps(slow)["sas_p"] == 1


@pytest.mark.parametrize("missing", ["pre_ln", "sas_p"])
def test_half_of_the_paces_do_not_do(tmp_path, missing):
    found, models, _ = world(tmp_path, "{budget: wallclock}")
    paces = {models.as_written(found.blocks[name]): 0.01 for name in ("pre_ln", "sas_p", "post_ln") if name != missing}
    _, _, plan = world(tmp_path, "{budget: wallclock}", paces)
    assert plan.open
    assert "sas_p" not in steps(plan)
    assert ("post_ln" in steps(plan)) == (missing == "sas_p")


def test_the_schedule_is_that_of_the_steps_it_has(tmp_path):
    _, _, plan = world(tmp_path, "{budget: flops}")
    recipes = {t.work.recipe.steps: t.work.recipe for t in plan.trials}
    (one, other) = recipes.values()
    assert one.model_copy(update={"steps": 0}) == other.model_copy(update={"steps": 0})


def test_the_noise_arm_is_beside_the_baseline_as_it_is(tmp_path):
    _, _, plan = world(tmp_path, "{budget: flops}", noise="{seeds: 3}")
    (noise,) = (v for v in plan.variants if v.setting.salt)
    assert noise.setting.steps is None
    assert sum(t.variant == noise.id for t in plan.trials) == 3


@pytest.mark.parametrize(
    ("here", "wanted", "said"),
    [
        (100, 100, "100 against 100 (the same)"),
        (100_001, 100_000, "100,001 against 100,000 (+0.001 %)"),
        (990, 1000, "990 against 1,000 (-1.0 %)"),
        (2 * 10**12, 10**12, "2.0000e+12 against 1.0000e+12 (+100.0 %)"),
    ],
)
def test_a_residual_is_never_rounded_away(here, wanted, said):
    assert compared_counts(here, wanted) == said


@pytest.mark.parametrize(
    ("seeds", "noise", "at"),
    [("[7, 8]", 3, {7, 8, 0}), ("[1]", 3, {1, 0, 2}), ("4", 2, {0, 1}), ("auto", 5, {*range(5)})],
)
def test_the_noise_arm_takes_the_seeds_of_the_space_first(tmp_path, seeds, noise, at):
    """So that the baseline is trained at no other seeds than it needs."""
    plan = build_plan(space(tmp_path, seeds=seeds, noise=f"{{seeds: {noise}}}"), vocab_size=256, corpus="corpus")
    (arm,) = (variant.id for variant in plan.variants if variant.setting.salt)
    baseline = {trial.seed for trial in plan.trials if trial.variant == plan.baseline}
    assert {trial.seed for trial in plan.trials if trial.variant == arm} == at
    assert baseline == at | set(plan.seeds)
