"""A sampled initialisation, beside its definition and beside the forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import architecture, node
from reading import transformer

from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.execute.start import sampled_initialisation
from ablate.theory.initial_state import mean_cosine
from ablate.theory.models import forecast

CATALOGUE = transformer().catalogue
SIZES = Sizes(n_layers=3, d_model=64, n_heads=4, seq_len=10, vocab_size=40)
NORM = node("layer_norm", bias=True, scale=True)


def model(block="pre_ln", sizes=SIZES, **changes):
    around = {"embedding_std": 1.0, "embedding_scale": 1.0, "init": node("normal", std="1/sqrt(width)")}
    return architecture(transformer().blocks[block].block, sizes=sizes, final_norm=NORM, **{**around, **changes})


def tokens_of(sizes=SIZES, seed=0):
    return torch.randint(sizes.vocab_size, (6, sizes.seq_len), generator=torch.Generator().manual_seed(seed))


def test_its_numbers_are_those_of_the_streams():
    tokens, whole = tokens_of(), model()
    start = sampled_initialisation(whole, CATALOGUE, tokens, seed=3)
    drawn = compile_model(whole, CATALOGUE, seed=3)
    streams = [drawn.embedding(tokens)]
    for layer in drawn.layers.values():
        streams.append(layer(streams[-1]))
    for stream, x in zip(start.streams, streams, strict=True):
        x = x.detach().numpy().astype(np.float64)
        assert stream.mean_square == pytest.approx((x**2).mean(), rel=1e-5)
        assert stream.correlation == pytest.approx(mean_cosine(np.mean(x @ x.transpose(0, 2, 1), axis=0)), abs=1e-5)
    assert start.logits == pytest.approx(float(drawn(tokens).detach().square().mean()), rel=1e-5)
    pairs = [(a == b) for row in tokens.tolist() for i, a in enumerate(row) for j, b in enumerate(row) if i != j]
    assert start.repetition == pytest.approx(np.mean(pairs))


def test_its_gradient_is_that_of_a_loss_with_a_gradient_of_its_own_for_each_entry():
    """By finite differences: the mean square of the gradient is the mean, over entries, of how much the loss moves."""
    tokens, whole = tokens_of(), model()
    start = sampled_initialisation(whole, CATALOGUE, tokens, seed=1)
    drawn = compile_model(whole, CATALOGUE, seed=1, dtype=torch.float64)
    x = drawn.embedding(tokens).detach()
    random = torch.Generator().manual_seed(0)

    def behind(x, layers):
        for layer in layers:
            x = layer(x)
        return drawn.final_norm(x)

    layers = list(drawn.layers.values())
    moved = []
    for first in (0, len(layers)):
        at = x if first == 0 else behind_layers(x, layers)
        step = 1e-4 * torch.randn(at.shape, generator=random, dtype=torch.float64)
        change = behind(at + step, layers[first:]) - behind(at - step, layers[first:])
        moved.append(float(change.detach().square().sum() / (4 * step.square().sum())))
    assert start.gradient_ratio == pytest.approx(moved[0] / moved[1], rel=0.1)


def behind_layers(x, layers):
    for layer in layers:
        x = layer(x)
    return x.detach()


def test_it_follows_from_its_seed_and_leaves_no_trace():
    whole, tokens = model(embedding_dropout=0.2), tokens_of()
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = (sampled_initialisation(whole, CATALOGUE, tokens, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    numbers = [[stream.mean_square for stream in start.streams] for start in (first, again, other)]
    assert numbers[0] == numbers[1] != numbers[2]


def test_it_is_a_model_in_training():
    """Dropout of a share p multiplies the mean square by 1 / (1 - p)."""
    first, dropped = (
        sampled_initialisation(model(embedding_dropout=p), CATALOGUE, tokens_of(), seed=0).streams[0].mean_square
        for p in (0.0, 0.2)
    )
    assert dropped / first == pytest.approx(1.25, rel=0.05)


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_the_forecast_is_near_it(kind):
    sizes = replace(SIZES, d_model=256, vocab_size=100, causal=kind == "decoder")
    whole = model(sizes=sizes, kind=kind)
    starts = [sampled_initialisation(whole, CATALOGUE, tokens_of(sizes, seed), seed=seed) for seed in range(4)]
    expected = forecast(whole, CATALOGUE, repetition=float(np.mean([start.repetition for start in starts])))
    for layer, stream in enumerate(expected.streams):
        there = [start.streams[layer] for start in starts]
        assert stream.mean_square == pytest.approx(np.mean([each.mean_square for each in there]), rel=0.05)
        assert stream.correlation == pytest.approx(np.mean([each.correlation for each in there]), abs=0.04)
        assert stream.gradient == pytest.approx(np.mean([each.gradient for each in there]), rel=0.15)
    assert expected.logits == pytest.approx(np.mean([start.logits for start in starts]), rel=0.1)
