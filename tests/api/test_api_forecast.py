"""`ablate.forecast`: a block at sizes, or a space; as tables, with the numbers of `theory`."""

from __future__ import annotations

import math

import pytest
from tiny_spaces import write_world

import ablate
from ablate.block.architecture import plain_decoder
from ablate.block.read import read_component
from ablate.theory.dangers import collapse_layer, dangers
from ablate.theory.sequences import forecast_patterns
from ablate.theory.token_patterns import FORECAST, READ, draw_tokens, patterns

ALIKE = "[residual: [layer_norm, attention: {query: identity, key: identity}]]"
"""A block that is not forecast: its scores are not random."""
SIZES = ablate.Sizes(n_layers=8, d_model=32, n_heads=4, seq_len=8, vocab_size=64)


def expected(name: str):
    known = ablate.catalogue()
    drawn = draw_tokens(SIZES.repetition, SIZES.vocab_size, SIZES.seq_len, patterns(SIZES.n_layers), FORECAST)
    return forecast_patterns(
        plain_decoder(
            ablate.load_block(name),
            SIZES,
            init=read_component("normal: 1/sqrt(width)", "init", known),
            embedding_std=1,
            final_norm=read_component("layer_norm: {eps: 1e-5, scale: true, bias: true}", "norm", known),
        ),
        known,
        drawn,
        READ,
    )


@pytest.mark.parametrize("name", ["post_ln", "pre_ln"])
def test_a_block_has_the_numbers_of_theory(name):
    model = expected(name)
    (row,) = ablate.forecast(name, SIZES).table.to_dict("records")
    assert row["model"] == name and row["refused"] == "" and row["dangers"] == tuple(map(str, dangers(model)))
    assert row["cosine"] == model.streams[-1].correlation
    assert row["gradient"] == math.sqrt(model.streams[0].gradient)
    assert row["growth"] == math.sqrt(model.streams[-1].mean_square / model.streams[0].mean_square)
    assert row["logits"] == math.sqrt(model.logits)
    assert row["collapses_at"] == collapse_layer(model) or collapse_layer(model) is None


@pytest.mark.parametrize(
    ("given", "name"), [("pre_ln", "pre_ln"), (" pre_ln ", "pre_ln"), ("[residual: [rms_norm, mlp]]", "block")]
)
def test_a_block_that_is_given_as_yaml_is_not_named_by_its_text(given, name):
    ahead = ablate.forecast(given, SIZES)
    assert list(ahead.models) == [name] and ahead.table["model"].tolist() == [name]


def test_the_layers_are_those_of_the_forecast_and_of_what_was_sampled():
    ahead = ablate.forecast("pre_ln", SIZES, samples=2)
    layers = ahead.layers
    assert list(layers["layer"]) == [*range(9)] * 3 and list(layers["sample"]) == [0] * 9 + [1] * 9 + [2] * 9
    assert list(layers["cosine"][:9]) == [stream.correlation for stream in expected("pre_ln").streams]
    measured = layers[layers["sample"] == 2]
    assert list(measured["size"]) == [math.sqrt(s.mean_square) for s in ahead.sampled["pre_ln"][1].streams]
    assert repr(ahead) == "<Forecasts of 1 model: 0 in danger>"


def test_a_block_may_be_a_name_yaml_or_a_value_with_overrides():
    block = ablate.load_block("sas", overrides={"attention.position": "rope"})
    given = ablate.forecast(block, SIZES).layers.drop(columns="model")
    for other in (
        ablate.forecast(str(block), SIZES),
        ablate.forecast("sas", SIZES, overrides={"attention.position": "rope"}),
    ):
        assert other.layers.drop(columns="model").equals(given)


def test_a_space_has_a_row_for_each_variant_and_the_reason_of_what_is_not_forecast(tmp_path):
    settings = ["design={compare: [pre_ln, alike]}", f"blocks={{alike: {ALIKE}}}"]
    space = ablate.load_space(write_world(tmp_path), settings=settings)
    ahead = ablate.forecast(space, results=tmp_path / "results")
    first, last = ahead.table.to_dict("records")
    assert (first["model"], last["model"]) == ("pre_ln", "alike") and first["cosine"] < 1
    assert last["refused"].startswith("attention whose queries and keys both start") and math.isnan(last["cosine"])
    assert repr(ahead) == "<Forecasts of 1 model: 0 in danger, 1 not forecast>"
    with pytest.raises(ablate.InputError, match="a space has sizes"):
        ablate.forecast(space, SIZES)


def test_what_cannot_be_forecast_is_refused_with_a_way_out():
    with pytest.raises(ablate.InputError, match="a block is forecast at sizes\n  = give"):
        ablate.forecast("pre_ln")
    with pytest.raises(ablate.InputError, match="queries and keys both start as its input"):
        ablate.forecast(ALIKE, SIZES)
    with pytest.raises(ablate.InputError, match="samples is -1"):
        ablate.forecast("pre_ln", SIZES, samples=-1)
