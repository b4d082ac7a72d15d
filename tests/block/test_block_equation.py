"""A block as equations: checked against the papers' own, and against numbers that the compiled block gives."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, default_init, gain, many_blocks, node, op, post_ln, pre_ln, residual, sequence
from reading import transformer

from ablate.block.arithmetic import parse
from ablate.block.catalogue import Catalogue
from ablate.block.equation import equation, grouped, total, written
from ablate.block.expression import Block
from ablate.compiler import compile_block

pytestmark = pytest.mark.fast

PLAIN = replace(SIZES, repetition=0.05)


def said(block: Block, catalogue: Catalogue = CATALOGUE) -> str:
    return equation(block, PLAIN, catalogue).text


def lines(block: Block) -> tuple[str, ...]:
    return equation(block, PLAIN, CATALOGUE).lines


def test_pre_norm() -> None:
    assert lines(pre_ln()) == ("x₁ = x + Attn(LayerNorm(x))", "x₂ = x₁ + MLP(LayerNorm(x₁))")


def test_post_norm_stands_outside_the_residual() -> None:
    assert lines(post_ln("rms_norm"))[:2] == ("x₁ = x + Attn(x)", "x₂ = RMSNorm(x₁)")


def test_parallel() -> None:
    (line,) = lines(many_blocks()["parallel"])
    assert line == "x₁ = x + Attn(LayerNorm(x)) + MLP(LayerNorm(x))"


def test_op_has_one_gain_with_its_value() -> None:
    found = equation(op(), PLAIN, CATALOGUE)
    assert found.lines == ("x₁ = x + β Attn(x)", "x₂ = x₁ + β MLP(x₁)")
    assert found.gains == (f"β = 1/√(2L) = {1 / math.sqrt(2 * PLAIN.n_layers):.4g}",)


def test_attention_as_the_papers_write_it() -> None:
    text = said(op())
    assert "Attn(X) = Concat(A V) W^P" in text
    assert "Q = X W^Q,  K = X W^K,  V = X W^V" in text
    assert "S = Q Kᵀ/√d_k" in text
    assert "Q ← RMSNorm(Q),  K ← RMSNorm(K)" in text
    assert "MLP(X) = ReLU(X W^U) W^D" in text


def test_what_is_in_attention_is_said_and_what_is_not_is_not() -> None:
    full = node("attention", pre_v="rms_norm", entropy=(node("softcap", cap=30.0),), bias="alibi", scale="1/head_width")
    text = said(sequence(residual(full)))
    assert "V = RMSNorm(X) W^V" in text and "Q = X W^Q" in text
    assert "S = Q Kᵀ/d_k" in text
    assert "S ← 30 tanh(S / 30)" in text
    assert "softmax(S + B + M)" in text and "B_ij = -m_h |i - j|" in text
    plain = said(sequence(residual("attention")))
    assert "tanh" not in plain and "B" not in plain and "RMSNorm" not in plain


def test_trained_gains_are_letters_of_their_own_and_equal_fixed_ones_share_one() -> None:
    trained = gain(0.5, trainable=True)
    found = equation(sequence(residual("attention", gain=trained), residual("mlp", gain=trained)), PLAIN, CATALOGUE)
    assert found.lines == ("x₁ = x + β₁ Attn(x)", "x₂ = x₁ + β₂ MLP(x₁)")
    assert found.gains == ("β₁: trained from 0.5", "β₂: trained from 0.5")
    fixed = equation(sequence(residual("attention", gain="1/depth"), residual("mlp", gain="1/depth")), PLAIN, CATALOGUE)
    assert fixed.gains == ("β = 1/L = 0.5",)


def test_a_gain_that_differs_by_layer_is_said_for_the_first_and_the_last() -> None:
    found = equation(sequence(residual("mlp", gain="1/layer")), PLAIN, CATALOGUE)
    assert found.gains == ("β = 1/l = 1 in layer 1, 0.5 in the last",)


def test_a_gain_for_each_channel_multiplies_elementwise() -> None:
    channels = gain(0, trainable=True, per="channel")
    found = equation(sequence(residual("mlp", gain=channels)), PLAIN, CATALOGUE)
    assert found.lines == ("x₁ = x + β ⊙ MLP(x)",)
    assert found.gains == ("β: trained from 0, one number per channel",)


def test_two_mlps_are_told_apart_and_defined_together() -> None:
    found = equation(many_blocks()["macaron"], PLAIN, CATALOGUE)
    assert found.lines[0] == "x₁ = x + 0.5 MLP₁(x)" and found.lines[2] == "x₃ = x₂ + 0.5 MLP₂(x₂)"
    assert sum("MLP₁(X), MLP₂(X) = " in part[0] for part in found.definitions) == 1


def test_norms_that_differ_are_told_apart_and_equal_ones_are_one() -> None:
    fine, coarse = node("rms_norm", eps=1e-8), node("rms_norm", eps=1e-5)
    found = equation(sequence(residual(fine, "attention"), residual(coarse, "mlp"), residual(fine)), PLAIN, CATALOGUE)
    assert found.lines == (
        "x₁ = x + Attn(RMSNorm₁(x))",
        "x₂ = x₁ + MLP(RMSNorm₂(x₁))",
        "x₃ = x₂ + RMSNorm₁(x₂)",
    )


def test_a_combinator_inside_a_branch_gets_its_input_once() -> None:
    inner = residual("mlp", gain=0.5)
    assert lines(sequence(residual("rms_norm", inner, "attention"))) == (
        "x₁ = RMSNorm(x)",
        "x₂ = x + Attn(x₁ + 0.5 MLP(x₁))",
    )


def test_no_skip_and_no_part() -> None:
    assert lines(sequence(residual("mlp", skip=0, gain=0.5))) == ("x₁ = 0.5 MLP(x)",)
    assert lines(sequence(residual("mlp", gain=0))) == ("x₁ = x",)
    assert lines(sequence()) == ("x₁ = x",)


def test_a_component_without_an_equation_is_a_name() -> None:
    spec = CATALOGUE["mlp"]
    silent = type("Config", (), {"__init__": lambda self, **fields: None})
    other = Catalogue({**CATALOGUE.components, "mlp": replace(spec, config=silent)})
    assert "x₂ = x₁ + mlp(LayerNorm(x₁))" in said(pre_ln(), other)


@pytest.mark.parametrize("name", transformer().blocks)
def test_every_named_block_has_one(name: str) -> None:
    sizes = replace(PLAIN, n_layers=36, d_model=64, n_heads=4)
    text = equation(transformer().block(name), sizes, transformer().catalogue).text
    assert text.startswith("x₁ = ")
    assert not re.search("[\ue000-\uf8ff]|None|object at|Config\\(", text)


@pytest.mark.parametrize("name", many_blocks())
def test_every_letter_and_function_is_defined(name: str) -> None:
    found = equation(many_blocks()[name], PLAIN, CATALOGUE)
    used = {letter for line in found.text.splitlines() for letter in re.findall("[αβγ][₀-₉]*(?:\\^\\w+)?", line)}
    assert used == {re.split(":| = ", line)[0] for line in found.gains}
    called = {name for line in found.lines for name in re.findall(r"\w+(?=\()", line)}
    assert called <= {head.split("(")[0] for part in found.definitions for head in part[0].split(" = ")[0].split(", ")}


NUMPY = {
    "RMSNorm": lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5),
    "LayerNorm": lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
}


@pytest.mark.parametrize(
    "block",
    [
        sequence(residual("rms_norm", gain="1/sqrt(2*depth)"), "layer_norm", residual("rms_norm", skip=0.5)),
        sequence(node("parallel", skip=0.25, gain=0.5, branches=[["layer_norm"], ["rms_norm"]]), "rms_norm"),
        sequence(residual("rms_norm", residual("layer_norm", gain=0.5), gain=2, skip="1/depth")),
        sequence(residual(residual("layer_norm", gain=0.5), residual("rms_norm"), gain=-0.5)),
    ],
)
def test_the_lines_give_the_numbers_that_the_block_gives(block: Block) -> None:
    """The text, evaluated by NumPy, is what the compiled block computes."""
    x = np.random.default_rng(0).normal(size=(2, 12, 16)) * 3 + 1
    found = equation(block, PLAIN, CATALOGUE)
    names = {"x": x, **NUMPY}
    for line in found.gains:
        names[line.split(" = ")[0]] = float(evaluated(line.split(" = ")[1], {"L": PLAIN.n_layers}))
    for line in found.lines:
        symbol, text = line.split(" = ")
        names[plain(symbol)] = evaluated(text, names)
    model = compile_block(block, PLAIN, CATALOGUE, init=default_init(), dtype=torch.float64)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(names[plain(found.lines[-1].split(" = ")[0])], expected, rtol=1e-10)


def evaluated(text: str, names: dict[str, object]) -> np.ndarray:
    """Juxtaposition is a product: the only thing that Python reads otherwise."""
    python = re.sub(r"√\(?(\w+)\)?", r"(\1)**0.5", plain(text))
    python = re.sub(r"(?<=[\w.)]) (?=[\w(])", " * ", python)
    python = re.sub(r"(?<=\d)(?=L)", "*", python)
    return eval(python, {}, names)  # noqa: S307  (a text of this test's own)


def plain(text: str) -> str:
    return text.translate(str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789"))


@pytest.mark.parametrize(
    ("arithmetic", "expected"),
    [
        ("1/sqrt(2*depth)", "1/√(2L)"),
        ("1/sqrt(head_width)", "1/√d_k"),
        ("(2*depth)**(-1/4)", "(2L)^(-1/4)"),
        ("width**2", "d²"),
        ("depth*(layer-1)/2", "L·(l - 1)/2"),
        ("1/(2*depth)", "1/(2L)"),
        ("max(depth,layer)-1e-9", "max(L, l) - 1e-9"),
        ("2*3*pi", "2·3·π"),
    ],
)
def test_arithmetic_in_letters(arithmetic: str, expected: str) -> None:
    assert written(parse(arithmetic)) == expected


def test_sums() -> None:
    assert total("x", "-0.5 y", "z") == "x - 0.5 y + z"
    assert grouped("f(x + y) z") == "f(x + y) z"
    assert grouped("x - y") == "(x - y)"
