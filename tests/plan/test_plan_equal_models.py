"""Models that look different and are one are trained once; those that differ in anything that has an effect are two."""

import pytest
from builders import CATALOGUE
from equal_models import BLOCKS, RECIPES
from reading import read_block
from space_fixtures import space

from ablate.block.expression import walk
from ablate.block.normal_form import effective, resolve
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.plan.build import build_plan


def folded(folder, zero, **sections):
    """Whether each of two variants is trained with the first of them."""
    judge = f"{{against: {zero}, metrics: {{eval_loss: {{margin: 1%}}}}}}"
    found = space(folder, design=f"{{compare: [{zero}, one, other, near]}}", judge=judge, **sections)
    plan = build_plan(found, vocab_size=256, corpus="text")
    of = {name: variant.id for variant in plan.variants for name in variant.names}
    notes = [note for note in plan.notes if note.startswith("the same model, trained once")]
    return [of[name] == of["one"] for name in ("other", "near")], notes


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_that_differ_in_what_has_no_effect_are_one_model(tmp_path, name):
    one, other, near = BLOCKS[name]
    blocks = f"{{zero: [attention, mlp], one: {one}, other: {other}, near: {near}}}"
    assert folded(tmp_path, "zero", blocks=blocks) == ([True, False], ["the same model, trained once: one, other"])


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_that_differ_in_what_has_no_effect_are_one_training(tmp_path, name):
    written = {key: f"{{block: pre_ln, set: {{{change}}}}}" for key, change in zip(NAMES, RECIPES[name], strict=True)}
    variants = ", ".join(f"{key}: {value}" for key, value in written.items())
    assert folded(tmp_path, "op", variants=f"{{{variants}}}")[0] == [True, False]


@pytest.mark.parametrize(
    ("tune", "same"),
    [("none", True), ("{lr: [1e-2, 2e-2], seeds: 1}", False), ("{recipe.clip: [1, 2], seeds: 1}", False)],
)
def test_what_tuning_may_tell_apart_is_trained_apart(tmp_path, tune, same):
    """A floor as a rate is another share of another peak, and a window may be what is tuned."""
    variants = (
        "{one: {block: pre_ln, set: {recipe.schedule.floor: {rate: 2.5e-3}}},"
        " other: {block: pre_ln, set: {recipe.schedule.floor: 0.25}}, near: {block: sas, set: {model.layers: 2}}}"
    )
    assert folded(tmp_path, "op", variants=variants, fair=f"{{tune: {tune}}}")[0][0] == same


def test_a_warm_up_as_a_share_is_another_where_a_budget_gives_other_steps(tmp_path):
    variants = (
        "{one: {block: pre_ln, set: {recipe.schedule.warmup: 10%}},"
        " other: {block: pre_ln, set: {recipe.schedule.warmup: 2}}, near: {block: sas, set: {model.layers: 2}}}"
    )
    blocks = "{wide: [residual: [layer_norm, attention], residual: [layer_norm, mlp: {hidden: 8x}]]}"
    assert folded(tmp_path, "wide", variants=variants, blocks=blocks)[0][0]
    fair = "{budget: flops, match: none, tune: none}"
    assert not folded(tmp_path, "wide", variants=variants, blocks=blocks, fair=fair)[0][0]


def test_a_claim_about_variants_of_one_model_is_a_mistake(tmp_path):
    one, other, _ = BLOCKS["the model's own mask"]
    blocks = f"{{one: {one}, other: {other}}}"
    expect = "[{claim: alike, equivalent: [one, other], metric: eval_loss}]"
    judge = f"{{against: pre_ln, metrics: {{eval_loss: {{margin: 1%}}}}, expect: {expect}}}"
    found = space(tmp_path, design="{compare: [op, pre_ln, one, other]}", blocks=blocks, judge=judge)
    with pytest.raises(InputError, match="is about one and other, which are the same model here"):
        build_plan(found, vocab_size=256, corpus="text")


NAMES = ("one", "other", "near")


def test_there_are_thirty_pairs_of_each_and_of_every_component_that_says_what_it_comes_to():
    assert len(BLOCKS) + len(RECIPES) >= 30
    told = {spec.name for spec in CATALOGUE if hasattr(spec.config, "effective")}
    there = {node.name for texts in BLOCKS.values() for text in texts for node in walk(read_block(text))}
    assert told - there == {"prefix"}


@pytest.mark.parametrize(
    ("mask", "causal", "comes_to"),
    [
        ("{prefix: 16}", True, "full"),
        ("{prefix: 1}", True, None),
        ("{prefix: 2}", True, "prefix"),
        ("[{prefix: 8}, {window: 4}]", True, "window"),
        ("full", False, None),
        ("[full, {window: 4}]", False, "window"),
        ("{window: 16}", False, None),
        ("causal", False, "causal"),
    ],
)
def test_what_masks_come_to(mask, causal, comes_to):
    at = Sizes(n_layers=4, d_model=32, n_heads=4, seq_len=16, vocab_size=256, layer=2, causal=causal)
    block = resolve(read_block(f"[attention: {{mask: {mask}}}]"), at, CATALOGUE)
    found = effective(block, at, CATALOGUE).parts[0]["mask"]
    assert (found and found.name) == comes_to


@pytest.mark.parametrize("name", BLOCKS)
def test_an_effective_form_is_its_own(name):
    for text in BLOCKS[name]:
        at = Sizes(n_layers=4, d_model=32, n_heads=4, seq_len=16, vocab_size=256, layer=2)
        once = effective(resolve(read_block(text), at, CATALOGUE), at, CATALOGUE)
        assert effective(once, at, CATALOGUE) == once


@pytest.mark.parametrize(("init", "same"), [("{normal: 0.01}", True), ("{xavier: {per_head: true}}", False)])
def test_an_init_by_the_heads_around_it_is_not_the_models_own(tmp_path, init, same):
    """The model's own scheme knows the model's heads, that of a weight those of its attention."""
    model = (
        "{layers: 4, width: 32, heads: 4, context: 16, position: sinusoidal, embedding: {std: 0.02, scale: 50},"
        f" head: untied, init: {init}}}"
    )
    plain = "[attention: {kv_heads: 2}, mlp]"
    written = f"[attention: {{kv_heads: 2, key: {{dense: {{init: {init}}}}}}}, mlp]"
    blocks = f"{{zero: [mlp, attention], one: {plain}, other: {written}, near: [attention, mlp]}}"
    assert folded(tmp_path, "zero", blocks=blocks, model=model)[0][0] == same
