"""Finding and changing parts by address."""

from fnmatch import fnmatchcase

import pytest
from builders import CATALOGUE, many_blocks, node, residual, sequence
from reading import read_block

from ablate.block.address import Selector, change_parts, node_at, parse_address, parts_by_name, value_at
from ablate.block.expression import Node

BLOCK = read_block(
    "[residual: [layer_norm, attention: {entropy: {qk_norm: rms_norm}}],"
    " residual: [layer_norm, mlp], residual: [rms_norm, mlp: {activation: relu}]]"
)
PARTS = parts_by_name(BLOCK, CATALOGUE)


def found(text: str) -> tuple[object, ...]:
    address = parse_address(text)
    named = [node for name, node in PARTS if fnmatchcase(name, address.part)]
    return tuple(value for node in named for value in value_at(node, address.fields))


@pytest.mark.fast
def test_an_address_leads_to_values() -> None:
    assert [value.name for value in found("*_norm") if isinstance(value, Node)] == [
        "layer_norm",
        "layer_norm",
        "rms_norm",
    ]
    assert found("mlp_2.activation") == (node("relu"),)
    assert [value.name for value in found("mlp*.activation") if isinstance(value, Node)] == ["gelu", "relu"]
    assert found("attention.query.bias") == (False,)
    assert found("attention.query.dense") == ()
    assert found("attention.query") == (read_block("[attention]").parts[0]["query"],)
    assert found("nothing") == found("attention.nothing") == found("attention.scale.more") == ()


@pytest.mark.fast
def test_layers_in_front_change_nothing() -> None:
    assert parse_address("layers.*.attention.entropy") == parse_address("attention.entropy")
    assert parse_address("attention.entropy").text == "attention.entropy"
    assert parse_address("mlp") == Selector("mlp", ())


@pytest.mark.fast
@pytest.mark.parametrize("text", ["", ".", "attention.", ".entropy", "attention..entropy"])
def test_a_word_is_missing(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        parse_address(text)


@pytest.mark.fast
def test_every_part_is_found_under_its_name_once() -> None:
    for block in many_blocks().values():
        parts = parts_by_name(block, CATALOGUE)
        for name, part in parts:
            address = parse_address(name)
            assert [other for word, other in parts if fnmatchcase(word, address.part)] == [part]


@pytest.mark.fast
def test_a_change_reaches_every_part_that_matches_and_no_other() -> None:
    changed, matched = change_parts(BLOCK, "*_norm", lambda _: node("simple_rms_norm"), CATALOGUE)
    assert matched == 3
    names = [part.name for _, part in parts_by_name(changed, CATALOGUE)]
    assert names == [n if "norm" not in n else "simple_rms_norm" for n in (part.name for _, part in PARTS)]
    same, none = change_parts(BLOCK, "mlp_7", lambda _: node("simple_rms_norm"), CATALOGUE)
    assert (same, none) == (BLOCK, 0)


@pytest.mark.fast
def test_a_combinator_keeps_what_changed_inside_it() -> None:
    block = sequence(residual(residual("attention")))
    changed, matched = change_parts(
        block, "*residual*", lambda part: part.replace({"skip": residual(skip=0)["skip"]}), CATALOGUE
    )
    assert matched == 2
    assert changed == sequence(residual(residual("attention", skip=0), skip=0))
    assert node_at(changed, (0, "branch", 0)) == residual("attention", skip=0)


@pytest.mark.fast
def test_a_field_that_is_not_there_cannot_be_replaced() -> None:
    with pytest.raises(KeyError, match="rms_norm has no field bias"):
        node("rms_norm").replace({"bias": True})
