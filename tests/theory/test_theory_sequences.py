"""Forecasts of the sequences of a text: their mean, and what a mean taken before the model would get wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import CATALOGUE, architecture
from reading import transformer
from test_theory_models import WIDE

from ablate.block.sizes import Sizes
from ablate.execute.sampled_initialisation import sampled_initialisation
from ablate.theory.models import forecast
from ablate.theory.sequences import forecast_sequences, mean_of

SIZES = Sizes(n_layers=6, d_model=256, n_heads=4, seq_len=24, vocab_size=256, repetition=0.1)
TOKENS = np.stack([np.random.default_rng(kinds).integers(0, kinds, 24) for kinds in (4, 8, 24, 100)])
MODEL = architecture(transformer().blocks["value_skipinit"].block, sizes=SIZES, **WIDE)


def test_it_is_the_mean_of_a_forecast_of_each():
    each = [forecast(MODEL, CATALOGUE, (window[:, None] == window).astype(float)) for window in TOKENS]
    whole = forecast_sequences(MODEL, CATALOGUE, TOKENS)
    for layer, stream in enumerate(whole.streams):
        for name in ("mean_square", "correlation", "gradient", "gradient_correlation"):
            assert getattr(stream, name) == pytest.approx(np.mean([getattr(one.streams[layer], name) for one in each]))
        assert stream.kernel == pytest.approx(np.mean([one.streams[layer].kernel for one in each], axis=0))
    assert whole.repetition == pytest.approx(np.mean([one.repetition for one in each]))
    assert whole.logits == pytest.approx(np.mean([one.logits for one in each]))
    for layer, attention in enumerate(whole.attention):
        assert attention.entropy == pytest.approx(np.mean([one.attention[layer].entropy for one in each]))
        assert attention.layer == each[0].attention[layer].layer
    assert mean_of(each[:1]) is each[0]


def test_a_sampled_model_agrees_with_it_and_not_with_a_mean_taken_before_the_model():
    drawn = [sampled_initialisation(MODEL, CATALOGUE, torch.from_numpy(TOKENS), seed=seed) for seed in range(4)]
    measured = np.mean([one.streams[-1].correlation for one in drawn])
    share = np.mean([(window[:, None] == window).astype(float) for window in TOKENS], axis=0)
    assert forecast_sequences(MODEL, CATALOGUE, TOKENS).streams[-1].correlation == pytest.approx(measured, abs=0.02)
    assert abs(forecast(MODEL, CATALOGUE, share).streams[-1].correlation - measured) > 0.06
