"""Forecasts of the sequences of a text: their mean, and what a mean taken before the model would get wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, architecture
from reading import transformer
from test_theory_models import WIDE

from ablate.block.sizes import Sizes
from ablate.execute.start import sampled_initialisation
from ablate.theory.models import forecast
from ablate.theory.sequences import forecast_patterns, forecast_sequences, mean_of

SIZES = Sizes(n_layers=6, d_model=256, n_heads=4, seq_len=24, vocab_size=256, repetition=0.1)
TOKENS = np.stack([np.random.default_rng(kinds).integers(0, kinds, 24) for kinds in (4, 8, 24, 100)])
MODEL = architecture(transformer().blocks["value_skipinit"].block, sizes=SIZES, **WIDE)


def alike(tokens):
    return (tokens[:, None] == tokens).astype(float)


def sampled(model, tokens, *, seed, apart):
    return sampled_initialisation(model, CATALOGUE, torch.from_numpy(tokens), seed=seed, apart=apart)


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
    drawn = [sampled(MODEL, TOKENS, seed=seed, apart=True) for seed in range(4)]
    measured = np.mean([one.streams[-1].correlation for one in drawn])
    share = np.mean([(window[:, None] == window).astype(float) for window in TOKENS], axis=0)
    assert forecast_sequences(MODEL, CATALOGUE, TOKENS).streams[-1].correlation == pytest.approx(measured, abs=0.02)
    assert abs(forecast(MODEL, CATALOGUE, share).streams[-1].correlation - measured) > 0.06


def test_an_encoder_is_sampled_and_forecast_apart_too():
    """Each source with its own sequence; the mean over both is of the numbers, not of the kernels."""
    sizes = replace(SIZES, n_layers=2, d_model=64, source_len=12)
    around = {**WIDE, "kind": "encoder_decoder", "positions": "none"}
    model = architecture(transformer().blocks["pre_ln_cross"].block, sizes=sizes, **around)
    sources = TOKENS[:, :12][::-1].copy()
    read = [(torch.from_numpy(source[None]), torch.from_numpy(own[None])) for source, own in zip(sources, TOKENS)]
    together = torch.from_numpy(sources), torch.from_numpy(TOKENS)
    alone = [sampled_initialisation(model, CATALOGUE, one, seed=3).encoder for one in read]
    apart = sampled_initialisation(model, CATALOGUE, together, seed=3, apart=True).encoder
    each = [forecast(model, CATALOGUE, alike(own), alike(source)).encoder for source, own in zip(sources, TOKENS)]
    ahead = forecast_patterns(model, CATALOGUE, TOKENS, 8, sources).encoder
    for layer, stream in enumerate(apart.streams):
        assert stream.correlation == pytest.approx(np.mean([one.streams[layer].correlation for one in alone]), abs=1e-5)
        found = ahead.streams[layer]
        assert found.correlation == pytest.approx(np.mean([one.streams[layer].correlation for one in each]))
        squares = [one.streams[layer].gradient for one in each]
        assert found.gradient == pytest.approx(np.exp(np.mean(np.log(squares))))
        assert found.spread.correlation > np.mean([one.streams[layer].spread.correlation for one in each])


def test_sequences_that_are_sampled_apart_are_the_mean_of_each_alone():
    """Behind U-SPA tokens of a sequence that repeats are larger: in the mean kernel of all they weigh more."""
    model = architecture(transformer().blocks["u_spa"].block, sizes=SIZES, **WIDE)
    alone = [sampled(model, window[None], seed=3, apart=False) for window in TOKENS]
    apart, together = (sampled(model, TOKENS, seed=3, apart=apart) for apart in (True, False))
    for layer, stream in enumerate(apart.streams):
        for name in ("mean_square", "correlation"):
            mean = np.mean([getattr(one.streams[layer], name) for one in alone])
            assert getattr(stream, name) == pytest.approx(mean, abs=1e-5)
    assert apart.logits == pytest.approx(np.mean([one.logits for one in alone]), rel=1e-5)
    assert apart.repetition == pytest.approx(together.repetition)
    assert together.streams[-1].correlation > apart.streams[-1].correlation + 0.01
    assert forecast_sequences(model, CATALOGUE, TOKENS).streams[-1].correlation == pytest.approx(
        apart.streams[-1].correlation, abs=0.05
    )
