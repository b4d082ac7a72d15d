"""The size in closed form, the size counted on the meta device, and by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from builders import CATALOGUE, SIZES, architecture, many_blocks, node, op, pre_ln, residual, sequence
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.block.expression import Size
from ablate.block.sizes import Cost
from ablate.compiler import size_report
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost, part_costs

AROUND = {
    "bare": {},
    "tied": {"tied": True},
    "dressed": {"positions": "learned", "entry_norm": node("rms_norm"), "final_norm": node("layer_norm", bias=True)},
    "sinusoidal": {"positions": "sinusoidal", "position_std": None, "tied": True},
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("around", list(AROUND.values()), ids=list(AROUND))
@pytest.mark.parametrize("block", list(many_blocks().values()), ids=list(many_blocks()))
def test_closed_form_equals_the_count(block, around):
    model = architecture(block, **around)
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


@settings(max_examples=examples_of(15), deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(2, 50), st.booleans())
def test_at_any_size(n_layers, n_heads, half_head, seq_len, vocab_size, causal):
    width = 2 * half_head * n_heads
    sizes = replace(SIZES, n_layers=n_layers, n_heads=n_heads, d_model=width, seq_len=seq_len, causal=causal)
    model = architecture(many_blocks()["regulated"], sizes=replace(sizes, vocab_size=vocab_size))
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


def test_a_fraction_of_the_width_is_counted_and_built_at_its_units():
    gated = {"gate": "dense", "activation": "silu"}
    of_width, of_units = (
        architecture(sequence(node("mlp", hidden=size, **gated)), sizes=replace(SIZES, d_model=24))
        for size in (Size(multiple=Fraction(8, 3)), Size(units=64))
    )
    assert cost(of_width, CATALOGUE) == cost(of_units, CATALOGUE) == size_report(of_width, CATALOGUE)
    assert model_identity(of_width, CATALOGUE) == model_identity(of_units, CATALOGUE)


def test_op_by_hand():
    width, hidden, n_times, vocabulary, n_layers = 16, 64, 12, 11, 2
    weights = 4 * width * width + 2 * width * hidden
    parameters = n_layers * (weights + 2 * 8) + 2 * vocabulary * width
    products = n_layers * (2 * n_times * weights + 4 * n_times**2 * width) + 2 * n_times * width * vocabulary
    assert cost(architecture(op()), CATALOGUE) == Cost(parameters, products)


def test_parts_by_address_add_up():
    model = architecture(pre_ln(), final_norm=node("rms_norm"))
    parts = part_costs(model, CATALOGUE)
    assert list(parts)[:4] == [
        "embedding",
        "layers.1.attention_residual",
        "layers.1.attention_norm",
        "layers.1.attention",
    ]
    assert list(parts)[-2:] == ["final_norm", "head"]
    assert sum(parts.values(), Cost()) == cost(model, CATALOGUE)
    assert parts["layers.1.attention_residual"] == Cost()
    assert parts["layers.2.attention_norm"] == Cost(parameters=16)


@pytest.mark.parametrize(
    ("block", "sizes", "message"),
    [
        (sequence("attention"), replace(SIZES, n_heads=3), "does not divide into 3 heads"),
        (sequence(node("attention", position="rope")), replace(SIZES, d_model=6), "choose an even width per head"),
        (sequence(residual("mlp", gain="1/(layer-1)")), SIZES, "residual.gain is 1/\\(layer-1\\), .* in layer 1 of 2"),
        (
            sequence(node("mlp", hidden=Size(multiple=0.3))),
            SIZES,
            "which makes 4.8: not [^=]*= [^=]* such as 5, or a width that is a multiple of 10",
        ),
        (
            sequence(node("mlp", hidden=Size(multiple=Fraction(8, 3)))),
            SIZES,
            "hidden is 8/3 times the model's width of 16, which makes 42.6667: not a whole number of units\n"
            "  = give the number of units itself, such as 43, or a width that is a multiple of 3$",
        ),
        (sequence(node("mlp", hidden=Size(multiple=Fraction(1, 99)))), SIZES, "itself, such as 1$"),
        (sequence(node("parallel", branches=[])), SIZES, "parallel has no branches"),
    ],
    ids=["heads", "rope", "gain", "width", "fraction", "less than one", "branches"],
)
def test_sizes_that_do_not_fit_are_refused_before_any_module_and_by_it(block, sizes, message):
    model = architecture(block, sizes=sizes)
    for measure in (cost, size_report):
        with pytest.raises(InputError, match=message):
            measure(model, CATALOGUE)
