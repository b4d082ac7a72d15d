"""Token kernels through random networks, forwards and backwards, against networks that are drawn in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.components.activations.gelu import Config as GELU
from ablate.components.activations.relu import Config as ReLU
from ablate.components.activations.tanh import Config as Tanh
from ablate.errors import InputError
from ablate.signal.attention_kernel import RandomAttention
from ablate.signal.network_shaping import Mixing
from ablate.signal.propagation import Signal

LENGTH, WIDTH, DRAWS = 8, 128, 80
DISTANCE = np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)))
SCALES = np.linspace(0.6, 1.7, LENGTH)
ALIKE = np.exp(-0.15 * DISTANCE)
UNEQUAL = ALIKE * np.outer(SCALES, SCALES)
"""The kernel of tokens whose sizes differ."""
GRADIENT = 0.7 * np.eye(LENGTH) + 0.3
CAUSAL = np.tri(LENGTH) / np.arange(1, LENGTH + 1)[:, None]


class Drawn:
    """A signal that is drawn, with the function that takes the gradient of it back to its root."""

    def __init__(self, x, back=lambda gradient: gradient):
        self.x, self.back = x, back

    def times(self, gain):
        return Drawn(gain * self.x, lambda g: self.back(gain * g))

    def through_weights(self, random, forward, backward):
        width, d_out = self.x.shape[1], round(self.x.shape[1] * backward / forward)
        w = random.normal(size=(width, d_out)) * math.sqrt(forward / width)
        return Drawn(self.x @ w, lambda g: self.back(g @ w.T))

    def normalised(self):
        x = self.x
        size = np.sqrt((x**2).mean(1, keepdims=True))
        y = x / size
        return Drawn(y, lambda g: self.back((g - y * (g * y).mean(1, keepdims=True)) / size))

    def activated(self, activation):
        f, df, _ = activation.curve(self.x)
        return Drawn(f, lambda g: self.back(g * df))

    def mixed(self, matrix):
        return Drawn(matrix @ self.x, lambda g: self.back(matrix.T @ g))

    def gated(self, gate):
        return Drawn(self.x * gate.x, lambda g: self.back(g * gate.x) + gate.back(g * self.x))

    def forked(self, paths):
        terms = list(paths(Drawn(self.x)))
        return Drawn(sum(term.x for term in terms), lambda g: self.back(sum(term.back(g) for term in terms)))


def attended(random, v, q, k, uniform, scale, matrix):
    """Heads of WIDTH / 4, each with a softmax of its own."""
    heads, width = 4, v.x.shape[1] // 4
    outputs, kept = [], []
    for h in range(heads):
        s = slice(h * width, (h + 1) * width)
        raw = uniform * np.exp(scale * q.x[:, s] @ k.x[:, s].T / math.sqrt(width))
        a = raw / raw.sum(1, keepdims=True)
        whole = matrix.skip * np.eye(LENGTH) + matrix.gain * a - matrix.centre * uniform
        outputs.append(whole @ v.x[:, s])
        kept.append((s, a, whole))

    def back(g):
        gv, gq, gk = np.zeros_like(v.x), np.zeros_like(q.x), np.zeros_like(k.x)
        for s, a, whole in kept:
            gv[:, s] = whole.T @ g[:, s]
            da = matrix.gain * g[:, s] @ v.x[:, s].T
            ds = a * (da - (a * da).sum(1, keepdims=True)) * scale / math.sqrt(width)
            gq[:, s], gk[:, s] = ds @ k.x[:, s], ds.T @ q.x[:, s]
        return v.back(gv) + q.back(gq) + k.back(gk)

    return Drawn(np.concatenate(outputs, 1), back)


def drawn(kernel, network):
    """The mean kernels over draws: of the output, and of the gradient at the root."""
    random = np.random.default_rng(3)
    root, outer = np.linalg.cholesky(kernel), np.linalg.cholesky(GRADIENT)
    outputs, gradients = [], []
    for _ in range(DRAWS):
        y = network(Drawn(root @ random.normal(size=(LENGTH, WIDTH))), random)
        g = y.back(outer @ random.normal(size=y.x.shape))
        outputs.append(y.x @ y.x.T / y.x.shape[1])
        gradients.append(g @ g.T / WIDTH)
    return np.mean(outputs, 0), np.mean(gradients, 0)


def agree(forecast, found, within):
    """The largest distance between two kernels, relative to the largest entry, is below a bound."""
    return np.abs(forecast - found).max() < within * np.abs(found).max()


@pytest.mark.parametrize("activation", [ReLU(), GELU(), Tanh()], ids=["relu", "gelu", "tanh"])
@pytest.mark.parametrize("kernel", [ALIKE, UNEQUAL], ids=["of one size", "of several sizes"])
def test_an_mlp_that_widens(kernel, activation):
    x = Signal.root(kernel).through_weights(2.0, 8.0).activated(activation).through_weights(1.5, 1.5 / 4)
    y, g = drawn(
        kernel,
        lambda x, r: x.through_weights(r, 2.0, 8.0).activated(activation).through_weights(r, 1.5, 1.5 / 4),
    )
    assert agree(x.kernel, y, 0.05)
    assert agree(x.backward(GRADIENT), g, 0.05)


def test_a_norm_gives_every_token_one_size_and_its_gradient_the_inverse():
    x = Signal.root(UNEQUAL).normalised(0.0, centred=False)
    y, g = drawn(UNEQUAL, lambda x, _: x.normalised())
    assert agree(x.kernel, y, 0.05)
    assert agree(x.backward(GRADIENT), g, 0.05)
    assert np.allclose(np.diag(x.kernel), 1)


def test_a_centred_norm_takes_off_the_mean_of_the_channels():
    x = Signal.root(ALIKE).activated(ReLU()).normalised(0.0, centred=True)
    assert np.allclose(np.diag(x.kernel), 1)
    r = ALIKE[0, 3]  # of max(0, u): covariance over variance (Kedia et al., Table 17)
    expected = (math.pi * r / 2 + r * math.asin(r) + math.sqrt(1 - r * r) - 1) / (math.pi - 1)
    assert x.kernel[0, 3] == pytest.approx(expected, abs=1e-12)


def test_a_gated_mlp():
    def network(x, *random):
        return x.forked(
            lambda x: [
                x.through_weights(*random, 2.0, 8.0)
                .activated(GELU())
                .gated(x.through_weights(*random, 1.0, 4.0))
                .through_weights(*random, 1.0, 0.25)
            ]
        )

    x = network(Signal.root(UNEQUAL))
    y, g = drawn(UNEQUAL, network)
    assert agree(x.kernel, y, 0.08)
    assert agree(x.backward(GRADIENT), g, 0.08)


@pytest.mark.parametrize("matrix", [Mixing(), Mixing(skip=0.8, gain=0.5), Mixing(1.0, 1.0, 1.0)], ids=str)
@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_attention(matrix, scale):
    def network(x, *random):
        return x.forked(
            lambda x: [
                attended(random[0], *(x.through_weights(*random, 1.2, 1.2) for _ in "vqk"), CAUSAL, scale, matrix)
                if random
                else x.through_weights(1.2, 1.2).attending(
                    x.through_weights(1.2, 1.2), x.through_weights(1.2, 1.2), CAUSAL[None], scale, matrix
                )
            ]
        )

    x = network(Signal.root(ALIKE))
    y, g = drawn(ALIKE, network)
    assert agree(x.kernel, y, 0.06)
    assert agree(x.backward(GRADIENT), g, 0.1)


def test_the_gradient_through_scores_alone_is_there():
    """Values that no gradient returns through leave that of queries and keys."""
    held = Signal.root(ALIKE)
    values = Signal(held.kernel, held.mean, held.transfer, lambda gradient: np.zeros_like(gradient))
    x = values.attending(held.through_weights(1, 1), held.through_weights(1, 1), CAUSAL[None], 0.5, Mixing())
    _, g = drawn(
        ALIKE,
        lambda x, r: attended(
            r, Drawn(x.x, np.zeros_like), x.through_weights(r, 1, 1), x.through_weights(r, 1, 1), CAUSAL, 0.5, Mixing()
        ),
    )
    assert np.trace(x.backward(GRADIENT)) == pytest.approx(np.trace(g), rel=0.15)


@pytest.mark.parametrize("identity", [True, False], ids=["values that are the input", "fresh values"])
def test_a_skip_past_attention(identity):
    """Where values and projection are the identity, skip and branch are correlated; fresh weights make them not so."""

    def network(x, *random):
        def branch(x):
            if identity:
                return x.normalised(0.0, centred=False).mixed(CAUSAL) if not random else x.normalised().mixed(CAUSAL)
            through = x.through_weights(*random, 1.0, 1.0)
            return through.mixed(CAUSAL)

        return x.forked(lambda x: [x.times(0.9), branch(x).times(0.7)])

    x = network(network(Signal.root(UNEQUAL)))
    y, g = drawn(UNEQUAL, lambda x, random: network(network(x, random), random))
    assert agree(x.kernel, y, 0.06)
    assert agree(x.backward(GRADIENT), g, 0.06)
    if identity:  # without the terms between the two, neither would agree
        apart = 0.9**2 * UNEQUAL + 0.7**2 * (CAUSAL @ ALIKE @ CAUSAL.T)
        assert not agree(apart, network(Signal.root(UNEQUAL)).kernel, 0.12)


def test_dropout_lowers_correlations():
    x = Signal.root(ALIKE).dropped(0.2)
    assert x.kernel[0, 0] == pytest.approx(1.25)
    assert x.kernel[0, 1] == ALIKE[0, 1]
    assert x.backward(GRADIENT)[0, 0] == pytest.approx(1.25)


def test_dropped_weights_of_attention_add_their_variance_to_each_token():
    """At scores of 0, E[M V Mᵀ] over 40,000 masks of M = C ⊙ mask / (1 - p); on the way back likewise."""
    p, random = 0.3, np.random.default_rng(0)
    masks = (random.random((40_000, LENGTH, LENGTH)) >= p) / (1 - p)
    x = Signal.root(UNEQUAL)
    y = x.attending(x.through_weights(1, 1), x.through_weights(1, 1), CAUSAL[None], 0.0, Mixing(), p)
    m = CAUSAL * masks
    assert y.kernel == pytest.approx(np.mean(m @ UNEQUAL @ m.transpose(0, 2, 1), axis=0), rel=0.02)
    back = np.mean(m.transpose(0, 2, 1) @ GRADIENT @ m, axis=0)
    assert y.backward(GRADIENT) == pytest.approx(back, rel=0.02)
    assert y.kernel[0, 0] == pytest.approx(UNEQUAL[0, 0] / (1 - p))


@pytest.mark.parametrize("scale", [0.3, 1.0, 1.8])
def test_exponentials_are_interpolated_as_finely_as_they_need(scale):
    """E[A V Aᵀ] and E[Aᵀ Γ A] as sums over all pairs of keys or queries, without interpolation."""
    queries, keys, values = scale * UNEQUAL, ALIKE**2 * np.outer(SCALES, SCALES)[::-1, ::-1], UNEQUAL
    weights = CAUSAL * np.exp(np.diag(queries).mean() * np.diag(keys) / 2)
    weights = weights / weights.sum(1, keepdims=True)
    pairs = np.einsum("ij,kl,ikjl->ikjl", weights, weights, np.exp(queries[:, :, None, None] * keys))
    pairs = pairs / pairs.sum((2, 3), keepdims=True)
    attention = RandomAttention(CAUSAL, queries, keys, values)
    assert attention.forward == pytest.approx(np.einsum("ikjl,jl->ik", pairs, values), rel=2e-3, abs=2e-4)
    assert attention.backward(GRADIENT) == pytest.approx(np.einsum("ikjl,ik->jl", pairs, GRADIENT), rel=4e-3, abs=2e-4)


def test_attention_of_large_scores_goes_on_from_where_its_closed_form_ends():
    x = Signal.root(ALIKE)
    less, more = (
        x.attending(x.through_weights(1, 1), x.through_weights(1, 1), CAUSAL[None], scale, Mixing())
        for scale in (1.99, 2.01)
    )
    assert [y.attention[-1].sampled for y in (less, more)] == [False, True]
    assert np.trace(more.kernel) == pytest.approx(np.trace(less.kernel), rel=0.05)


def test_tokens_of_zeros_stay_what_the_activation_makes_of_0():
    kernel = np.diag([0.0, 1.0, 0.0])
    assert Signal.root(kernel).activated(ReLU()).kernel == pytest.approx(kernel / 2, abs=1e-12)


def test_a_matrix_is_divided_by_its_largest_singular_value():
    x = Signal.root(ALIKE)
    assert x.through_weights(4.0, 4.0).by_spectral_norm().kernel == pytest.approx(ALIKE / 4)
    assert x.through_weights(4.0, 4.0, largest=2.0).by_spectral_norm().kernel == pytest.approx(ALIKE)
    for other in (x, x.through_weights(0.0, 0.0), x.through_weights(1.0, 1.0).times(2.0)):
        with pytest.raises(InputError, match="is not divided by its norm"):
            other.by_spectral_norm()
