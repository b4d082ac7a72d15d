"""Sampled attention, forwards and back, against attention whose queries, keys, u, v and r are drawn in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import entr

from ablate.signal.attention_kernel import CLOSED, RandomAttention
from ablate.signal.finite_width import Scatter
from ablate.signal.network_shaping import Mixing
from ablate.signal.propagation import Signal
from ablate.signal.sampled_attention import RelativePositions, SampledAttention, random_attention

LENGTH, WIDTH, DRAWS = 8, 128, 600
APART = np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))
SIZES = np.linspace(0.8, 1.2, LENGTH)
QUERIES = np.outer(SIZES, SIZES) * (0.8 * np.eye(LENGTH) + 0.2)
KEYS = 0.9 * np.exp(-0.3 * np.abs(APART)) + 0.1
VALUES = KEYS * np.outer(SIZES, SIZES)[::-1, ::-1]
GRADIENT = 0.7 * np.eye(LENGTH) + 0.3


def shown(causal):
    mask = np.tri(LENGTH) if causal else np.ones((LENGTH, LENGTH))
    return mask / mask.sum(1, keepdims=True)


def positions(*, causal, content=0.5, place=0.8, scale=1.0):
    distances = np.arange(0 if causal else 1 - LENGTH, LENGTH)
    waves = np.cos(np.subtract.outer(distances, distances)[..., None] * 10.0 ** -np.arange(3)).mean(-1)
    return RelativePositions(content, place, waves, scale)


CASES = {
    # how large queries are, whether attention is causal, relative positions, the centre, the share dropped
    "nearly one-hot": (6.0, True, None, 0.0, 0.0),
    "nearly one-hot, with dropout": (6.0, True, None, 0.0, 0.3),
    "relative positions": (1.5, True, positions(causal=True), 0.0, 0.0),
    "relative positions of both sides, with dropout": (1.5, False, positions(causal=False), 0.0, 0.3),
    "relative positions whose queries start at 0": (0.0, True, positions(causal=True), 0.0, 0.0),
    "less a centre": (1.5, True, positions(causal=True, scale=1.5), 0.8, 0.0),
    "capped scores beside positions that are not": (0.7, True, positions(causal=True, scale=1.5), 0.0, 0.0),
}


def softmax(scores, weights):
    e = np.where(weights > 0, np.exp(scores - scores.max(1, keepdims=True)), 0)
    return e / e.sum(1, keepdims=True)


def drawn(size, causal, places, centre, p):
    """The kernels of the outputs, and of the gradients of values, queries and keys."""
    rng, sums, weights = np.random.default_rng(1), np.zeros((4, LENGTH, LENGTH)), shown(causal)
    roots = [np.linalg.cholesky(each) for each in (QUERIES, KEYS, VALUES, GRADIENT)]
    places = places or RelativePositions(0.0, 0.0, np.zeros((LENGTH, LENGTH)), 0.0)
    values, vectors = np.linalg.eigh(places.keys)
    column = APART + (0 if causal else LENGTH - 1)
    for _ in range(DRAWS):
        q, k, v, g = (root @ rng.normal(size=(LENGTH, WIDTH)) for root in roots)
        q = size * q
        r = vectors * np.sqrt(np.clip(values, 0, None)) @ rng.normal(size=(len(values), WIDTH))
        at = r[np.maximum(column, 0)] if causal else r[column]  # [T, T, width]
        u, w = (np.sqrt(variance) * rng.normal(size=WIDTH) for variance in (places.content, places.place))
        own, other = 1 / np.sqrt(WIDTH), places.scale / np.sqrt(WIDTH)
        at_zero = other * (k @ u + at @ w)
        a = softmax(own * q @ k.T + other * np.einsum("ik,ijk->ij", q, at) + at_zero, weights)
        c = softmax(at_zero, weights)
        kept = (rng.random((LENGTH, LENGTH)) >= p) / (1 - p)
        mixing = kept * a - centre * c
        wanted = g @ v.T
        of_a = a * (kept * wanted - (a * kept * wanted).sum(1, keepdims=True))
        of_c = -centre * c * (wanted - (c * wanted).sum(1, keepdims=True))
        into_q = own * of_a @ k + other * np.einsum("ij,ijk->ik", of_a, at)
        into_k = own * of_a.T @ q + other * (of_a + of_c).sum(0)[:, None] * u
        for total, each in zip(sums, (mixing @ v, mixing.T @ g, into_q, into_k), strict=True):
            total += each @ each.T / WIDTH
    return sums / DRAWS


def forecast(size, causal, places, centre, p):
    """The same four, of a forecast."""

    def read(kernel, counts):
        return Signal(kernel, np.zeros(LENGTH), None, lambda gradient: counts * gradient, width=WIDTH)

    def attended(*counts):
        values, queries, keys = map(read, (VALUES, size**2 * QUERIES, KEYS), counts)
        mixing = Mixing(centre=centre)
        return values.attending(queries, keys, shown(causal)[None], 1.0, mixing, p, positions=places)

    each = [attended(*counts) for counts in np.eye(3)]
    return [each[0].kernel, *(y.backward(GRADIENT) for y in each)]


@pytest.mark.parametrize("case", CASES)
def test_kernels_forwards_and_back(case):
    within = (0.06, 0.08, 0.1, 0.1)  # few scores are near enough to each other to count on the way back
    for found, expected, near in zip(forecast(*CASES[case]), drawn(*CASES[case]), within, strict=True):
        assert np.trace(found) == pytest.approx(np.trace(expected), rel=near)
        assert np.linalg.norm(found - expected) < 1.6 * near * np.linalg.norm(expected)


def test_what_is_left_out_is_found_out():
    """The twin: without the scores of positions, and in closed form where a softmax is nearly one-hot."""
    case = CASES["relative positions"]
    without, expected = forecast(*case[:2], None, *case[3:]), drawn(*case)
    assert [np.trace(a) / np.trace(b) for a, b in zip(without[2:], expected[2:], strict=True)] == [
        pytest.approx(0.83, abs=0.06),
        pytest.approx(1.25, abs=0.09),
    ]
    size, causal = CASES["nearly one-hot"][:2]
    closed = RandomAttention(shown(causal), size**2 * QUERIES, KEYS, VALUES)
    into_queries = np.trace(closed.queries_backward(GRADIENT))
    assert into_queries < 0.01 * np.trace(drawn(*CASES["nearly one-hot"])[2])


def test_small_scores_are_those_in_closed_form():
    scale, weights = 0.4, shown(True)
    sampled = SampledAttention(weights, QUERIES, KEYS, VALUES, scale)
    closed = RandomAttention(weights, scale**2 * QUERIES, KEYS, VALUES)
    assert sampled.forward == pytest.approx(closed.forward, rel=0.02, abs=0.01)
    assert np.trace(sampled.keys_backward(GRADIENT)) == pytest.approx(
        np.trace(closed.keys_backward(GRADIENT)), rel=0.05
    )


def test_only_what_has_no_closed_form_is_sampled():
    def of(variance, places=None):
        kernels = (variance * np.eye(LENGTH), np.eye(LENGTH), VALUES)
        return type(random_attention(shown(True), *kernels, 1.0, places))

    still = RelativePositions(0.0, 0.0, np.eye(LENGTH), 1.0)
    assert of(CLOSED) is of(0.0, still) is RandomAttention
    assert of(1.01 * CLOSED) is of(0.1, still) is SampledAttention


def test_the_variance_of_scores_counts_positions():
    sampled = SampledAttention(shown(True), QUERIES, KEYS, VALUES, 2.0, positions(causal=True, scale=1.5))
    expected = [[(4 * q + 1.5**2 * 0.5) * k + 1.5**2 * (q + 0.8) for k in np.diag(KEYS)] for q in np.diag(QUERIES)]
    assert sampled.score_variances == pytest.approx(np.array(expected))


@pytest.mark.parametrize("size", [1.0, 6.0])
def test_the_gradient_of_layer_upon_layer_stays_a_kernel(size):
    """Rounding makes gradients asymmetric; were that not taken off, large scores would multiply it layer by layer."""
    x = Signal.root(VALUES, width=WIDTH)
    y = x.attending(x.through_weights(1, 1), x.through_weights(1, 1), shown(True)[None], size, Mixing())
    tilt = np.triu(np.ones((LENGTH, LENGTH)), 1)
    gradient = y.backward(GRADIENT + 1e-3 * (tilt - tilt.T))
    assert gradient == pytest.approx(y.backward(GRADIENT), rel=1e-9)
    assert np.linalg.eigvalsh(gradient).min() > 0


def test_entropies_are_those_of_a_softmax_that_is_drawn():
    rng, scale = np.random.default_rng(2), 6.0
    roots = [np.linalg.cholesky(each) for each in (QUERIES, KEYS)]
    found = []
    for _ in range(DRAWS):
        q, k = (root @ rng.normal(size=(LENGTH, WIDTH)) for root in roots)
        found.append(entr(softmax(scale * q @ k.T / np.sqrt(WIDTH), shown(False))).sum(1))
    sampled = SampledAttention(shown(False), QUERIES, KEYS, VALUES, scale)
    assert sampled.entropies.mean() == pytest.approx(np.mean(found), abs=0.02)
    assert sampled.entropies == pytest.approx(np.mean(found, 0), abs=0.06)


def test_heads_share_the_draws_and_each_has_its_own():
    alone, first, second = (
        SampledAttention(shown(True), QUERIES, KEYS, VALUES, 6.0, head=head, of=of)
        for head, of in ((0, 1), (0, 4), (1, 4))
    )
    assert alone.draws == 4 * first.draws
    assert not np.array_equal(first.forward, second.forward)
    assert first.forward == pytest.approx(alone.forward, rel=0.3, abs=0.1)


def test_what_varies_from_head_to_head_and_from_draw_to_draw_is_in_the_interval():
    """The variance of the mean square of 8 heads, against as many that are drawn, and that of the draws beside it."""
    x = Signal.root(VALUES, width=WIDTH)
    given = (Signal.root(QUERIES), Signal.root(KEYS), shown(True)[None], 6.0, Mixing())
    of = {heads: x.attending(*given, heads=heads).scatter.variance for heads in (1, 8, 10**9)}
    assert of[8] - of[10**9] == pytest.approx((of[1] - of[10**9]) / 8)
    assert 0 < of[10**9] < 0.02**2
    sampled = SampledAttention(shown(True), QUERIES, KEYS, VALUES, 6.0)
    again = [np.trace(SampledAttention(shown(True), QUERIES, KEYS, VALUES, 6.0, head=n).forward) for n in range(1, 20)]
    assert np.std(again) == pytest.approx(np.sqrt(sampled.size_variance / sampled.draws), rel=0.5)
    assert Scatter().attending_sampled(np.zeros((2, 2)), 1.0, 1, 1).variance == 0


def test_draws_that_are_remembered_are_those_that_would_be_drawn_again(monkeypatch):
    def gradients():
        sampled = SampledAttention(shown(True), 9 * QUERIES, KEYS, VALUES, 1.0)
        return sampled.forward, sampled.backward(GRADIENT), sampled.queries_backward(GRADIENT)

    remembered = gradients()
    monkeypatch.setattr("ablate.signal.sampled_attention.REMEMBERED", 0)
    for first, again in zip(remembered, gradients(), strict=True):
        assert (first == again).all()
