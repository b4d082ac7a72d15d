"""The gradient of each kind of weight, against autograd through blocks that are drawn, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ablate.signal.moments import Moments
from ablate.signal.weight_gradients import (
    AttentionWeights,
    Batch,
    MLPWeights,
    attention_gradients,
    embedding_gradient,
    matrix_gradient,
    mlp_gradients,
)

SEQUENCES, LENGTH, WIDTH, HEADS = 4, 96, 64, 2
BATCH = Batch(SEQUENCES, LENGTH)
SIGNALS = [(0.0, 0.0, 0.0), (0.3, 0.2, 0.0), (0.6, 0.5, 0.1), (0.2, 0.0, 0.3)]
"""The correlations of input and gradient, and the dropout."""


def tokens(random: torch.Generator, r: float) -> torch.Tensor:
    """[sequences, tokens, channels] of variance 1."""
    shape = (SEQUENCES, LENGTH, WIDTH)
    common = torch.randn(SEQUENCES, 1, WIDTH, generator=random, dtype=torch.float64)
    return math.sqrt(r) * common + math.sqrt(1 - r) * torch.randn(shape, generator=random, dtype=torch.float64)


def moments(x: torch.Tensor) -> Moments:
    square = float(x.square().sum())
    shared = (float(x.sum(1).square().sum()) - square) / (x.shape[1] - 1)
    return Moments.of(square / x.numel(), shared / x.numel())


def matrices(random: torch.Generator, **variances: tuple[int, int, float]) -> dict[str, torch.Tensor]:
    return {
        name: (math.sqrt(v) * torch.randn(a, b, generator=random, dtype=torch.float64)).requires_grad_()
        for name, (a, b, v) in variances.items()
    }


def dropped(x: torch.Tensor, p: float, random: torch.Generator) -> torch.Tensor:
    return x * (torch.rand(x.shape, generator=random) >= p) / (1 - p)


def attention(x, w, p, random):
    def heads(y):
        return y.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    q, k, v = (heads(x @ w[name]) for name in ("query", "key", "value"))
    weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(WIDTH / HEADS), -1)
    y = dropped(weights, p, random) @ v
    return dropped(y.transpose(1, 2).flatten(-2) @ w["projection"], p, random)


def mlp(x, w, p, random):
    return dropped(torch.relu(x @ w["up"]) @ w["down"], p, random)


def ratios(block, sizes, expected, r, rho, p, draws=16):
    """The mean squares of the gradients of drawn weights over what is expected, the mean over draws."""
    found = {name: [] for name in sizes}
    for seed in range(draws):
        random = torch.Generator().manual_seed(seed)
        x, g, w = tokens(random, r), tokens(random, rho), matrices(random, **sizes)
        (block(x, w, p, random) * g).sum().backward()
        forecast = expected(moments(x), moments(g))
        for name, each in found.items():
            each.append(float(w[name].grad.square().mean()) / getattr(forecast, name))
    return {name: float(np.mean(each)) for name, each in found.items()}


@pytest.mark.parametrize(("r", "rho", "p"), SIGNALS)
def test_attention(r, rho, p):
    variances = AttentionWeights(query=0.6 / WIDTH, key=1.2 / WIDTH, value=1.5 / WIDTH, projection=0.7 / WIDTH)
    sizes = {name: (WIDTH, WIDTH, getattr(variances, name)) for name in AttentionWeights.__slots__}
    found = ratios(attention, sizes, lambda x, g: attention_gradients(x, g, variances, WIDTH, p, BATCH), r, rho, p)
    assert found == pytest.approx(dict.fromkeys(found, 1.0), abs=0.12)


@pytest.mark.parametrize(("r", "rho", "p"), SIGNALS)
def test_mlp(r, rho, p):
    hidden = 3 * WIDTH
    variances = MLPWeights(up=2 / WIDTH, down=0.8 / hidden)
    sizes = {"up": (WIDTH, hidden, variances.up), "down": (hidden, WIDTH, variances.down)}
    found = ratios(mlp, sizes, lambda x, g: mlp_gradients(x, g, variances, WIDTH, p, BATCH), r, rho, p)
    assert found == pytest.approx(dict.fromkeys(found, 1.0), abs=0.1)


def test_tokens_share_most_of_a_gradient():
    """The twin: without the covariance over tokens it is an order of magnitude too small at r = r_g = 1/2."""
    random = torch.Generator().manual_seed(0)
    x, g = tokens(random, 0.5), tokens(random, 0.5)
    found = float(torch.einsum("bti,btj->ij", x, g).square().mean())
    given, behind = moments(x), moments(g)
    assert matrix_gradient(given, behind, BATCH) == pytest.approx(found, rel=0.1)
    assert matrix_gradient(given, Moments(behind.variance, 0.0), BATCH) < found / 10


def test_mean_of_an_input_counts():
    found = []
    for seed in range(24):
        random = torch.Generator().manual_seed(seed)
        x, g = tokens(random, 0.1), tokens(random, 0.1)
        drawn = float(torch.einsum("bti,btj->ij", x + 0.7, g).square().mean())
        given = moments(x)
        whole = matrix_gradient(Moments(given.variance, given.correlation, 0.7), moments(g), BATCH)
        found.append((drawn / whole, drawn / matrix_gradient(given, moments(g), BATCH)))
    whole, without = np.mean(found, axis=0)
    assert whole == pytest.approx(1, abs=0.08)
    assert without > 2


def test_a_table_of_embeddings():
    random, vocabulary = torch.Generator().manual_seed(2), 20
    ids = torch.randint(vocabulary, (SEQUENCES, LENGTH), generator=random)
    g = tokens(random, 0.4)
    table = torch.zeros(vocabulary, WIDTH, dtype=torch.float64).index_add(0, ids.flatten(), g.flatten(0, 1))
    same = (ids[:, :, None] == ids[:, None]).double().mean()
    repetition = float((same * LENGTH - 1) / (LENGTH - 1))
    expected = embedding_gradient(moments(g), repetition, vocabulary, BATCH)
    assert expected == pytest.approx(float(table.square().mean()), rel=0.15)
    assert embedding_gradient(moments(g), 0.0, vocabulary, BATCH) < 0.5 * expected
