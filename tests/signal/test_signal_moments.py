"""Each closed form against quadrature over two normal numbers, or against a matrix that is drawn."""

import math

import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import norm

from ablate.signal.moments import (
    Moments,
    add_skip,
    dropout,
    dropout_backward,
    embeddings,
    gelu,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    relu,
    relu_backward,
    repetition,
    softmax,
    softmax_backward,
    zipf_correlation,
)

pytestmark = pytest.mark.fast

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(150)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
SIGNALS = [(1.0, 0.3), (0.25, 0.9), (4.0, 0.0), (2.0, -0.4)]


def pair(variance, r):
    """Two normal numbers of one variance, correlated by r, at the points of a product rule."""
    u, v = NODES[:, None], NODES[None, :]
    return math.sqrt(variance) * u, math.sqrt(variance) * (r * u + math.sqrt(1 - r * r) * v)


def mean(values):
    return float(WEIGHTS @ np.broadcast_to(values, (150, 150)) @ WEIGHTS)


def relu_pair(variance, r):
    """E[y y'] and E[φ'(x) φ'(x')] of ReLU, whose kink no product rule takes: by arcs of the circle."""
    angles = np.linspace(0, 2 * np.pi, 400_001)[:-1]
    x, other = np.cos(angles), np.cos(angles - math.acos(r))
    both = (x > 0) & (other > 0)
    return 2 * variance * np.mean(x * other * both), np.mean(both)  # E[radius²] = 2


def close(actual, expected, tolerance=1e-9):
    assert actual == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(("variance", "r"), SIGNALS)
def test_gelu(variance, r):
    x, other = pair(variance, r)
    y, z = (t / 2 * (1 + erf(t / math.sqrt(2))) for t in (x, other))
    slope, slope_other = (norm.cdf(t) + t * norm.pdf(t) for t in (x, other))
    found = gelu(Moments(variance, r))
    close(found.mean, mean(y))
    close(found.variance, mean(y * y) - mean(y) ** 2)
    close(found.covariance, mean(y * z) - mean(y) ** 2)
    back = gelu_backward(Moments(3.0, 0.2), Moments(variance, r))
    close(back.variance, 3 * mean(slope**2))
    close(back.covariance, 3 * 0.2 * mean(slope * slope_other))
    tanh = variance * mean(np.tanh(x) ** 2)  # the twin: another activation is not met
    assert abs(found.variance - tanh) > 1e-3


@pytest.mark.parametrize(("variance", "r"), SIGNALS)
def test_relu(variance, r):
    found = relu(Moments(variance, r))
    close(found.mean, math.sqrt(variance) * norm.pdf(0))
    close(found.variance, variance / 2 - variance * norm.pdf(0) ** 2)
    product, both = relu_pair(variance, r)
    close(found.covariance, product - found.mean**2, 1e-4)
    back = relu_backward(Moments(3.0, 0.2), Moments(variance, r))
    close(back.variance, 1.5)
    close(back.covariance, 3 * 0.2 * both, 1e-4)


def test_relu_takes_correlation_away_as_its_series_says():
    for r in (0.1, 0.5, 0.9):
        assert relu(Moments(1, r)).correlation == pytest.approx(0.7 * r + 0.3 * r * r, abs=0.015)
        assert relu(Moments(1, r)).correlation < r


def normal(random, shape, x):
    """[batch, tokens, channels] with the moments x."""
    batch, tokens, channels = shape
    r = x.correlation
    common, own = random.normal(size=(batch, 1, channels)), random.normal(size=(batch, tokens, channels))
    return x.mean + math.sqrt(x.variance) * (math.sqrt(r) * common + math.sqrt(1 - r) * own)


def seen(y):
    """Mean, variance, covariance between tokens of what was drawn."""
    middle = y.mean()
    y, tokens = y - middle, y.shape[1]
    square = (y**2).sum()
    return middle, (y**2).mean(), ((y.sum(1) ** 2).sum() - square) / (y.size * (tokens - 1))


def test_linear_maps_sum_squares_mean_included():
    random = np.random.default_rng(0)
    x = Moments(0.8, 0.3, mean=0.7)
    y = normal(random, (400, 4, 64), x) @ random.normal(scale=0.2, size=(64, 400))
    found = linear(x, 64, 0.04)
    _, variance, covariance = seen(y)
    assert (found.variance, found.covariance) == pytest.approx((variance, covariance), rel=0.05)
    assert linear(Moments(0.8, 0.3), 64, 0.04).variance < 0.7 * variance  # without the mean it would be far off
    g = Moments(2.0, 0.4)
    assert linear_backward(g, 400, 0.04) == Moments(400 * 0.04 * 2.0, 0.4)


def test_dropout():
    random = np.random.default_rng(1)
    x, p = Moments(1.3, 0.5, mean=0.9), 0.3
    y = normal(random, (2000, 4, 100), x)
    found = dropout(x, p)
    middle, variance, covariance = seen(y * (random.random(y.shape) > p) / (1 - p))
    assert (found.mean, found.variance, found.covariance) == pytest.approx((middle, variance, covariance), rel=0.02)
    assert dropout(Moments(1.0, 0.5), p).correlation == pytest.approx(0.5 * (1 - p))
    assert dropout_backward(Moments(2.0, 0.5), p) == dropout(Moments(2.0, 0.5), p)


@pytest.mark.parametrize("r", [0.0, 0.4, 0.9])
def test_layer_norm(r):
    """At a width of 24, where one part in it shows: what the paper leaves out, and what its 1 - 1/d has too much."""
    random = np.random.default_rng(2)
    x, g, width = Moments(5.0, r), Moments(3.0, 0.8), 24
    shape = (40_000, 2, width)
    drawn, back = normal(random, shape, x), normal(random, shape, g)
    size = drawn.std(-1, keepdims=True)
    y = (drawn - drawn.mean(-1, keepdims=True)) / size
    back = (back - back.mean(-1, keepdims=True) - y * (back * y).mean(-1, keepdims=True)) / size
    found = layer_norm(x, width)
    _, variance, covariance = seen(y)
    assert found.variance == pytest.approx(variance)
    assert found.covariance == pytest.approx(covariance, abs=0.004)
    assert np.mean(y[..., :1] * y[..., 1:]) == pytest.approx(-1 / (width - 1), abs=1e-3)
    found = layer_norm_backward(g, x, width)
    _, variance, covariance = seen(back)
    assert (found.variance, found.covariance) == pytest.approx((variance, covariance), rel=0.012)
    assert variance > 1.03 * g.variance / x.variance  # the twin: without the part in d it is out of reach


def test_softmax_over_many_scores():
    random = np.random.default_rng(3)
    x, length = Moments(0.8, 0.25), 500
    scores = normal(random, (4000, length, 1), x)[..., 0]
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    found = softmax(x, length)
    assert found.mean == 1 / length
    assert found.variance == pytest.approx(weights.var(), rel=0.05)
    g = random.normal(size=weights.shape)
    back = weights * (g - (weights * g).sum(-1, keepdims=True))
    assert softmax_backward(Moments(1.0, 0.0), x, length) == pytest.approx(back.var(), rel=0.05)
    assert softmax(Moments(0.8, 0.9), length).variance < 0.2 * weights.var()  # equal scores weigh equally


def test_embeddings_of_tokens_and_positions():
    random = np.random.default_rng(4)
    tokens = random.choice(50, p=np.r_[0.5, np.full(49, 0.5 / 49)], size=(300, 40))
    table, places = random.normal(size=(50, 64)), random.normal(size=(40, 64))
    same = np.mean([repetition(tuple(np.bincount(row))) for row in tokens])
    assert same == pytest.approx(0.25 + 49 * (0.5 / 49) ** 2, rel=0.1)
    found = embeddings(0.7, (same, 0.0))
    channels = math.sqrt(0.7) * (table[tokens] + places)
    assert found.variance == pytest.approx(1.4)
    second = np.mean([(y.sum(0) ** 2 - (y**2).sum(0)).mean() / (40 * 39) for y in channels])
    assert second / 1.4 == pytest.approx(found.correlation, abs=0.05)


def test_zipf():
    """At V = 32,000 the exact sum of squares, Euler's constant and all, is 0.0138; with a third and 2/9: .227."""
    ranks = np.arange(1, 32_001)
    p = (1 / ranks) / (1 / ranks).sum()
    assert zipf_correlation(32_000) == pytest.approx((p**2).sum(), rel=0.15)
    assert zipf_correlation(32_000) / 3 + 2 / 9 == pytest.approx(0.2273, abs=1e-4)
    assert (p.sum(), zipf_correlation(50)) == pytest.approx((1.0, math.pi**2 / 6 / math.log(50) ** 2))


def test_skips_add_variances_and_covariances():
    found = add_skip(Moments(2.0, 0.5), Moments(3.0, 0.1), 0.8, 0.6)
    assert found.variance == pytest.approx(0.64 * 2 + 0.36 * 3)
    assert found.covariance == pytest.approx(0.64 * 1 + 0.36 * 0.3)
    assert Moments.of(0.0, 0.0).correlation == 0.0


def channel_pairs(random, r, size=1_000_000):
    """Two channels of one token, correlated by r, [points, 2, 1]."""
    u, v = random.normal(size=(2, size))
    return np.stack([u, r * u + math.sqrt(1 - r * r) * v], axis=1)[:, :, None]


@pytest.mark.parametrize("r", [-0.6, 0.0, 0.5])
def test_activations_and_dropout_treat_two_channels_as_two_tokens(r):
    """Table 19."""
    random = np.random.default_rng(5)
    u = channel_pairs(random, r)
    x = Moments(1.0, r)
    drop = random.random(u.shape) > 0.3
    for y, found in (
        (np.maximum(u, 0), relu(x)),
        (u * norm.cdf(u), gelu(x)),
        (u * drop / 0.7, dropout(x, 0.3)),
    ):
        assert seen(y)[2] == pytest.approx(found.covariance, abs=0.004)


def test_channels_are_independent_behind_fresh_weights_whatever_they_were_before():
    """Table 19: 0 behind a linear map, here of inputs whose channels are correlated by 0.8, which is the twin."""
    random = np.random.default_rng(6)
    x = math.sqrt(0.8) * random.normal(size=(200, 1)) + math.sqrt(0.2) * random.normal(size=(200, 32))
    products = [np.mean(y[:, ::2] * y[:, 1::2]) for y in (x @ random.normal(size=(32, 32)) / 6 for _ in range(400))]
    assert np.mean(products) == pytest.approx(0, abs=0.03)
    assert np.mean(x[:, ::2] * x[:, 1::2]) > 0.6
