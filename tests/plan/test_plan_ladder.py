"""A ladder of sizes as a plan: what is trained at each size, what is compared, and what is held equal."""

from __future__ import annotations

import json

import pytest
from space_fixtures import space

from ablate.plan.build import build_plan
from ablate.report.screens import check
from ablate.store.documents import Documents, plan_document
from ablate.verdict.experiment import experiment_of
from ablate.verdict.fairness_audit import unequal

SIZES = (
    "[{model.width: 48, recipe.steps: 40}, {model.width: 16, recipe.steps: 10}, {model.width: 32, recipe.steps: 20}]"
)
LADDER = f"{{ladder: {{compare: [pre_ln, op], sizes: {SIZES}}}}}"
NAMES = ["width=16 steps=10", "width=32 steps=20", "width=48 steps=40"]

pytestmark = pytest.mark.fast


def planned(folder, design=LADDER, **sections):
    return build_plan(space(folder, design=design, **({"seeds": "2"} | sections)), vocab_size=256, corpus="text")


def ladder_of(plan):
    ((_, ladder),) = plan.ladders
    return ladder


def test_every_treatment_is_trained_at_every_size_from_the_least_compute_on(tmp_path):
    plan = planned(tmp_path)
    ladder = ladder_of(plan)
    assert [step.size for step in ladder.steps] == NAMES
    assert [variant.name for variant in plan.variants] == [f"{b} at {s}" for s in NAMES for b in ("pre_ln", "op")]
    sizes = {trial.variant: (trial.work.architecture.sizes.d_model, trial.work.recipe.steps) for trial in plan.trials}
    steps = {dict(step.variants)[name]: step.size for step in ladder.steps for name in ("pre_ln", "op")}
    assert all(f"width={width} steps={count}" == steps[id] for id, (width, count) in sizes.items())
    assert plan.variant(plan.baseline).name == "pre_ln at width=48 steps=40"


def test_each_size_is_a_comparison_and_all_of_them_a_trend(tmp_path):
    plan = planned(tmp_path)
    assert [(c.kind, c.change) for c in plan.comparisons] == [
        *(("edit", f"op at {size}") for size in NAMES),
        ("trend", "op over sizes"),
    ]
    names = {variant.id: variant.name for variant in plan.variants}
    assert [(names[c.before], names[c.after]) for c in plan.comparisons[:3]] == [
        (f"pre_ln at {size}", f"op at {size}") for size in NAMES
    ]


def test_a_size_is_the_trial_that_a_space_of_that_size_would_train(tmp_path):
    plan = planned(tmp_path)
    alone = planned(
        tmp_path,
        "{compare: [pre_ln, op]}",
        model="{layers: 4, width: 32, heads: 4, context: 16, position: sinusoidal, init: {normal: 0.02}}",
        recipe="{steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
    )
    assert {trial.id for trial in alone.trials} < {trial.id for trial in plan.trials}


def test_the_next_size_is_counted_and_not_trained(tmp_path):
    design = f"{{ladder: {{compare: [pre_ln, op], sizes: {SIZES}, next: {{model.width: 64, recipe.steps: 80}}}}}}"
    plan, at_64 = (
        planned(tmp_path, design),
        planned(tmp_path, LADDER.replace("48, recipe.steps: 40", "64, recipe.steps: 80")),
    )
    ladder, last = ladder_of(plan), at_64.variant(at_64.baseline)
    assert ladder.next == "width=64 steps=80"
    recipe = next(trial.work.recipe for trial in at_64.trials if trial.variant == last.id)
    assert dict(ladder.next_compute)["pre_ln"] == last.cost.training_flops * recipe.batch * recipe.steps
    assert len(plan.trials) == len(planned(tmp_path).trials)


def test_what_is_held_equal_is_so_at_each_size(tmp_path):
    fair = "{budget: flops, match: {parameters: 2%, by: mlp}, tune: none, under: {}}"
    sas = LADDER.replace("op]", "sas]")
    plan = planned(tmp_path, sas, fair=fair)
    for step in ladder_of(plan).steps:
        before, after = (plan.variant(dict(step.variants)[name]) for name in ("pre_ln", "sas"))
        assert after.parameters == pytest.approx(before.parameters, rel=0.02)
        spent = {v.id: v.cost.training_flops * steps_of(plan, v) for v in (before, after)}
        assert spent[after.id] == pytest.approx(spent[before.id], rel=0.1)
    twin = planned(tmp_path, sas)
    for step, alone in zip(ladder_of(plan).steps, ladder_of(twin).steps, strict=True):
        held, free = plan.variant(dict(step.variants)["pre_ln"]), twin.variant(dict(alone.variants)["pre_ln"])
        assert held.id == free.id and held.parameters == free.parameters, "each baseline stays as its size has it"
    off = [
        twin.variant(dict(step.variants)["sas"]).parameters / twin.variant(dict(step.variants)["pre_ln"]).parameters
        for step in ladder_of(twin).steps
    ]
    assert any(abs(share - 1) > 0.02 for share in off), "without the match they differ"


def steps_of(plan, variant):
    return next(trial.work.recipe.steps for trial in plan.trials if trial.variant == variant.id)


def test_each_size_has_a_rate_of_its_own_or_it_is_said(tmp_path):
    tuned = planned(tmp_path, fair="{budget: steps, match: none, tune: {lr: [1e-3, 1e-2], seeds: 1}, under: {}}")
    assert len(tuned.trials) == 6 * 2 and tuned.open
    assert any(note.startswith("each treatment is tuned at each size") for note in tuned.notes)
    assert any(note.startswith("every size has the same learning rate") for note in planned(tmp_path).notes)


def test_its_trends_are_told_as_json_too(tmp_path):
    told = json.loads(check.space(space(tmp_path, design=LADDER), planned(tmp_path), as_json=True))
    assert told["trends"] == ["op over sizes"]
    alone = "{compare: [pre_ln, op]}"
    assert "trends" not in json.loads(
        check.space(space(tmp_path, design=alone), planned(tmp_path, alone), as_json=True)
    )


def test_a_plan_without_a_ladder_is_written_as_ever(tmp_path):
    assert "ladders" not in plan_document(planned(tmp_path, "{compare: [pre_ln, op]}"), Documents(source=""))
    assert "ladders" in plan_document(planned(tmp_path), Documents(source=""))


def test_compute_is_counted_of_all_sequences_and_steps(tmp_path):
    plan = planned(tmp_path, LADDER.replace("width: 32,", "width: 32, recipe.batch: 6,"))
    known = {variant.id: variant.compute for variant in experiment_of(plan).variants}
    for trial in plan.trials:
        variant = plan.variant(trial.variant)
        assert known[variant.id] == variant.cost.training_flops * trial.work.recipe.batch * trial.work.recipe.steps
    assert {trial.work.recipe.batch for trial in plan.trials} == {4, 6}


def test_the_audit_compares_with_the_baseline_of_the_same_size(tmp_path):
    found = space(tmp_path, design=LADDER, seeds="2")
    plan = build_plan(found, vocab_size=256, corpus="text")
    (audit,) = unequal(plan, found)
    assert {row.name for row in audit.rows} == {f"op at {size}" for size in NAMES}
    assert {row.quantity for row in audit.rows} <= {"parameters", "FLOPs of a forward pass", "training FLOPs"}
    assert "steps" in audit.equal and "width" in audit.equal
