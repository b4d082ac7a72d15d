"""Attention with a sink, forwards and back, against attention that is drawn in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.signal.attention_kernel import at_zero_scores, log_totals
from ablate.signal.network_shaping import Mixing
from ablate.signal.propagation import Signal, attending_with_sink

LENGTH, WIDTH, HEAD, DRAWS = 12, 192, 48, 80
DISTANCE = np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)))
KERNEL, GRADIENT = 0.8 * np.exp(-0.15 * DISTANCE) + 0.2, 0.9 * np.eye(LENGTH) + 0.1
BIAS = -0.1 * DISTANCE


def drawn(logit):
    """The kernels behind one head, and of the gradient at its input, by its equations."""
    random, kernels, gradients = np.random.default_rng(0), [], []
    for _ in range(DRAWS):
        x = np.linalg.cholesky(KERNEL) @ random.normal(size=(LENGTH, WIDTH))
        g = np.linalg.cholesky(GRADIENT) @ random.normal(size=(LENGTH, HEAD))
        wq, wk, wv = random.normal(size=(3, WIDTH, HEAD)) / np.sqrt(WIDTH)
        q, k, v = x @ wq, x @ wk, x @ wv
        e = np.where(np.tri(LENGTH) > 0, np.exp(q @ k.T / np.sqrt(HEAD) + BIAS), 0)
        a = e / (e.sum(1, keepdims=True) + np.exp(logit))
        scores = a * (g @ v.T - (a * (g @ v.T)).sum(1, keepdims=True)) / np.sqrt(HEAD)
        back = a.T @ g @ wv.T + scores @ k @ wq.T + scores.T @ q @ wk.T
        kernels.append(a @ v @ (a @ v).T / HEAD)
        gradients.append(back @ back.T / WIDTH)
    return np.mean(kernels, 0), np.mean(gradients, 0)


def forecast(logit, gain=1.0):
    of = {"length": LENGTH, "causal": True}
    uniform, at_zero = at_zero_scores([BIAS[None]], [], **of), log_totals([BIAS[None]], [], **of)

    def attended(x):
        queries, keys, values = (x.through_weights(1.0, HEAD / WIDTH) for _ in range(3))
        return [attending_with_sink(values, queries, keys, uniform, at_zero, 1.0, logit, Mixing(gain=gain))]

    y = Signal.root(KERNEL).forked(attended)
    return y.kernel, y.backward(GRADIENT)


@pytest.mark.parametrize(("logit", "within"), [(-30.0, 0.08), (0.0, 0.08), (1.0, 0.08), (3.0, 0.16)])
def test_kernels_forwards_and_back(logit, within):
    for found, expected in zip(forecast(logit), drawn(logit), strict=True):
        assert np.trace(found) == pytest.approx(np.trace(expected), rel=within)
        assert np.linalg.norm(found - expected) < (within + 0.04) * np.linalg.norm(expected)


def test_a_larger_logit_takes_more():
    """The twin, and a gain: it scales values as it does without a sink."""
    assert np.trace(forecast(3.0)[0]) < 0.4 * np.trace(forecast(0.0)[0])
    assert forecast(0.0, gain=0.5)[0] == pytest.approx(forecast(0.0)[0] / 4)


def test_log_totals_are_those_of_what_is_seen():
    shown = np.tri(LENGTH, dtype=bool) & (DISTANCE < 3)
    found = log_totals([BIAS[None]], [shown], length=LENGTH, causal=True)
    assert found == pytest.approx(np.log((np.exp(BIAS) * shown).sum(1))[None])
