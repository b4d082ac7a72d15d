"""FLOPs of training in closed form against PyTorch's own counter over a forward and a backward pass."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, gain, node, pre_ln, residual, sequence
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import DEPTHS, decoders, transformer
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import ablate
from ablate.block.expression import Node, Sequence, walk
from ablate.block.sizes import Cost
from ablate.compiler import compile_model, size_report
from ablate.kernels import Attend
from ablate.plan.size import cost

ROOT = Path(__file__).parents[2]
GRAMMAR = transformer()
SPACE = ablate.load_space(ROOT / "spaces" / "op_vs_preln.yaml", profile="smoke")

FIXED = node("reparameterised", init="orthogonal", skip=1, gain=0)
WEIGHTS = {
    "dense": node("dense", bias=True),
    "frozen": node("frozen", init="orthogonal"),
    "fixed": FIXED,
    "fixed, but its gain": node("reparameterised", init="orthogonal", skip=gain(1, trainable=True), gain=0),
    "reparameterised": node("reparameterised", init="orthogonal", skip=1, gain=1),
    "spectral": node("spectral", init="orthogonal"),
    "identity": node("identity"),
}
MATRICES = {
    "softmax": node("softmax"),
    "e_spa": node("e_spa", decay=0.2),
    **{
        f"shaped {fields}": node("shaped", **dict(zip(("skip", "gain", "centre"), fields, strict=True)))
        for fields in product((0, 1), repeat=3)
        if fields != (0, 1, 0)
    },
    "value_skipinit without attention": node("value_skipinit", skip=0.5, gain=0),
    "nothing": node("value_skipinit", skip=0, gain=0),
}
BIASES = (None, "alibi", "t5", "transformer_xl")


def counted(model):
    """FLOPs of training on one sequence, on the CPU, of the loss that is trained: nothing of our own counts them."""
    sizes = model.sizes
    decoder = compile_model(model, CATALOGUE)
    for module in decoder.modules():
        if isinstance(module, Attend):
            module.kernel = "eager"  # others compute scores again in their backward pass
    tokens = torch.arange(sizes.seq_len)[None] % sizes.vocab_size
    with FlopCounterMode(display=False) as counter:
        loss = nn.functional.cross_entropy(decoder(tokens)[0], tokens[0])
        loss.backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("weight", WEIGHTS)
def test_three_times_the_forward_pass_less_what_fixed_weights_spare(weight):
    block = pre_ln(attention=node("attention", value=WEIGHTS[weight], projection=WEIGHTS[weight]))
    model = architecture(block)
    assert cost(model, CATALOGUE).training_flops == counted(model)
    # two layers of a value and a projection of 12 × 16 × 16, one of whose three products no one asks for
    spared = {"frozen": 2 * 2 * 2 * 12 * 16 * 16, "fixed": 2 * 2 * 2 * 12 * 16 * 16, "spectral": 2 * 2 * 6 * 16 * 16}
    assert cost(model, CATALOGUE).spared == spared.get(weight, 0)


@pytest.mark.sampled(12, gate=80)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("weight", ["dense", "frozen", "spectral"])
@pytest.mark.parametrize("causal", [True, False])
def test_of_queries_and_keys_that_nothing_reads_no_gradient_comes_back(causal, weight, matrix, bias):
    regulations = (node("sigma_reparam"),) if weight == "dense" else (node("qk_norm", norm="rms_norm"),)
    attention = node(
        "attention",
        query="dense" if weight == "dense" else WEIGHTS[weight],
        key="dense" if weight == "dense" else WEIGHTS[weight],
        value=WEIGHTS[weight],
        matrix=MATRICES[matrix],
        bias=bias,
        entropy=regulations,
        position="rope",
    )
    model = architecture(sequence(residual("rms_norm", attention)), sizes=replace(SIZES, causal=causal))
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


@settings(max_examples=examples_of(40), deadline=None)
@given(
    st.sampled_from(sorted(WEIGHTS)), st.sampled_from(sorted(WEIGHTS)), st.sampled_from(sorted(MATRICES)),
    st.sampled_from(BIASES), st.integers(1, 2), st.integers(2, 9), st.booleans(),
)  # fmt: skip
def test_at_any_size_and_place(value, mixer, matrix, bias, n_layers, seq_len, tied):
    attention = node("attention", value=WEIGHTS[value], matrix=MATRICES[matrix], bias=bias)
    inner = WEIGHTS["dense"] if mixer == "identity" else WEIGHTS[mixer]
    block = sequence(residual(attention), node("parallel", branches=[[node("mlp", up=inner, down=inner)], ["mlp"]]))
    model = architecture(block, tied=tied, sizes=replace(SIZES, n_layers=n_layers, seq_len=seq_len))
    assert cost(model, CATALOGUE).training_flops == counted(model)


def with_values(block, weight):
    """The block with that weight for its values and projections, in whatever they stand."""

    def at(value):
        match value:
            case Node(name="attention"):
                return value.replace({"value": weight, "projection": weight})
            case Node():
                return Node(value.name, tuple((name, at(child)) for name, child in value.fields))
            case Sequence():
                return Sequence(tuple(at(child) for child in value))
            case tuple():
                return tuple(at(child) for child in value)
        return value

    return at(block)


TWENTY = decoders()[::4][:20]


@pytest.mark.parametrize("name", [*TWENTY[:4], *(pytest.param(name, marks=pytest.mark.full) for name in TWENTY[4:])])
def test_twenty_shipped_blocks_with_their_weights_and_with_frozen_values(name):
    depth = DEPTHS.get(name, 6)
    own, frozen = GRAMMAR.block(name), with_values(GRAMMAR.block(name), WEIGHTS["frozen"])
    for block in (own, frozen):
        model = SPACE.architecture(block, 64)
        model = replace(model, sizes=replace(model.sizes, n_layers=depth))
        assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)
        attentions = depth * sum(node.name == "attention" for node in walk(block))
        product_of_one = 2 * model.sizes.seq_len * model.sizes.d_model**2
        if block is frozen:
            assert cost(model, CATALOGUE).spared >= 2 * attentions * product_of_one > 0


def test_of_pre_ln_with_frozen_values_three_forward_passes_are_too_many():
    block = with_values(GRAMMAR.block("pre_ln"), WEIGHTS["frozen"])
    found = cost(SPACE.architecture(block, 256), CATALOGUE)
    assert 3 * found.flops == found.training_flops + found.spared
    assert 3 * found.flops > 1.03 * found.training_flops


def test_a_cost_without_a_backward_pass_is_that_of_its_products():
    assert Cost(parameters=2, flops=10, spared=3).forward_only() == Cost(parameters=2, flops=10, spared=20)
    assert Cost(parameters=2, flops=10).forward_only().training_flops == 10
