"""Tuning any field of the recipe or of the block: what is trained is what a space would train that says the value."""

import math

import pytest
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from space_fixtures import space

from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.models import Models, recipe_at
from ablate.plan.plan import Known
from ablate.plan.tuning import choose
from ablate.session.running import work_of
from ablate.verdict.fairness_audit import unequal

DESIGN = "{compare: [pre_ln, op]}"
JUDGE = "{against: pre_ln, metrics: {eval_loss: {margin: 1%}}}"


def world(tmp_path, fair, *settings):
    return space(tmp_path, *settings, design=DESIGN, judge=JUDGE, fair=fair)


def planned(found, **known):
    return build_plan(found, vocab_size=256, corpus="corpus", known=Known(**known))


def tried(plan, name):
    """What trials of tuning try, for the variant of that name."""
    variant = next(v.id for v in plan.variants if v.name == name)
    of = {trial.id for trial in plan.trials if trial.variant == variant}
    return [setting for id, setting in plan.tried if id in of]


def verdict(plan):
    return {trial.id for trial in plan.trials if trial.split == "verdict"}


FIELDS = [
    ("lr", "3e-3", "recipe.optimizer.adamw.lr", 3e-3),
    ("betas", "[0.8, 0.9]", "recipe.optimizer.adamw.betas", (0.8, 0.9)),
    ("embedding_lr", "1e-3", "recipe.optimizer.adamw.embedding_lr", 1e-3),
    ("head_lr", "1e-3", "recipe.optimizer.adamw.head_lr", 1e-3),
    ("recipe.optimizer.adamw.norm_lr", "1e-3", "recipe.optimizer.adamw.norm_lr", 1e-3),
    ("recipe.optimizer.adamw.decays", "[weights]", "recipe.optimizer.adamw.decays", ("weights",)),
    ("recipe.clip", "null", "recipe.clip", None),
    ("recipe.schedule.warmup", "20%", "recipe.schedule.warmup", 0.2),
    ("recipe.schedule.from_zero", "true", "recipe.schedule.from_zero", True),
    ("recipe.schedule.floor", "{rate: 1e-4}", "recipe.schedule.floor", "{rate: 0.0001}"),
    ("recipe.schedule.decay", "cosine", "recipe.schedule.decay", "cosine"),
    ("recipe.schedule.decay", "{polynomial: {power: 2}}", "recipe.schedule.decay", "{polynomial: {power: 2}}"),
    ("recipe.optimizer", "{sgd: {lr: 0.1}}", "recipe.optimizer", "{sgd: {lr: 0.1}}"),
    ("recipe.optimizer", "{adamw: {lr: 3e-3}}", "recipe.optimizer", "{adamw: {lr: 0.003}}"),
    ("mlp.activation", "relu", "block.mlp.activation", "relu"),
    ("mlp.hidden", "2x", "block.mlp.hidden", "2x"),
    ("attention.scale", "0.5", "block.attention.scale", 0.5),
    ("attention.dropout", "0.1", "block.attention.dropout", 0.1),
    ("attention.position", "{rope: {base: 500}}", "block.attention.position", "{rope: {base: 500}}"),
    ("layers.*.*_residual.gain", "0.5", "block.*_residual.gain", 0.5),
]
OTHER = {"betas": "[0.85, 0.95]", "recipe.optimizer.adamw.decays": "[biases]", "recipe.schedule.from_zero": "false",
         "recipe.schedule.decay": "{wsd: {over: 20%, shape: sqrt}}", "recipe.optimizer": "{muon: {lr: 1e-2}}",
         "mlp.activation": "silu", "mlp.hidden": "3x",
         "attention.position": "none"}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("address", "value", "said", "plain"), FIELDS, ids=[f"{field[0]} {field[1]}" for field in FIELDS]
)
def test_what_is_chosen_is_the_trial_of_a_space_that_says_it(tmp_path, address, value, said, plain):
    found = world(tmp_path, f"{{tune: {{{address}: [{value}, {OTHER.get(address, 0.25)}], seeds: 1}}}}")
    name = address.removeprefix("layers.*.")
    before = planned(found)
    assert next(setting[0] for setting in tried(before, "op")) == (name, plain)
    chosen = {variant.id: ((name, plain),) for variant in before.variants}
    after = planned(found, tuned=chosen)
    assert [v.id for v in after.variants] == [v.id for v in before.variants]
    assert [v.name for v in after.variants] == ["pre_ln", "op"]
    saying = planned(world(tmp_path, None, f"{said}={value}"))
    assert verdict(after) == verdict(saying)
    assert verdict(after).isdisjoint(verdict(planned(world(tmp_path, None)))), "the twin: the space alone trains others"
    counts = [(v.parameters, v.flops) for v in after.variants]
    assert counts == [(v.parameters, v.flops) for v in saying.variants]


@given(
    warmup=st.lists(st.floats(0, 0.5), min_size=2, max_size=3, unique=True),
    clip=st.lists(st.floats(0.1, 9) | st.none(), min_size=2, max_size=3, unique=True),
)
@settings(max_examples=examples_of(15), deadline=None)
def test_every_combination_is_the_recipe_with_just_these_values(tmp_path_factory, warmup, clip):
    said = ", ".join("null" if value is None else repr(value) for value in clip)
    tune = f"{{recipe: {{schedule: {{warmup: {warmup!r}}}}}, recipe.clip: [{said}], seeds: 1}}"
    found = world(tmp_path_factory.mktemp("grid"), f"{{tune: {tune}}}")
    plan = planned(found)
    of = {trial.id: trial.work.recipe.model_dump() for trial in plan.trials}
    wanted = found.recipe.model_dump()
    seen = []
    for id, setting in plan.tried:
        values = dict(setting)
        wanted["schedule"]["warmup"], wanted["clip"] = values["recipe.schedule.warmup"], values["recipe.clip"]
        assert of[id] == wanted
        seen.append((values["recipe.schedule.warmup"], values["recipe.clip"]))
    assert sorted(map(str, seen)) == sorted(str((w, c)) for w in warmup for c in clip for _ in plan.variants)


@pytest.mark.fast
def test_a_block_without_a_field_is_not_tuned_in_it_and_that_is_said(tmp_path):
    found = world(tmp_path, "{tune: {attention_norm.eps: [1e-6, 1e-3], lr: [1e-3, 1e-2], seeds: 2}}")
    plan = planned(found)
    assert len(tried(plan, "pre_ln")) == 4 * 2 and len(tried(plan, "op")) == 2 * 2
    assert {name for setting in tried(plan, "op") for name, _ in setting} == {"lr"}
    assert "op has no attention_norm.eps: it is tuned over 2 settings" in plan.notes
    assert any(
        note.startswith(
            "each model is tuned over 4 settings (attention_norm.eps 1e-06, 0.001 × lr 0.001, 0.01) where it has these "
            "fields, by eval loss on the tuning split at 2 separate seeds: 12 trials before"
        )
        for note in plan.notes
    )
    (under,) = unequal(plan, found)
    told = {(row.name, row.quantity): (row.baseline, row.here) for row in under.rows}
    assert told["op", "attention_norm.eps"] == ("not known yet", "absent")
    assert told["op", "tuning trials"] == ("8", "4")
    assert under.declared == "each tuned over the same settings, for the fields it has"


@pytest.mark.fast
def test_a_block_with_nothing_to_choose_is_trained_at_once_with_what_is_listed_alone(tmp_path):
    found = world(tmp_path, "{tune: {attention_norm.eps: [1e-6, 1e-3], weight_decay: [0.25], seeds: 1}}")
    plan = planned(found)
    op = next(v for v in plan.variants if v.name == "op")
    assert plan.open and not tried(plan, "op") and op.setting.tuned == (("weight_decay", 0.25),)
    assert "op has no attention_norm.eps: it is not tuned" in plan.notes
    ready = [trial for trial in plan.trials if trial.split == "verdict"]
    assert {trial.variant for trial in ready} == {op.id}
    saying = planned(world(tmp_path, None, "recipe.optimizer.adamw.weight_decay=0.25"))
    assert verdict(plan) < verdict(saying)


@pytest.mark.fast
def test_the_best_is_told_and_an_edge_only_of_numbers(tmp_path):
    found = world(tmp_path, "{tune: {recipe.schedule.warmup: [0.1, 0.2], mlp.activation: [gelu, relu], seeds: 1}}")
    plan = planned(found)
    of = dict(plan.tried)
    values = {id: dict(setting) for id, setting in of.items()}
    losses = {id: v["recipe.schedule.warmup"] + 0.5 * (v["mlp.activation"] == "gelu") for id, v in values.items()}
    ends = {id: {"status": "finished", "metrics": {"eval_loss": math.exp(loss)}} for id, loss in losses.items()}
    choice = choose(found, plan, ends)
    assert set(choice.tuned.values()) == {(("recipe.schedule.warmup", 0.1), ("mlp.activation", "relu"))}
    assert choice.notes[0] == (
        "pre_ln: recipe.schedule.warmup 0.1, mlp.activation relu is the best of 4 settings by eval loss; "
        "recipe.schedule.warmup is at the edge of its grid: widen it, as the best may lie beyond"
    )
    after = planned(found, tuned=choice.tuned)
    (under,) = unequal(after, found)
    assert "mlp.activation" in under.equal and "recipe.schedule.warmup" in under.equal
    models = Models(found, 256, "corpus")
    assert models.recipe(after.variants[0].setting) == recipe_at(found, after.variants[0].setting.tuned)
    labels = [work.label for work in work_of(plan, plan.trials)]
    assert len(set(labels)) == len(labels)
    assert labels[0] == "pre_ln · seed 1000000, recipe.schedule.warmup 0.1, mlp.activation gelu, tuning"


@pytest.mark.fast
def test_where_no_setting_has_a_number_the_block_is_as_the_space_has_it(tmp_path):
    found = world(tmp_path, "{tune: {mlp.activation: [relu, silu], seeds: 1}}")
    plan = planned(found)
    choice = choose(found, plan, {}, failed=[trial.id for trial in plan.trials])
    assert set(choice.tuned.values()) == {()}
    after = planned(
        found, tuned={plan.baseline: (), **{v.id: (("mlp.activation", "relu"),) for v in plan.variants[1:]}}
    )
    (under,) = unequal(after, found)
    (row,) = (row for row in under.rows if row.quantity == "mlp.activation")
    assert (row.baseline, row.here) == ("as in the space", "relu")


@pytest.mark.fast
def test_sizes_that_tuning_chose_are_those_that_are_told_to_be_unequal(tmp_path):
    found = world(tmp_path, "{tune: {mlp.hidden: [2x, 4x], seeds: 1}}")
    pre_ln, op = (variant.id for variant in planned(found).variants)
    plan = planned(found, tuned={pre_ln: (("mlp.hidden", "4x"),), op: (("mlp.hidden", "2x"),)})
    (under,) = unequal(plan, found)
    told = {row.quantity: (row.baseline, row.here) for row in under.rows}
    assert told["hidden width of MLPs"] == ("128", "64") and told["mlp.hidden"] == ("4x", "2x")
    two_matrices_less = 4 * 2 * 32 * 64  # in each layer, by the width and half the hidden units
    assert plan.variant(op).parameters == planned(found).variant(op).parameters - two_matrices_less


@pytest.mark.fast
def test_settings_that_come_to_the_same_share_their_trials(tmp_path):
    """A norm that is taken out has no eps that could matter: two of four settings are one model."""
    blocks = "{normed: [residual: [layer_norm, attention: {pre_v: rms_norm}], residual: [layer_norm, mlp]]}"
    tune = "{attention.pre_v: [none, rms_norm], attention.pre_v.eps: [1e-6, 1e-3], seeds: 1}"
    found = space(
        tmp_path, blocks=blocks, design="{compare: [op, normed]}", judge=JUDGE.replace("pre_ln", "op"),
        fair=f"{{tune: {tune}}}", constraints="{one_norm: warn}",
    )  # fmt: skip
    plan = planned(found)
    normed = next(v for v in plan.variants if v.name == "normed")
    trials = [trial for trial in plan.trials if trial.variant == normed.id and trial.split == "tuning"]
    assert len(tried(plan, "normed")) == 4 and len(trials) == 3
    same = next(id for id, setting in plan.tried if dict(setting).get("attention.pre_v") == "none")
    ends = {
        trial.id: {"status": "finished", "metrics": {"eval_loss": 2.0 - (trial.id == same)}} for trial in plan.trials
    }
    chosen = choose(found, plan, ends)
    assert chosen.tuned[normed.id] == (("attention.pre_v", "none"), ("attention.pre_v.eps", 1e-6))


@pytest.mark.fast
def test_one_optimiser_is_not_listed_twice_however_it_is_written(tmp_path):
    twice = "[{sgd: {lr: 0.1}}, {sgd: {momentum: 0.9, lr: 1e-1}}]"
    with pytest.raises(InputError, match="is listed twice"):
        world(tmp_path, f"{{tune: {{recipe.optimizer: {twice}, seeds: 1}}}}")
    assert world(tmp_path, f"{{tune: {{recipe.optimizer: {twice.replace('0.9', '0.8')}, seeds: 1}}}}")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("address", "values", "told"),
    [
        ("recipe.optimizer.sgd.lr", "[0.1, 0.2]", "the space has optimiser adamw, not sgd"),
        ("recipe.optimizer.muon.momentum", "[0.9, 0.95]", "the space has optimiser adamw, not muon"),
        ("recipe.schedule.decay.wsd.over", "[10%, 20%]", "the space has schedule linear, not wsd"),
    ],
)
def test_a_setting_of_another_optimiser_or_schedule_is_not_tuned(tmp_path, address, values, told):
    """It would put that one in the place of the space's own, for the verdict as well."""
    with pytest.raises(InputError) as refused:
        world(tmp_path, f"{{tune: {{{address}: {values}, seeds: 1}}}}")
    assert told in str(refused.value) and "to choose among several" in str(refused.value)
    assert ("here it is recipe.optimizer.adamw.lr" in str(refused.value)) == address.endswith(".lr")
