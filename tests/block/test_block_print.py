"""Print and parse are inverse, in both directions."""

from pathlib import Path

import pytest
from builders import CATALOGUE, gain, node, sequence
from hypothesis import given
from random_blocks import blocks, examples
from reading import GRAMMARS, read_block, transformer

from ablate.block.expression import Block, Gain, print_block, print_value
from ablate.block.normal_form import normalise
from ablate.grammar.grammar import load_grammar
from ablate.source.located import to_python
from ablate.source.yaml import parse_yaml

IDENTITY = to_python(parse_yaml((Path(__file__).parent / "identity.yaml").read_text(), "identity.yaml"))


@examples
@given(blocks())
def test_a_block_printed_in_full_reads_back_the_same(block: Block) -> None:
    assert read_block(print_block(block), defaults=False) == block


@examples
@given(blocks())
def test_a_block_printed_in_full_needs_no_defaults_and_heeds_none(block: Block) -> None:
    assert read_block(print_block(block), defaults=True) == block


@examples
@given(blocks())
def test_a_block_printed_with_shorthands_reads_back_the_same(block: Block) -> None:
    assert read_block(print_block(block, CATALOGUE), defaults=False) == block


@examples
@given(blocks())
def test_a_block_printed_with_defaults_left_out_reads_back_the_same(block: Block) -> None:
    assert read_block(print_block(block, CATALOGUE, transformer().defaults)) == block


@examples
@given(blocks())
def test_the_normal_form_is_printed_and_read_the_same(block: Block) -> None:
    text = print_block(normalise(block, CATALOGUE), CATALOGUE, transformer().defaults)
    assert print_block(normalise(read_block(text), CATALOGUE), CATALOGUE, transformer().defaults) == text


def normal_text(text: str) -> str:
    return print_block(normalise(read_block(text), CATALOGUE), CATALOGUE, transformer().defaults)


@pytest.mark.fast
@pytest.mark.parametrize("text", IDENTITY)
def test_a_text_in_normal_form_is_printed_as_it_is(text: str) -> None:
    assert normal_text(text) == text


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("[residual: {skip: 0, branch: [attention]}]", "[attention]"),
        ("[[layer_norm, [attention]]]", "[layer_norm, attention]"),
        ("attention", "[attention]"),
        ("none", "[]"),
        ("[residual: {branch: none}]", "[residual]"),
        ("[residual: {gain: 1/2, branch: mlp}]", "[residual: {gain: 0.5, branch: [mlp]}]"),
        (
            "[attention: {entropy: [softcap: 30, qk_norm: rms_norm]}]",
            IDENTITY[IDENTITY.index("[attention: {entropy: [{qk_norm: rms_norm}, {softcap: 30}]}]")],
        ),
        ("[attention: {entropy: [], query: dense}]", "[attention]"),
        ("[mlp: {hidden: 4.0x}]", "[mlp]"),
    ],
)
def test_what_is_not_in_normal_form_is_printed_otherwise(text: str, normal: str) -> None:  # so the one above can fail
    assert normal_text(text) == normal != text


@pytest.mark.parametrize("path", GRAMMARS, ids=lambda path: path.stem)
def test_named_blocks_of_shipped_grammars(path: Path) -> None:
    grammar = load_grammar(path, CATALOGUE)
    assert grammar.blocks
    for named in grammar.blocks.values():
        text = print_block(normalise(named.block, CATALOGUE), CATALOGUE, grammar.defaults)
        assert print_block(normalise(read_block(text), CATALOGUE), CATALOGUE, grammar.defaults) == text
        assert read_block(print_block(named.block), defaults=False) == named.block


@pytest.mark.fast
def test_values_are_written_as_in_yaml() -> None:
    assert print_value(None) == "none"
    assert print_value(()) == "none"
    assert print_value(True) == "true"
    assert print_value(1e-8) == "1e-08"
    assert print_value(gain(0, trainable=True, per="channel")) == "{init: 0, trainable: true, per: channel}"
    assert print_value(Gain(gain(1).value, False, "channel")) == "{init: 1, trainable: false, per: channel}"
    assert print_value(node("relu")) == "relu"
    assert print_block(sequence("simple_rms_norm")) == "[simple_rms_norm: {eps: 1e-05}]"
