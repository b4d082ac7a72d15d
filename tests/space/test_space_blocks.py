"""The blocks of a space: its own, its grammar's, and what its overrides make of them."""

from pathlib import Path

import pytest
from reading import read_block, transformer
from space_fixtures import SECTIONS, space

from ablate.block.arithmetic import parse
from ablate.block.expression import Node, walk
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.space.space import Space


def refused(folder: Path, **sections: str) -> str:
    with pytest.raises(InputError) as found:
        space(folder, **sections)
    return str(found.value)


def parts(found: Space, name: str) -> list[Node]:
    return [node for block in found.blocks.values() for node in walk(block) if node.name == name]


@pytest.mark.fast
def test_only_the_blocks_that_design_and_judge_name_are_kept(tmp_path: Path) -> None:
    assert list(space(tmp_path).blocks) == ["pre_ln", "op"]
    third = space(tmp_path, judge="{against: post_ln, metrics: {eval_loss: {}}}")
    assert list(third.blocks) == ["pre_ln", "op", "post_ln"]
    assert third.blocks["post_ln"] == transformer().block("post_ln")


@pytest.mark.fast
def test_overrides_reach_every_block_of_the_design(tmp_path: Path) -> None:
    found = space(tmp_path, block="{attention.position: rope, mlp: {activation: relu, hidden: 2x}}")
    assert {part["position"].name for part in parts(found, "attention")} == {"rope"}
    assert {part["activation"].name for part in parts(found, "mlp")} == {"relu"}
    assert len(parts(found, "mlp")) == 2
    assert found.blocks["op"].parts[0]["gain"] == transformer().block("op").parts[0]["gain"]


@pytest.mark.fast
def test_overrides_may_use_patterns_and_reach_into_slots(tmp_path: Path) -> None:
    found = space(tmp_path, block="{'*_norm.eps': 1e-3, attention.query.bias: true}")
    assert {part["eps"] for part in parts(found, "layer_norm")} == {1e-3}
    assert {part["query"]["bias"] for part in parts(found, "attention")} == {True}
    assert {part["key"]["bias"] for part in parts(found, "attention")} == {False}


@pytest.mark.fast
def test_an_override_that_changes_one_block_of_two_has_an_effect(tmp_path: Path) -> None:
    found = space(tmp_path, block="{attention_norm.bias: false}")
    assert [part["bias"] for part in parts(found, "layer_norm")] == [False, True]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            "{attention.position: none}",
            "attention.position has no effect here: every block of this design already has this value",
        ),
        ("{mlp.hidden: 4.0x}", "mlp.hidden has no effect here"),
        ("{attention.position.base: 7}", "attention.position.base has no effect here"),
        ("{atention.position: rope}", "did you mean 'attention'?"),
        ("{mlp_2.hidden: 2x}", "no block of this design has a part 'mlp_2'"),
        ("{layers.3.mlp.hidden: 2x}", "no block of this design has a part 'layers'"),
        ("{attention.positoin: rope}", "attention has no field 'positoin'"),
        ("{attention: rope}", "attention is a part: name one of its fields"),
        ("{mlp.activation: rope}", "rope does not fit slot activation"),
        ("{attention.entropy.cap: 30}", "attention.entropy holds none, which has no field 'cap'"),
        ("{attention.query.bias: 1}", "expected true or false, got 1"),
        ("{mlp.hidden: 2x, mlp: {hidden: 3x}}", "mlp.hidden is given twice"),
        ("{attention..query: dense}", "is not an address"),
        ("{mlp.hidden: $w}", "is only allowed in the rules of a grammar"),
        ("{attention.pre_qk: rms_norm}", "block 'pre_ln' is refused by the constraint one_norm of the grammar"),
    ],
)
def test_an_override_that_is_wrong_or_idle_is_a_mistake(tmp_path: Path, block: str, said: str) -> None:
    assert said in refused(tmp_path, block=block)


@pytest.mark.fast
def test_a_constraint_gives_its_reason(tmp_path: Path) -> None:
    assert "because a norm before attention already normalises" in refused(
        tmp_path, block="{attention.pre_qk: rms_norm}"
    )


@pytest.mark.fast
def test_blocks_of_its_own(tmp_path: Path) -> None:
    own = "{mine: [residual: [rms_norm, attention, mlp]], spare: [mlp]}"
    found = space(tmp_path, blocks=own, design="{path: {from: pre_ln, to: mine}}", block="{mlp.hidden: 2x}")
    assert list(found.blocks) == ["pre_ln", "mine"]
    assert found.blocks["mine"] == read_block("[residual: [rms_norm, attention, mlp: {hidden: 2x}]]")


@pytest.mark.fast
def test_a_broken_block_is_not_also_unknown(tmp_path: Path) -> None:
    text = refused(tmp_path, blocks="{mine: [mlpp]}", design="{path: {from: pre_ln, to: mine}}")
    assert text.count("error: ") == 1


@pytest.mark.fast
def test_the_model_around_a_block(tmp_path: Path) -> None:
    found = space(
        tmp_path,
        model="{layers: 2, width: 8, heads: 2, context: 4, embedding: {std: 0.5, scale: 3},"
        " head: tied, init: {normal: 0.1}, position: {learned: 0.25}, final_norm: layer_norm, causal: false}",
    )
    model = found.architecture(found.blocks["op"], 77)
    assert (model.sizes.n_layers, model.sizes.d_model, model.sizes.n_heads, model.sizes.seq_len) == (2, 8, 2, 4)
    assert (model.sizes.vocab_size, model.sizes.d_head, model.sizes.causal) == (77, 4, False)
    assert (model.positions, model.position_std, model.tied) == ("learned", parse(0.25), True)
    assert (model.embedding_std, model.embedding_scale) == (parse(0.5), parse(3))
    assert model.final_norm is not None and model.final_norm.name == "layer_norm"
    assert model.entry_norm is None
    assert model.init == Node("normal", (("std", parse(0.1)),))
    plain = space(tmp_path, model=SECTIONS["model"].replace("position: sinusoidal, ", ""))
    assert plain.architecture(plain.blocks["op"], 77).position_std is None
    assert plain.architecture(plain.blocks["op"], 77).positions == "none"


CYCLED = "[residual: [layer_norm, attention: {position: {cycle: [rope, none]}}], residual: [layer_norm, mlp]]"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            "{attention.position: rope}",
            ["block: {attention.position: rope} replaces {cycle: [rope, none]}, which cycled sets itself"],
        ),
        ("{mlp.activation: relu}", []),  # the default, which no block set itself
        ("{attention.position: {cycle: [rope, none]}}", []),  # what it sets itself
    ],
)
def test_a_value_of_a_block_that_an_override_replaces_is_said(tmp_path, block, said):
    written = space(tmp_path, blocks=f"{{cycled: {CYCLED}}}", design="{compare: [pre_ln, op, cycled]}", block=block)
    assert list(written.replaced) == said
    assert set(said) <= set(build_plan(written, vocab_size=256, corpus="text").notes)
