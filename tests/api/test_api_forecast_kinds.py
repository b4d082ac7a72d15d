"""`ablate.forecast` of spaces whose models read images, features, or a source."""

from __future__ import annotations

import math

import pytest

import ablate


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "rows", "tokens"),
    [("deep_vit", ("pre_ln", "dslm_vit", "deep", "deep_pre_ln"), 16), ("sgd_mlp", ("outlier_mlp_pre_norm", "sgd"), 1)],
)
def test_a_space_of_classifiers(name, rows, tokens, tmp_path):
    ahead = ablate.forecast(ablate.load_space(name, profile="smoke"), results=tmp_path, samples=1)
    assert not ahead.refused and set(rows) <= set(ahead.models)
    for each, (start,) in ahead.sampled.items():
        model = ahead.models[each]
        assert len(model.streams[0].kernel) == tokens and model.encoder is None and math.isnan(model.repetition)
        assert model.streams[0].mean_square == pytest.approx(start.streams[0].mean_square, rel=0.4)


@pytest.mark.full
def test_a_space_of_two_stacks_has_a_row_for_each(tmp_path):
    space = ablate.load_space("encoder_decoder", profile="smoke", settings=("data.corpus.drawn_speech=400",))
    ahead = ablate.forecast(space, results=tmp_path, samples=1)
    names = ["pre_ln_plain", "dslm_pre_ln_cross", "post_ln_plain", "dslm_post_ln_cross"]
    assert not ahead.refused
    assert list(ahead.models) == [each for name in names for each in (name, f"{name}, encoder")]
    assert list(ahead.sampled) == list(ahead.models)
    decoder, encoder = ahead.models["pre_ln_plain"], ahead.models["pre_ln_plain, encoder"]
    assert decoder.encoder is encoder and len(decoder.streams) == 3 and len(encoder.streams) == 5
    assert math.isnan(encoder.logits) and decoder.logits > 0
