"""`ablate.forecast`: a block at sizes, or a space; as tables, with the numbers of `theory`."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tiny_spaces import write_world

import ablate
from ablate.block.architecture import plain_decoder
from ablate.block.reader import read_component
from ablate.theory.diagnostics import collapse_layer, dangers
from ablate.theory.sequences import FORECAST, READ, SOURCE, draw_tokens, forecast_patterns, patterns

ALIKE = "[residual: [layer_norm, attention: {query: identity, key: identity}]]"
"""A block that is not forecast: its scores are not random."""
SIZES = ablate.Sizes(n_layers=8, d_model=32, n_heads=4, seq_len=8, vocab_size=64)


def alone(name: str, sizes: ablate.Sizes = SIZES):
    """A block with nothing around it but what the manual says."""
    known = ablate.catalogue()
    return plain_decoder(
        ablate.load_block(name),
        sizes,
        init=read_component("normal: 1/sqrt(width)", "init", known),
        embedding_std=1,
        final_norm=read_component("layer_norm: {eps: 1e-5, scale: true, bias: true}", "norm", known),
    )


def drawn(length: int, of: int):
    return draw_tokens(SIZES.repetition, SIZES.vocab_size, length, patterns(SIZES.n_layers), of)


def expected(name: str):
    return forecast_patterns(alone(name), ablate.catalogue(), drawn(SIZES.seq_len, FORECAST), READ)


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


@pytest.mark.parametrize("source", [None, 12])
def test_a_block_with_cross_attention_reads_an_encoder_of_the_block_without_it(source):
    """The encoder is Pre-LN that sees what comes later too; it has a source as long as the sequences, or as is said."""
    length = source or SIZES.seq_len
    ahead = ablate.forecast("pre_ln_cross", replace(SIZES, source_len=source), samples=2)
    decoder, encoder = ahead.models["pre_ln_cross"], ahead.models["pre_ln_cross, encoder"]
    assert list(ahead.models) == list(ahead.sampled) == ["pre_ln_cross", "pre_ln_cross, encoder"]
    assert decoder.encoder is encoder and ahead.table["model"].tolist() == list(ahead.models)
    sizes, sources = replace(SIZES, seq_len=length, causal=False), drawn(length, FORECAST + SOURCE)
    by_hand = forecast_patterns(alone("pre_ln", sizes), ablate.catalogue(), sources, READ)
    for stream, other in zip(encoder.streams, by_hand.streams, strict=True):
        assert stream.kernel == pytest.approx(other.kernel) and stream.mean_square == pytest.approx(other.mean_square)
        assert stream.spread.mean_square == pytest.approx(other.spread.mean_square)
    for start in ahead.sampled["pre_ln_cross, encoder"]:
        assert start.streams[0].kernel.shape == (length, length)
    assert decoder.streams[-1].correlation > expected("pre_ln").streams[-1].correlation + 0.05  # all read one source


def test_sources_are_drawn_apart_from_what_reads_them():
    assert (drawn(8, FORECAST) != drawn(8, FORECAST + SOURCE)).mean() > 0.5


def test_a_block_whose_encoder_would_be_left_with_nothing_is_refused():
    with pytest.raises(ablate.InputError, match="without what reads encoder, and nothing is left of it\n  = add"):
        ablate.forecast("[residual: [layer_norm, attention: {source: encoder}]]", SIZES)


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
