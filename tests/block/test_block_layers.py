"""Patterns over layers: which alternative a layer has, how parts are named, and that all of it is plain data."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import CATALOGUE, architecture
from reading import read_block, transformer

from ablate.block import arithmetic
from ablate.block.address import change_parts, name_parts, parts_by_name, value_at
from ablate.block.architecture import check_patterns
from ablate.block.arithmetic import ArithmeticProblem
from ablate.block.catalogue import without_added
from ablate.block.diagram import as_text, diagram
from ablate.block.diff import diff
from ablate.block.equation import equations
from ablate.block.expression import Block, Node, print_block
from ablate.block.layers import at_layer, has_patterns, pattern_free
from ablate.block.normal_form import fingerprint, normalise
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.plan.identity import computed, model_identity
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.variants import overridden, read_overrides

pytestmark = pytest.mark.fast

TURNS = "[residual: [layer_norm, attention: {position: {cycle: [rope, none]}}], residual: [layer_norm, mlp]]"
PARTS = "[{cycle: [[residual: [layer_norm, attention]], [residual: [mlp], residual: [mlp]], none]}, residual: [mlp]]"
LISTED = "[attention: {entropy: [{cycle: [[qk_norm: rms_norm, softcap: 30], none]}]}]"
NESTED = "[attention: {query: {where: {layers: last, use: identity, otherwise: {cycle: [dense, spectral]}}}}, mlp]"
EACH = (TURNS, PARTS, LISTED, NESTED)


def sizes(depth: int) -> Sizes:
    return Sizes(n_layers=depth, d_model=16, n_heads=2, seq_len=12, vocab_size=11)


def layers(text: str, depth: int) -> list[Block]:
    block = read_block(text)
    return [at_layer(block, CATALOGUE, sizes(depth).scope(layer)) for layer in range(1, depth + 1)]


def chosen(which: str, depth: int) -> list[int]:
    """The layers in which the pattern of a position has rope."""
    text = f"[attention: {{position: {{where: {{layers: {which}, use: rope, otherwise: none}}}}}}]"
    blocks = layers(text, depth)
    assert set(blocks) <= {read_block("[attention: {position: rope}]"), read_block("[attention]")}
    return [layer for layer, block in enumerate(blocks, 1) if block == read_block("[attention: {position: rope}]")]


def names(text: str) -> list[str]:
    return [name for _, name in name_parts(read_block(text), CATALOGUE)]


@pytest.mark.parametrize(
    ("which", "depth", "expected"),
    [
        ("first", 5, [1]),
        ("last", 5, [5]),
        ("{every: 2}", 7, [2, 4, 6]),
        ("{every: 4}", 9, [4, 8]),
        ("layer <= depth/2", 5, [1, 2]),
        ("layer < depth/2", 6, [1, 2]),
        ("layer >= depth/2", 6, [3, 4, 5, 6]),
        ("layer > 2*depth/3", 6, [5, 6]),
        ("layer == depth - 1", 4, [3]),
        ("1 < layer < depth", 5, [2, 3, 4]),
        ("layer > 1 and layer < 4", 6, [2, 3]),
        ("depth - layer < 2 and layer > sqrt(depth)", 9, [8, 9]),
    ],
)
def test_where_has_its_use_in_the_layers_it_names_and_nowhere_else(which, depth, expected):
    assert chosen(which, depth) == expected


def test_a_cycle_takes_its_items_in_turn():
    rope, none = read_block("[attention: {position: rope}]"), read_block("[attention]")
    assert layers("[attention: {position: {cycle: [rope, none, none]}}]", 7) == [rope, none, none] * 2 + [rope]


def test_the_alternatives_of_a_sequence_are_spliced_and_none_is_the_identity():
    one, two, three, four = layers(PARTS, 4)
    assert one == four == read_block("[residual: [layer_norm, attention], residual: [mlp]]")
    assert two == read_block("[residual: [mlp], residual: [mlp], residual: [mlp]]")
    assert three == read_block("[residual: [mlp]]")


def test_the_alternatives_of_a_list_are_spliced():
    one, two = layers(LISTED, 2)
    assert one == read_block("[attention: {entropy: [qk_norm: rms_norm, softcap: 30]}]")
    assert two == read_block("[attention]")


def test_a_pattern_inside_another_counts_the_layers_of_the_model():
    queries = [next(iter(block))["query"] for block in layers(NESTED, 4)]
    assert [query.name for query in queries if isinstance(query, Node)] == ["dense", "spectral", "dense", "identity"]


@pytest.mark.parametrize(
    "slot",
    [
        "[mlp: {up: {cycle: [dense, spectral]}}]",
        "[attention: {pre_qk: {cycle: [layer_norm, none]}}]",
        "[attention: {entropy: {qk_norm: {cycle: [layer_norm, rms_norm]}}}]",
        "[mlp: {activation: {cycle: [relu, gelu]}}]",
        "[attention: {entropy: {cycle: [{softcap: 30}, none]}}]",
        "[attention: {bias: {cycle: [alibi, none]}}]",
        "[attention: {matrix: {cycle: [softmax, value_skipinit]}}]",
        "[mlp: {up: {dense: {init: {cycle: [{normal: 0.1}, {normal: 0.2}]}}}}]",
        "[parallel: {branches: [[attention], [{cycle: [mlp, [layer_norm, mlp]]}]]}]",
        "[residual: {cycle: [[layer_norm, mlp], mlp]}]",
    ],
)
def test_a_pattern_stands_in_every_slot_and_prints_as_it_reads(slot):
    block = read_block(slot)
    assert has_patterns(block, CATALOGUE)
    assert read_block(print_block(block), defaults=False) == block
    assert read_block(print_block(block, CATALOGUE, transformer().defaults)) == block
    one, two = (at_layer(block, CATALOGUE, sizes(2).scope(layer)) for layer in (1, 2))
    assert one != two and not has_patterns(one, CATALOGUE) and not has_patterns(two, CATALOGUE)


@pytest.mark.parametrize("text", EACH)
def test_print_and_normal_form_are_those_of_any_block(text):
    block = read_block(text)
    assert read_block(print_block(block, CATALOGUE, transformer().defaults)) == block
    once = normalise(block, CATALOGUE)
    assert normalise(once, CATALOGUE) == once
    assert fingerprint(once, CATALOGUE) == fingerprint(block, CATALOGUE)
    assert without_added(once, CATALOGUE) == without_added(normalise(once, CATALOGUE), CATALOGUE)


def test_normalising_first_or_choosing_first_comes_to_the_same():
    """A list is sorted by stage only if no pattern is in it: one stage keeps the order in which it is written."""
    text = "[attention: {entropy: [{softcap: 30}, {cycle: [[{clamp: 5}, qk_norm: rms_norm], none]}]}]"
    block = read_block(text)
    for layer in (1, 2):
        scope = sizes(2).scope(layer)
        first = at_layer(normalise(block, CATALOGUE), CATALOGUE, scope)
        assert normalise(first, CATALOGUE) == normalise(at_layer(block, CATALOGUE, scope), CATALOGUE)


@pytest.mark.parametrize("text", EACH)
def test_the_variants_of_a_block_have_every_alternative(text):
    """They are what the layers of a deep model are."""
    found = {variant.block for variant in pattern_free(read_block(text), CATALOGUE)}
    assert found == set(layers(text, 7))


def test_alternatives_are_named_as_if_each_stood_there_alone():
    assert names("[{cycle: [[layer_norm, attention], [rms_norm, attention]]}, mlp]") == [
        "attention_norm",
        "attention",
        "mlp",
        "attention_norm",
        "attention",
    ]
    both = name_parts(read_block("[{cycle: [attention, mlp]}, mlp]"), CATALOGUE)
    assert both == (((0, "items", 0, 0), "attention"), ((1,), "mlp"), ((0, "items", 1, 0), "mlp"), ((1,), "mlp_2"))


@pytest.mark.parametrize("text", EACH)
def test_the_parts_of_a_layer_have_names_that_address_them_in_the_block(text):
    known = set(parts_by_name(read_block(text), CATALOGUE))
    for block in layers(text, 7):
        assert set(parts_by_name(block, CATALOGUE)) <= known


def test_an_address_changes_every_alternative_that_it_names():
    block = read_block("[{cycle: [attention, [layer_norm, attention]]}]")
    changed, matched = change_parts(block, "attention", lambda node: node.replace({"dropout": 0.5}), CATALOGUE)
    assert matched == 2
    assert {value_at(node, ["dropout"]) for name, node in parts_by_name(changed, CATALOGUE) if name == "attention"} == {
        (0.5,)
    }


def override(block: str, written: str) -> Block:
    problems = Problems()
    overrides = read_overrides(parse_yaml(written), problems)
    changed = overridden(read_block(block), overrides, transformer().reader_for(problems))
    problems.raise_if_any()
    return changed


def test_an_override_reaches_into_alternatives_and_to_the_pattern_itself():
    several = "[attention: {query: {cycle: [dense, identity, {dense: {bias: true}}]}}]"
    assert override(several, "{attention.query.rate: 2}") == read_block(
        "[attention: {query: {cycle: [{dense: {rate: 2}}, identity, {dense: {bias: true, rate: 2}}]}}]"
    )
    where = "[attention: {query: {where: {layers: first, use: dense, otherwise: identity}}}]"
    assert override(where, "{attention.query.layers: last}") == read_block(where.replace("first", "last"))
    assert override(where, "{attention.query.use: spectral}") == read_block(where.replace("dense", "spectral"))
    assert override(where, "{attention.query.use.rate: 2}") == override(where, "{attention.query.rate: 2}")
    assert override(where, "{attention.query: dense}") == read_block("[attention: {query: dense}]")


def test_a_constraint_sees_the_alternatives():
    """Of `position: {cycle: [rope, none]}` some part has rope, and not every one."""
    values = {
        value for _, node in parts_by_name(read_block(TURNS), CATALOGUE) for value in value_at(node, ["position"])
    }
    assert {value.name if isinstance(value, Node) else value for value in values} == {"rope", None}


@pytest.mark.parametrize(
    ("before", "after", "edits"),
    [
        (
            "[attention: {position: rope}, mlp]",
            "[attention: {position: {cycle: [rope, none]}}, mlp]",
            ["attention.position=cycle"],
        ),
        (TURNS, TURNS.replace("rope, none", "none, rope"), ["cycle.items=[none, {rope: {base: 10000, share: 1}}]"]),
        (TURNS, TURNS.replace("[rope, none]", "[{rope: 500}, none]"), ["rope.base=500"]),
        ("[{cycle: [attention, mlp]}]", "[{cycle: [attention, [layer_norm, mlp]]}]", ["+layer_norm"]),
        (
            "[mlp: {up: {where: {layers: first, use: dense, otherwise: spectral}}}]",
            "[mlp: {up: {where: {layers: last, use: dense, otherwise: spectral}}}]",
            ["where.layers=last"],
        ),
    ],
)
def test_a_difference_is_one_edit(before, after, edits):
    one, other = read_block(before), read_block(after)
    found = diff(one, other, CATALOGUE)
    assert [edit.name for edit in found.edits] == edits
    assert found.apply(edits) == normalise(other, CATALOGUE)
    assert found.apply([]) == normalise(one, CATALOGUE)


def test_the_places_of_edits_are_those_of_the_alternatives():
    before = read_block("[{cycle: [[layer_norm, attention], attention]}, mlp]")
    after = read_block("[{cycle: [attention, [layer_norm, attention]]}, [layer_norm, mlp]]")
    places = {(edit.name, place) for edit in diff(before, after, CATALOGUE, split=True).edits for place in edit.places}
    assert {place for _, place in places} == {"attention_norm", "mlp_norm"}


def test_a_pattern_of_modifiers_alone_is_named_like_one():
    before = read_block("[residual: [attention], mlp]")
    after = read_block("[{where: {layers: last, use: layer_norm, otherwise: none}}, residual: [attention], mlp]")
    (edit,) = diff(before, after, CATALOGUE).edits
    assert (edit.name, edit.places) == ("+where", ("attention_norm",))


def test_blocks_that_come_to_the_same_layers_are_the_same_model():
    def at(text: str, depth: int = 4):
        return replace(architecture(read_block(text)), sizes=sizes(depth))

    def same(one: str, other: str) -> bool:
        models = at(one), at(other)
        equal = model_identity(models[0], CATALOGUE) == model_identity(models[1], CATALOGUE)
        assert equal == (computed(models[0], CATALOGUE) == computed(models[1], CATALOGUE))
        return equal

    even = "[attention: {position: {where: {layers: {every: 2}, use: none, otherwise: rope}}}]"
    assert same("[attention: {position: {cycle: [rope, none]}}]", even)
    assert same(even, "[{cycle: [[attention: {position: rope}], attention]}]")
    assert not same(even, "[attention: {position: {cycle: [none, rope]}}]")
    assert not same(even, "[attention: {position: rope}]")
    assert same("[residual: {gain: 1, branch: [{cycle: [mlp, mlp]}]}]", "[residual: [mlp]]")
    by_hand = "[attention: {position: {where: {layers: layer == 1, use: rope, otherwise: none}}}]"
    assert same("[attention: {position: {where: {layers: first, use: rope, otherwise: none}}}]", by_hand)


@pytest.mark.parametrize(
    ("text", "depth", "said"),
    [
        ("[attention: {position: {cycle: [rope, none, rope]}}]", 2, r"attention\.position: .* none has item 3"),
        ("[mlp, {where: {layers: {every: 4}, use: mlp, otherwise: none}}]", 3, r"the block: .* `use` .*\{every: 4\}"),
        ("[residual: [{where: {layers: layer>0, use: mlp, otherwise: []}}]]", 3, r"mlp_residual\.branch:.*`otherwise`"),
        ("[mlp: {up: {cycle: [dense, {cycle: [dense, spectral]}]}}]", 4, r"in which it stands \(2, 4\) has item 1"),
    ],
)  # fmt: skip
def test_an_alternative_that_no_layer_has_is_told(text, depth, said):
    with pytest.raises(InputError, match=said + r"(.|\n)*\n  = choose other layers"):
        check_patterns(read_block(text), sizes(depth), CATALOGUE)


@pytest.mark.parametrize("text", EACH)
def test_patterns_that_are_used_are_not_refused(text):
    check_patterns(read_block(text), sizes(5), CATALOGUE)


def test_a_list_with_one_component_twice_in_a_layer_is_refused():
    block = read_block("[attention: {entropy: [{softcap: 30}, {cycle: [{softcap: 20}, none]}]}]")
    assert at_layer(block, CATALOGUE, sizes(2).scope(2)) == read_block("[attention: {entropy: {softcap: 30}}]")
    with pytest.raises(InputError, match=r"attention\.entropy lists softcap twice in layer 1"):
        at_layer(block, CATALOGUE, sizes(2).scope(1))


def test_a_comparison_without_a_value_is_told_with_its_layer():
    block = read_block('[mlp: {up: {where: {layers: "layer > 1/(depth-3)", use: dense, otherwise: spectral}}}]')
    with pytest.raises(InputError, match="has no value in layer 1 of 3: it divides by zero"):
        at_layer(block, CATALOGUE, sizes(3).scope(1))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [("layr < 2", 0, 4), ("layer", 0, 5), ("layer <", 6, 7), ("depth > 2", 0, 9), ("layer < width", 8, 13),
     ("layer < 2 and", 12, 13), ("layer < 2 and  dept > 1", 15, 19), ("layer =< 2", 6, 7)],
)  # fmt: skip
def test_a_comparison_that_cannot_be_read_says_where(text, start, end):
    with pytest.raises(ArithmeticProblem) as refused:
        arithmetic.parse_layers(text)
    assert (refused.value.start, refused.value.end) == (start, end)


def test_equations_are_written_for_each_group_of_layers():
    groups = equations(read_block(TURNS), sizes(5), CATALOGUE)
    assert list(groups) == [(1, 3, 5), (2, 4)]
    assert "RoPE" in groups[1, 3, 5].text and "RoPE" not in groups[2, 4].text
    assert list(equations(read_block("[mlp]"), sizes(3), CATALOGUE)) == [(1, 2, 3)]


def test_a_gain_of_a_group_is_shown_in_its_own_layers():
    block = read_block("[{cycle: [[residual: {gain: 1/layer, branch: [mlp]}], [mlp]]}]")
    groups = equations(block, sizes(6), CATALOGUE)
    assert "1 in layer 1, 0.2 in layer 5" in groups[1, 3, 5].text


def test_a_pattern_is_drawn_as_a_box():
    drawn = as_text(diagram(read_block(PARTS), CATALOGUE, transformer().defaults))
    assert "cycle" in drawn and "items:" in drawn
