"""Options of the head and the loss: a trial without them is the trial that it was before there were any."""

from __future__ import annotations

import pytest
from tiny_spaces import write_world

import ablate
from ablate.store.documents import trial_document


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    path = write_world(folder, seeds=1)

    def trials(*settings):
        space = ablate.load_space(path, settings=list(settings))
        return ablate.plan_space(space, results=folder).plan.trials

    return trials


@pytest.mark.parametrize(
    "settings",
    [
        ("recipe.loss={z: 0}",),
        ("model.logit_softcap=none", "recipe.loss.z=0"),
        ("model.ahead=0",),
        ("recipe.optimizer.adamw.head_lr=null", "recipe.optimizer.adamw.norm_lr=null"),
    ],
)
def test_at_their_neutral_values_they_have_no_part_in_an_identity(trials, settings):
    before, after = trials()[0], trials(*settings)[0]
    assert (after.id, after.conditions) == (before.id, before.conditions)
    document = trial_document(after)
    assert document == trial_document(before)
    assert "loss" not in document["recipe"]
    assert not {"logit_softcap", "ahead"} & set(document["architecture"])
    assert not {"head_lr", "norm_lr"} & set(document["recipe"]["optimizer"]["adamw"])


@pytest.mark.parametrize(
    "setting", ["model.logit_softcap=15", "recipe.loss={label_smoothing: 10%}", "recipe.loss.z=1e-4"]
)
def test_at_others_they_make_another_trial_under_other_conditions(trials, setting):
    before, after = trials()[0], trials(setting)[0]
    assert after.id != before.id
    assert after.conditions != before.conditions
    assert (
        trial_document(after)["architecture" if "softcap" in setting else "recipe"]
        != (trial_document(before)["architecture" if "softcap" in setting else "recipe"])
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.logit_softcap=0", "model.logit_softcap"),
        ("recipe.loss={label_smoothing: 1}", "recipe.loss.label_smoothing"),
        ("recipe.loss.z=-1", "recipe.loss.z"),
        ("recipe.loss.y=1", "unknown key 'y'"),
        ("model.ahead=-1", "model.ahead"),
        ("model.ahead=1.5", "model.ahead"),
        ("model.ahead=1", "model.ahead is 1, but recipe.loss.ahead has none"),
    ],
)
def test_values_that_mean_nothing_are_refused(trials, setting, message):
    with pytest.raises(ablate.InputError, match=message):
        trials(setting)


def test_blocks_of_their_own_are_another_trial_than_the_same_logits(trials):
    weights = "recipe.loss={ahead: [0.5, 0.25]}"
    shared, own = trials(weights)[0], trials(weights, "model.ahead=2")[0]
    assert own.id != shared.id and own.conditions != shared.conditions
    documents = trial_document(shared), trial_document(own)
    assert documents[1]["architecture"] == documents[0]["architecture"] | {"ahead": 2}
    assert documents[1]["recipe"] == documents[0]["recipe"]


def test_blocks_of_their_own_can_be_a_treatment(trials):
    """Beside the same logits, where the weights are the space's, and together with weights, where it has none."""
    design = "design={compare: [pre_ln, own]}"
    own = "variants={own: {block: pre_ln, set: {model.ahead: 1, recipe.loss.ahead: [0.5]}}}"
    found = trials(own, design)
    assert {(t.work.architecture.ahead, t.work.recipe.loss.ahead) for t in found} == {(0, ()), (1, (0.5,))}
    own = "variants={own: {block: pre_ln, set: {model.ahead: 1}}}"
    found = trials(own, design, "recipe.loss={ahead: [0.5]}")
    assert {(t.work.architecture.ahead, t.work.recipe.loss.ahead) for t in found} == {(0, (0.5,)), (1, (0.5,))}


def test_they_can_be_treatments(trials):
    """What differs between variants of a space that itself says nothing of them."""
    design = "design={compare: [pre_ln, capped, z]}"
    capped, z = "{model.logit_softcap: 15}", "{recipe.loss.z: 1e-3}"
    variants = f"variants={{capped: {{block: pre_ln, set: {capped}}}, z: {{block: pre_ln, set: {z}}}}}"
    found = trials(variants, design)
    assert {(t.work.architecture.logit_softcap, t.work.recipe.loss.z) for t in found} == {
        (None, 0.0),
        (15.0, 0.0),
        (None, 1e-3),
    }
