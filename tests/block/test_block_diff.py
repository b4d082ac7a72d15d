"""Edits: all of them give the one block, none the other, any subset a block between."""

from collections.abc import Iterable

import pytest
from builders import CATALOGUE, node, sequence
from hypothesis import given
from hypothesis import strategies as st
from random_blocks import blocks, examples, pairs
from reading import read_block, transformer

from ablate.block.address import name_parts
from ablate.block.align import align, sites
from ablate.block.diff import BlockDifference, Rank, diff, path_order, places
from ablate.block.expression import Block, Node, Sequence, print_block, walk
from ablate.block.normal_form import normalise

splits = st.sampled_from([frozenset(), True])


def compared(one: str, other: str, split: frozenset[str] | bool = frozenset()) -> BlockDifference:
    named = transformer().blocks
    before, after = (named[text].block if text in named else read_block(text) for text in (one, other))
    return diff(before, after, CATALOGUE, split=split, defaults=transformer().defaults)


def names(difference: BlockDifference) -> list[str]:
    return [edit.name for edit in path_order(difference.edits)]


@examples
@given(pairs(), splits)
def test_no_edit_gives_the_one_and_all_edits_the_other(pair: tuple[Block, Block], split: frozenset[str] | bool) -> None:
    difference = diff(*pair, CATALOGUE, split=split)
    assert difference.apply(()) == normalise(pair[0], CATALOGUE)
    assert difference.apply(edit.name for edit in difference.edits) == normalise(pair[1], CATALOGUE)


@examples
@given(pairs(), splits, st.data())
def test_any_subset_gives_a_valid_block(
    pair: tuple[Block, Block], split: frozenset[str] | bool, data: st.DataObject
) -> None:
    difference = diff(*pair, CATALOGUE, split=split)
    chosen = [edit.name for edit in difference.edits if data.draw(st.booleans())]
    between = difference.apply(chosen)
    assert read_block(print_block(between), defaults=False) == between  # every slot holds what fits it, none twice
    assert normalise(between, CATALOGUE) == between
    named = name_parts(between, CATALOGUE)
    assert len({name for _, name in named}) == len(named)
    assert between == difference.apply(reversed(chosen))


@examples
@given(pairs(), splits)
def test_names_are_unique_and_stable(pair: tuple[Block, Block], split: frozenset[str] | bool) -> None:
    difference = diff(*pair, CATALOGUE, split=split)
    found = [edit.name for edit in difference.edits]
    assert len(set(found)) == len(found)
    again = diff(*(normalise(block, CATALOGUE) for block in pair), CATALOGUE, split=split)
    assert [edit.name for edit in again.edits] == found
    assert all(edit.places and edit.detail for edit in difference.edits)


@examples
@given(pairs())
def test_edits_share_out_the_sites(pair: tuple[Block, Block]) -> None:
    difference = diff(*pair, CATALOGUE)
    tree = align(*(normalise(block, CATALOGUE) for block in pair), CATALOGUE)
    shared = sorted(site for edit in difference.edits for site in edit.sites)
    assert shared == list(range(len(sites(tree))))
    assert len(places(tree, CATALOGUE)) == len(shared)


@examples
@given(blocks())
def test_a_block_does_not_differ_from_itself(block: Block) -> None:
    assert diff(block, block, CATALOGUE).edits == ()


@examples
@given(pairs())
def test_the_difference_is_empty_just_when_normal_forms_are_equal(pair: tuple[Block, Block]) -> None:
    same = normalise(pair[0], CATALOGUE) == normalise(pair[1], CATALOGUE)
    assert (diff(*pair, CATALOGUE).edits == ()) == same


@pytest.mark.fast
def test_pre_ln_to_op_is_three_edits_stabilisers_first() -> None:
    assert names(compared("pre_ln", "op")) == ["+qk_norm", "residual.gain=1/sqrt(2*depth)", "-layer_norm"]


@pytest.mark.fast
def test_split_takes_an_edit_apart_place_by_place() -> None:
    assert names(compared("pre_ln", "op", split=True)) == [
        "+qk_norm",
        "residual.gain=1/sqrt(2*depth)@attention_residual",
        "residual.gain=1/sqrt(2*depth)@mlp_residual",
        "-layer_norm@attention_norm",
        "-layer_norm@mlp_norm",
    ]
    assert names(compared("pre_ln", "op", split=frozenset({"-layer_norm"}))) == [
        "+qk_norm",
        "residual.gain=1/sqrt(2*depth)",
        "-layer_norm@attention_norm",
        "-layer_norm@mlp_norm",
    ]


@pytest.mark.fast
def test_the_way_back_ends_with_what_unsettles() -> None:
    assert names(compared("op", "pre_ln")) == ["residual.gain=1", "+layer_norm", "-qk_norm"]


@pytest.mark.fast
def test_places_are_addresses_of_parts() -> None:
    edits = {edit.name: edit for edit in compared("pre_ln", "op").edits}
    assert edits["-layer_norm"].places == ("attention_norm", "mlp_norm")
    assert edits["residual.gain=1/sqrt(2*depth)"].places == ("attention_residual", "mlp_residual")
    assert edits["+qk_norm"].places == ("attention",)
    assert edits["+qk_norm"].detail == "nothing → {qk_norm: rms_norm} at attention"
    assert edits["residual.gain=1/sqrt(2*depth)"].detail == "1 → 1/sqrt(2*depth) at attention_residual, mlp_residual"
    assert edits["-layer_norm"].rank == Rank.REMOVE


SKIPLESS = "[residual: {skip: 0, branch: [layer_norm, attention]}, residual: {skip: 0, branch: [layer_norm, mlp]}]"
BARE = "[layer_norm, attention, layer_norm, mlp]"


@pytest.mark.fast
def test_a_skipless_block_is_the_same_difference_however_it_is_written() -> None:
    assert compared("pre_ln", SKIPLESS).edits == compared("pre_ln", BARE).edits
    assert names(compared("pre_ln", BARE)) == ["residual.skip=0"]
    assert names(compared(BARE, "pre_ln")) == ["residual.skip=1"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        ("pre_ln", "post_ln", ["+layer_norm", "-layer_norm"]),
        ("pre_ln", "pre_rms", ["layer_norm->rms_norm"]),
        ("pre_ln", "parallel", ["[residual,residual]->parallel"]),
        ("op", "op_softcap", ["+softcap", "-qk_norm"]),
        ("[attention: {entropy: {softcap: 30}}]", "[attention: {entropy: {softcap: 50}}]", ["softcap.cap=50"]),
        ("[mlp: {activation: relu}]", "[mlp: {activation: {leaky_relu: 0.1}}]", ["mlp.activation=leaky_relu"]),
        ("[attention]", "[attention: {position: rope}]", ["attention.position=rope"]),
        ("[layer_norm, mlp]", "[layer_norm: {eps: 1e-3}, mlp]", ["layer_norm.eps=0.001"]),
        (
            "[residual: [attention], residual: [mlp]]",
            "[residual: [attention], parallel: [[mlp]]]",
            ["residual->parallel"],
        ),
        ("[attention, mlp]", "[mlp, attention]", ["[attention,mlp]->[mlp,attention]"]),
        (
            "[residual: [mlp]]",
            "[residual: {gain: {init: 0.5, trainable: true}, branch: [mlp]}]",
            ["residual.gain={init: 0.5, trainable: true}"],
        ),
    ],
)
def test_edits_by_name(one: str, other: str, edits: list[str]) -> None:
    assert names(compared(one, other)) == edits


@pytest.mark.fast
def test_what_is_shared_is_left_alone() -> None:
    """The smallest run that differs is replaced: the residual around attention is on both sides."""
    (edit,) = compared("[residual: [attention], mlp]", "[residual: [attention], parallel: [[mlp], [mlp]]]").edits
    assert edit.before == "mlp"
    assert edit.places == ("mlp",)


@pytest.mark.fast
def test_regulation_that_moves_is_one_edit() -> None:
    """Half of the move would hold softcap twice, which no attention can."""
    one, other = "[attention: {entropy: [softcap: 30, clamp: 8]}]", "[attention: {entropy: [clamp: 8, softcap: 20]}]"
    difference = compared(one, other)
    for chosen in subsets([edit.name for edit in difference.edits]):
        regulated = difference.apply(chosen).parts[0]["entropy"]
        assert isinstance(regulated, tuple)
        assert len({part.name for part in regulated if isinstance(part, Node)}) == len(regulated)


def subsets(items: list[str]) -> Iterable[list[str]]:
    return ([item for i, item in enumerate(items) if mask >> i & 1] for mask in range(2 ** len(items)))


@pytest.mark.fast
def test_the_half_way_blocks_of_pre_ln_to_op() -> None:
    difference = compared("pre_ln", "op")
    seen = {print_block(difference.apply(chosen)) for chosen in subsets(names(difference))}
    assert len(seen) == 2**3
    without_norms = difference.apply(["-layer_norm"])
    assert without_norms == read_block("[residual: [attention], residual: [mlp]]")
    assert not any(part.name == "layer_norm" for part in walk(without_norms))


@pytest.mark.fast
def test_a_name_that_is_no_edit_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        compared("pre_ln", "op").apply(["+softcap"])


@pytest.mark.fast
def test_the_alignment_does_not_invent_blocks_without_what_they_are_about() -> None:
    """A principal is replaced, never merely taken away or put in beside another."""
    difference = diff(sequence("attention"), sequence(node("mlp")), CATALOGUE)
    assert [edit.name for edit in difference.edits] == ["attention->mlp"]
    added = diff(Sequence(), sequence("mlp"), CATALOGUE)
    assert added.apply(edit.name for edit in added.edits) == sequence("mlp")
