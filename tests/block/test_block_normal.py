"""The normal form and the fingerprint: what folds, what must not, and that spelling never shows."""

from fractions import Fraction

import pytest
from builders import CATALOGUE, gain, node, residual, sequence
from hypothesis import given
from hypothesis import strategies as st
from random_blocks import blocks, examples, pairs, respelt
from reading import read_block

from ablate.block.expression import Block, Size, print_value
from ablate.block.normal_form import DIGITS, canonical, digest, fingerprint, fixed, normalise, resolve, units
from ablate.block.reader import read_multiple
from ablate.block.sizes import Sizes

FINGERPRINTS = {
    "[mlp: {hidden: 4x}]": "9e7d8e551f56",
    "[mlp: {hidden: 2.6667x}]": "1da4cd61e4ff",
    "[mlp: {hidden: 256}]": "d47c0dd1e815",
}
SEEN_FROM = Sizes(n_layers=4, d_model=64, n_heads=4, seq_len=32, vocab_size=256).at(2)


def fp(text: str) -> str:
    return fingerprint(read_block(text), CATALOGUE)


@examples
@given(blocks())
def test_normalising_twice_changes_nothing(block: Block) -> None:
    once = normalise(block, CATALOGUE)
    assert normalise(once, CATALOGUE) == once


@examples
@given(pairs())
def test_fingerprints_are_equal_just_when_normal_forms_are(pair: tuple[Block, Block]) -> None:
    one, other = pair
    same = normalise(one, CATALOGUE) == normalise(other, CATALOGUE)
    assert (fingerprint(one, CATALOGUE) == fingerprint(other, CATALOGUE)) == same


@examples
@given(blocks(), st.randoms(use_true_random=False))
def test_a_block_said_otherwise_has_the_same_fingerprint(block: Block, chance) -> None:
    """Bare parts as a skipless residual, numbers as arithmetic, stages out of order."""
    assert fingerprint(respelt(block, chance), CATALOGUE) == fingerprint(block, CATALOGUE)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[residual: {skip: 0, branch: [attention]}, mlp]", "[attention, mlp]"),
        ("[residual: {skip: 0, branch: [residual: {skip: 0, branch: [mlp]}]}]", "[mlp]"),
        ("[residual: {skip: 0.0, gain: 2/2, branch: [mlp]}]", "[mlp]"),
        ("[residual: {skip: {init: 0, trainable: false}, branch: [mlp]}]", "[mlp]"),
        ("[residual: {skip: 0, branch: []}]", "[]"),
        (
            "[residual: {gain: {init: 0.5, trainable: false, per: channel}, branch: [mlp]}]",
            "[residual: {gain: 0.5, branch: [mlp]}]",
        ),
        ("[residual: {gain: 1/sqrt(4), branch: [mlp]}]", "[residual: {gain: 0.5, branch: [mlp]}]"),
        ("[residual: {branch: [mlp], gain: 1.0}]", "[residual: {gain: 1, branch: [mlp]}]"),
        ("[residual: mlp]", "[residual: [mlp]]"),
        ("[residual: {branch: [mlp]}]", "[residual: [[mlp]]]"),
        ("[attention: {entropy: {softcap: 30}}]", "[attention: {entropy: [softcap: 30.0]}]"),
        (
            "[attention: {entropy: [softcap: 30, qk_norm: rms_norm]}]",
            "[attention: {entropy: [qk_norm: rms_norm, softcap: {cap: 3e1}]}]",
        ),
        ("[attention: {pre_qk: none, entropy: none, position: null}]", "[attention: {}]"),
        ("[attention: {entropy: []}]", "[attention]"),
        ("[layer_norm: {eps: 0.00001}]", "[layer_norm: {bias: true, eps: 1e-5}]"),
        ("[mlp: {hidden: 4.0x}]", "[mlp: {hidden: 4x}]"),
        ("[mlp: {hidden: 8/2x}]", "[mlp: {hidden: 4x}]"),
        ("[mlp: {hidden: 10/4x}]", "[mlp: {hidden: 2.5x}]"),
        ("[mlp: {hidden: 16/6x}]", "[mlp: {hidden: 8/3x}]"),
        ("[attention: {query: {dense: {bias: false}}}]", "[attention: {query: dense}]"),
        ("[residual: {gain: '1 / sqrt( 2*depth )', branch: mlp}]", "[residual: {gain: 1/sqrt(2*depth), branch: mlp}]"),
    ],
)
def test_same_under_training(one: str, other: str) -> None:
    assert fp(one) == fp(other)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Same at initialisation only.
        ("[residual: {gain: {init: 1, trainable: true}, branch: [mlp]}]", "[residual: [mlp]]"),
        ("[residual: {skip: {init: 0, trainable: true}, branch: [mlp]}]", "[mlp]"),
        ("[residual: {skip: 0, gain: {init: 1, trainable: true}, branch: [mlp]}]", "[mlp]"),
        (
            "[residual: {gain: {init: 1, trainable: true, per: channel}, branch: [mlp]}]",
            "[residual: {gain: {init: 1, trainable: true}, branch: [mlp]}]",
        ),
        # Norm after norm: the epsilons differ.
        ("[rms_norm, rms_norm]", "[rms_norm]"),
        ("[layer_norm, rms_norm]", "[layer_norm]"),
        # Order in a sequence, and of regulation at one stage.
        ("[attention, mlp]", "[mlp, attention]"),
        ("[attention: {entropy: [softcap: 30, clamp: 8]}]", "[attention: {entropy: [clamp: 8, softcap: 30]}]"),
        # A residual that is not transparent, and an empty one: it doubles.
        ("[residual: {skip: 0, gain: 0.5, branch: [mlp]}]", "[mlp]"),
        ("[residual: []]", "[]"),
        ("[residual: {skip: 0, gain: layer/layer, branch: [mlp]}]", "[mlp]"),
        # Numbers.
        ("[layer_norm]", "[layer_norm: {eps: 1e-6}]"),
        ("[mlp: {hidden: 4x}]", "[mlp: {hidden: 512}]"),
        ("[mlp: {hidden: 8/3x}]", "[mlp: {hidden: 2.6666666666666665x}]"),
        ("[residual: {gain: 1/sqrt(2*depth), branch: mlp}]", "[residual: {gain: 1/sqrt(depth*2), branch: mlp}]"),
        # One branch side by side is not a residual of other parts in a row.
        ("[parallel: [[attention], [mlp]]]", "[parallel: [[mlp], [attention]]]"),
        ("[parallel: [[attention, mlp]]]", "[residual: [attention, mlp]]"),
    ],
)
def test_what_must_not_fold(one: str, other: str) -> None:
    assert fp(one) != fp(other)


@pytest.mark.fast
def test_a_fingerprint_is_short_hex_and_stands_for_canonical_text() -> None:
    found = fp("[attention, mlp]")
    assert len(found) == DIGITS
    assert int(found, 16) >= 0
    assert canonical({"b": 1.0, "a": (True, None, "x")}) == {"b": 1, "a": [True, None, "x"]}
    assert digest({"b": 1.0, "a": 2}) == digest({"a": 2.0, "b": 1})
    assert digest({"b": True}) != digest({"b": 1})
    assert digest(1.5) != digest(1)
    with pytest.raises(TypeError, match="no canonical form"):
        canonical(object())


@pytest.mark.fast
def test_resolving_gives_the_numbers_of_one_layer() -> None:
    block = sequence(residual(node("mlp", hidden=Size(multiple=2.5)), gain="layer/depth"))
    (resolved,) = resolve(block, SEEN_FROM, CATALOGUE)
    assert fixed(resolved["gain"]) == 2 / 4
    assert resolved["branch"].parts[0]["hidden"] == Size(units=160)
    trained = sequence(residual("mlp", gain=gain("1/layer", trainable=True)))
    assert resolve(trained, SEEN_FROM, CATALOGUE).parts[0]["gain"] == gain(0.5, trainable=True)


@pytest.mark.fast
def test_a_width_is_whole() -> None:
    assert units(Size(units=7), 64) == 7
    assert units(Size(multiple=0.5), 64) == 32
    assert units(Size(multiple=Fraction(8, 3)), 96) == 256
    assert units(Size(multiple=0.07), 100) == 7, "what is written, not the float nearest to it times 100"
    assert units(Size(multiple=8 / 3), 96) == 256, "whole as floats round it"
    for multiple in (0.3, Fraction(8, 3), Fraction(1, 65)):
        with pytest.raises(ValueError, match="not a whole number"):
            units(Size(multiple=multiple), 64)


@given(st.integers(1, 9999), st.integers(1, 9999), st.integers(1, 10**6))
def test_a_fraction_of_the_width_is_exact(p: int, q: int, width: int) -> None:
    multiple = read_multiple(f"{p}/{q}x")
    assert multiple == Fraction(p, q)
    size = Size(multiple=multiple)
    assert size.at(width) == Fraction(p * width, q)
    assert read_multiple(print_value(size)) == multiple
    assert canonical(size) == canonical(Size(multiple=read_multiple(f"{7 * p}/{7 * q}x")))
    if p * width % q == 0:
        assert units(size, width) == p * width // q


@pytest.mark.fast
def test_fingerprints_of_widths_stay_what_they_were() -> None:
    """Results are found by them: these are of the version that knew no fractions."""
    assert {text: fp(text) for text in FINGERPRINTS} == FINGERPRINTS


@pytest.mark.fast
def test_what_is_fixed() -> None:
    assert fixed(gain("1/4")) == 0.25
    assert fixed(gain(1, trainable=True)) is None
    assert fixed(gain("depth")) is None
    assert fixed(True) is None
    assert fixed(2) == 2.0
