"""Finite width: the variance of a mean square over drawn weights, against many draws of narrow networks."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.components.activations import relu, relu_squared, tanh
from ablate.signal.finite_width import Scatter, added_scatter, participation
from ablate.signal.propagation import Signal, concatenated

TOKENS, WIDTH, DRAWS = 5, 40, 1_000


def tokens(alike, rng):
    """Tokens of mean square 1 whose cosines are exactly `alike`, [T, d]."""
    kernel = (1 - alike) * np.eye(TOKENS) + alike
    basis, _ = np.linalg.qr(rng.normal(size=(WIDTH, TOKENS)))
    return np.sqrt(WIDTH) * np.linalg.cholesky(kernel) @ basis.T


def drawn(network, alike):
    """The mean squares of a network's tokens over draws of its weights, [draws, tokens]."""
    rng = np.random.default_rng(0)
    x = tokens(alike, rng)

    def weights(outputs, inputs=WIDTH):
        return rng.normal(size=(inputs, outputs)) / np.sqrt(inputs)

    return np.array([(network(x, weights) ** 2).mean(1) for _ in range(DRAWS)])


MIXING = np.tril(np.ones((TOKENS, TOKENS))) / np.arange(1, TOKENS + 1)[:, None]

NETWORKS = {
    "a matrix": (lambda x, w: x @ w(WIDTH), lambda s: s.through_weights(1, 1)),
    "a wider one": (lambda x, w: x @ w(3 * WIDTH), lambda s: s.through_weights(1, 3)),
    "two": (lambda x, w: x @ w(WIDTH) @ w(WIDTH), lambda s: s.through_weights(1, 1).through_weights(1, 1)),
    "mixed tokens": (lambda x, w: MIXING @ x @ w(WIDTH), lambda s: s.through_weights(1, 1).mixed(MIXING)),
    "an activation": (
        lambda x, w: np.maximum(x @ w(2 * WIDTH), 0),
        lambda s: s.through_weights(1, 2).activated(relu.Config()),
    ),
    "a square": (
        lambda x, w: np.maximum(x @ w(2 * WIDTH), 0) ** 2,
        lambda s: s.through_weights(1, 2).activated(relu_squared.Config()),
    ),
    "an activation that saturates": (
        lambda x, w: np.tanh(x @ w(2 * WIDTH)),
        lambda s: s.through_weights(1, 2).activated(tanh.Config()),
    ),
    "a gate": (
        lambda x, w: (x @ w(WIDTH)) * (x @ w(WIDTH)),
        lambda s: s.forked(lambda root: [root.through_weights(1, 1).gated(root.through_weights(1, 1))]),
    ),
    "an orthogonal matrix": (
        lambda x, w: x @ np.linalg.qr(w(WIDTH))[0] @ w(WIDTH),
        lambda s: s.through_weights(1, 1, orthogonal=True).through_weights(1, 1),
    ),
    "fewer outputs of an orthogonal one": (
        lambda x, w: x @ np.linalg.qr(w(WIDTH))[0][:, : WIDTH // 4],
        lambda s: s.through_weights(1, 0.25, orthogonal=True),
    ),
    "side by side": (
        lambda x, w: np.concatenate([x @ w(WIDTH), 2 * x @ w(WIDTH)], axis=1),
        lambda s: concatenated([s.through_weights(1, 1), s.through_weights(1, 1).times(2)], [WIDTH, WIDTH]),
    ),
    "a skip": (
        lambda x, w: x + 0.5 * x @ w(WIDTH),
        lambda s: s.forked(lambda root: [root, root.through_weights(1, 1).times(0.5)]),
    ),
}


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.98])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_variance_of_a_mean_square_is_that_of_many_draws(name, alike):
    network, propagated = NETWORKS[name]
    kernel = (1 - alike) * np.eye(TOKENS) + alike
    signal, squares = propagated(Signal.root(kernel, width=WIDTH)), drawn(network, alike)
    assert signal.scatter.total(signal.kernel) == pytest.approx(np.log(squares.mean(1)).var(), rel=0.25)
    assert signal.scatter.of_token == pytest.approx(np.log(squares).var(0).mean(), rel=0.25)


def squares_of(x, w, times):
    for _ in range(times):
        x = np.maximum(x @ w(WIDTH, len(x[0])), 0) ** 2
    return x


BENT = {
    "squares of a norm": lambda x, w: squares_of(x, w, 1),
    "squares of squares": lambda x, w: squares_of(x, w, 2),
    "beside a skip": lambda x, w: (y := squares_of(x, w, 1)) + 0.5 * squares_of(y, w, 1) @ w(WIDTH),
    "gates of squares": lambda x, w: (y := squares_of(x, w, 1)) @ w(WIDTH) * (y @ w(WIDTH)),
    "sums of squares": lambda x, w: squares_of(x, w, 1) @ w(WIDTH),
}


def squared(x, times):
    for _ in range(times):
        x = x.through_weights(1, 1).activated(relu_squared.Config())
    return x


def bent(name, x):
    if name == "beside a skip":
        return squared(x, 1).forked(lambda root: [root, squared(root, 1).through_weights(1, 1).times(0.5)])
    if name == "gates of squares":
        return squared(x, 1).forked(lambda root: [root.through_weights(1, 1).gated(root.through_weights(1, 1))])
    return squared(x, 2 if name == "squares of squares" else 1)


@pytest.mark.parametrize("name", BENT)
def test_what_grows_faster_than_its_root_is_larger_on_average_than_at_the_mean_of_that(name):
    signal, squares = bent(name, Signal.root(np.eye(TOKENS), width=WIDTH)), drawn(BENT[name], 0.0)
    found = float(np.log(squares.mean() / signal.mean_square))
    assert signal.scatter.raised == pytest.approx(found, rel=0.3, abs=0.05)  # to first order
    assert (signal.scatter.raised > 0.1) == (name in ("squares of squares", "beside a skip", "gates of squares"))


def test_noise_is_what_all_weights_have_added_and_stays_where_a_norm_forgets_it():
    root = Signal.root(np.eye(TOKENS), width=WIDTH)
    once = root.through_weights(1, 1).normalised(0.0, centred=False)
    twice = once.through_weights(1, 1).through_weights(1, 1)
    assert twice.scatter.of_token == pytest.approx(4 / WIDTH)
    assert twice.scatter.all_noise == pytest.approx(6 / WIDTH)
    chained = once.forked(lambda start: [start.through_weights(1, 1)]).scatter
    assert chained.all_noise == pytest.approx(4 / WIDTH)
    half = root.forked(lambda start: [start.times(0.5**0.5), once.through_weights(1, 1).times(0.5**0.5)]).scatter
    assert half.of_token == pytest.approx(0.5**2 * 2 / WIDTH + 4 * 0.5 * 0.5 / WIDTH)
    assert half.all_noise == pytest.approx(half.of_token + 0.5 * 2 / WIDTH)


def test_what_is_a_tokens_own_is_mixed_by_attention_and_not_by_what_stands_beside_it():
    kernel = np.eye(TOKENS)
    mixed = Scatter().mixed(kernel, MIXING, MIXING @ kernel @ MIXING.T)
    assert mixed.alone == pytest.approx(np.mean(1 / np.arange(1, TOKENS + 1)))
    assert Scatter().mixed(kernel, np.eye(TOKENS), kernel).alone == 1
    assert Scatter().mixed(kernel, np.zeros_like(kernel), np.zeros_like(kernel)).alone == 0
    summed = added_scatter([(Scatter(), kernel), (mixed, kernel)], [0.0, 0.0], 2 * kernel, WIDTH)
    assert summed.alone == pytest.approx((1 + mixed.alone) / 2)
    assert (
        added_scatter([(Scatter(), kernel), (Scatter().forgotten(), kernel)], [0.0, 0.0], 2 * kernel, WIDTH).alone == 1
    )


def test_a_wide_network_has_none_and_a_norm_forgets():
    root = Signal.root(np.eye(TOKENS))
    assert root.through_weights(1, 1).scatter.total(np.eye(TOKENS)) == 0
    narrow = Signal.root(np.eye(TOKENS), width=WIDTH).through_weights(1, 1).normalised(1e-5, centred=True)
    assert narrow.scatter.total(narrow.kernel) == 0
    assert narrow.scatter.follows == 0


@pytest.mark.parametrize("size", [1e-250, 1e250])
def test_kernels_near_the_ends_of_what_numbers_there_are_scatter_as_others_do(size):
    def scattered(size):
        chain = Signal.root(size * np.eye(TOKENS), width=WIDTH).through_weights(1, 1).activated(relu.Config())
        summed = chain.forked(lambda root: [root, root.through_weights(1, 1)])
        return summed.scatter.total(summed.kernel)

    assert scattered(size) == pytest.approx(scattered(1.0))
    sampled = Scatter().attending_sampled(size * np.eye(TOKENS), 0.25 * size * TOKENS**2 * size, 4, 8)
    assert sampled.variance in (0, np.inf) or sampled.variance == pytest.approx(0.25 * (1 / 4 + 1 / 8))
    assert Signal.root(np.full((2, 2), np.inf), width=WIDTH).through_weights(1, 1).scatter.total(np.eye(2)) > 0


def test_a_sum_follows_its_root_by_its_shares():
    def paths(root):
        return [root, root.normalised(0.0, centred=False).through_weights(1, 1).times(2.0)]

    kernel = 4 * np.eye(TOKENS)
    summed = Signal.root(kernel, width=WIDTH).forked(paths)
    assert summed.scatter.follows == pytest.approx(0.5)


def test_participation_is_between_one_over_tokens_and_one():
    assert participation(np.eye(TOKENS)) == pytest.approx(1 / TOKENS)
    assert participation(np.ones((TOKENS, TOKENS))) == pytest.approx(1)
    assert participation(np.zeros((2, 2))) == 0
