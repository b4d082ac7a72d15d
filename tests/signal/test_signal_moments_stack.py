"""Attention and MLP blocks against ones that are drawn; whole models against the recursions of the paper's appendix."""

import math
from dataclasses import replace

import numpy as np
import pytest
from moment_recursion import Stack, backward, forward
from scipy.optimize import brentq

from ablate.signal.attention_kernel import RandomAttention
from ablate.signal.moments import (
    WIDE,
    Moments,
    attention,
    attention_backward,
    attention_mean,
    attention_mean_backward,
    deep_scale_std,
    layer_correlations,
    mlp,
    mlp_backward,
)

BATCH, LENGTH, WIDTH, P = 6, 256, 64, 0.1


def signal(random, r, variance=1.0, batch=BATCH):
    common, own = random.normal(size=(batch, 1, WIDTH)), random.normal(size=(batch, LENGTH, WIDTH))
    return math.sqrt(variance) * (math.sqrt(r) * common + math.sqrt(1 - r) * own)


def moments(y):
    square = (y**2).sum()
    return (y**2).mean(), ((y.sum(1) ** 2).sum() - square) / (y.size * (y.shape[1] - 1))


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def drop(random, shape):
    return (random.random(shape) > P) / (1 - P)


def drawn_mean(random, x, g, scores=1.0):
    """Single-head attention without values, forwards on x and backwards from g, through all of it."""
    w = random.normal(size=(2, WIDTH, WIDTH)) * (scores / WIDTH**2) ** 0.25
    q, k = x @ w[0], x @ w[1]
    clean = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(WIDTH))
    mask = drop(random, clean.shape)
    weights = clean * mask
    values = weights.transpose(0, 2, 1) @ g
    dw = mask * (g @ x.transpose(0, 2, 1))
    ds = clean * (dw - (clean * dw).sum(-1, keepdims=True)) / math.sqrt(WIDTH)
    scores_back = ds @ k @ w[0].T + ds.transpose(0, 2, 1) @ q @ w[1].T
    return weights @ x, values, scores_back


@pytest.mark.parametrize("r", [0.1, 0.5, 0.8])
def test_a_mean_over_tokens(r):
    random = np.random.default_rng(int(100 * r))
    found = [moments(drawn_mean(random, signal(random, r), np.zeros((BATCH, LENGTH, WIDTH)))[0]) for _ in range(12)]
    variance, covariance = np.mean(found, axis=0)
    expected = attention_mean(Moments(1.0, r), LENGTH, WIDTH, 1.0, P)
    assert (expected.variance, expected.covariance) == pytest.approx((variance, covariance), rel=0.1)
    assert attention_mean(Moments(1.0, r + 0.1), LENGTH, WIDTH, 1.0, P).variance > 1.1 * expected.variance


@pytest.mark.parametrize(("r", "rho"), [(0.2, 0.0), (0.5, 0.0), (0.2, 0.1), (0.7, 0.5)])
def test_back_through_a_mean_over_tokens(r, rho):
    random = np.random.default_rng(int(100 * r + 10 * rho))
    uniform, values, through = [], [], []
    for _ in range(12):
        x, g = signal(random, r), signal(random, rho)
        _, value, score = drawn_mean(random, x, g)
        values.append(moments(value))
        through.append(moments(value + score))
        flat = drop(random, (BATCH, LENGTH, LENGTH)) / LENGTH
        uniform.append(moments(flat.transpose(0, 2, 1) @ g))
    x, g = Moments(1.0, r), Moments(1.0, rho)
    plain = attention_mean_backward(g, x, LENGTH, WIDTH, p=P).whole
    assert (plain.variance, plain.covariance) == pytest.approx(np.mean(uniform, axis=0), rel=0.06, abs=1e-3)
    whole = attention_mean_backward(g, x, LENGTH, WIDTH, 1.0, P).whole
    assert whole.variance == pytest.approx(np.mean(through, axis=0)[0], rel=0.12)
    assert plain.variance < 0.8 * np.mean(through, axis=0)[0]  # the paper's, of values alone and weights all alike


@pytest.mark.parametrize(("r", "rho", "s"), [(0.0, 0.0, 1.0), (0.3, 0.0, 1.0), (0.3, 0.3, 2.0), (0.1, 0.9, 0.2)])
def test_the_way_back_is_that_of_random_attention_at_equal_correlations(r, rho, s):
    """Against the token kernels of `attention_kernel`, whose exponential is interpolated to 1e-3, where 1/L shows."""
    length = 32
    kernel, gradient = ((1 - c) * np.eye(length) + c for c in (r, rho))
    random = RandomAttention(np.full((length, length), 1 / length), s * kernel, kernel, kernel)
    found = attention_mean_backward(Moments(1.0, rho), Moments(1.0, r), length, WIDE, s)
    for part, back in (
        (found.by_values, random.backward(gradient)),
        (found.by_queries, s * random.queries_backward(gradient)),
        (found.by_keys, random.keys_backward(gradient)),
    ):
        square = float(np.trace(back)) / length
        shared = (float(back.sum()) / length - square) / (length - 1)
        assert (part.variance, part.covariance) == pytest.approx((square, shared), rel=2e-3, abs=1e-6)
    forward = attention_mean(Moments(1.0, r), length, WIDE, s)
    square = float(np.trace(random.forward)) / length
    assert forward.variance == pytest.approx(square, rel=2e-3)
    assert attention_mean(Moments(1.0, r), length + 4, WIDE, s).variance != pytest.approx(square, rel=5e-3)


@pytest.mark.parametrize(("r", "rho"), [(0.3, 0.5), (0.6, 0.1)])
def test_back_through_an_attention_block_with_dropout(r, rho):
    """Dropout behind the block leaves what the tokens' gradients share, which the paper's 1/(1-p) makes larger."""
    random, p, found = np.random.default_rng(11), 0.4, []
    for _ in range(16):
        x, g = signal(random, r), signal(random, rho)
        value, projection = (random.normal(size=(WIDTH, WIDTH)) / math.sqrt(WIDTH) for _ in range(2))
        mask = (random.random(g.shape) > p) / (1 - p)
        flat = (random.random((BATCH, LENGTH, LENGTH)) > p) / (1 - p) / LENGTH
        back = flat.transpose(0, 2, 1) @ (g * mask) @ projection.T @ value.T
        given, gradient = (Moments.of(*moments(each)) for each in (x, g))
        expected = attention_backward(gradient, given, 1.0, p, LENGTH)
        found.append([a / b for a, b in zip((expected.variance, expected.covariance), moments(back), strict=True)])
    assert np.mean(found, axis=0) == pytest.approx([1.0, 1.0], abs=0.12)
    published = gradient.variance / (LENGTH * (1 - p) ** 2) * (1 + (LENGTH - 1) * gradient.correlation * (1 - p))
    assert published > 1.3 * expected.variance


def drawn_mlp(random, x, p=P):
    up = random.normal(size=(WIDTH, 4 * WIDTH)) * (2 / WIDTH) ** 0.5
    down = random.normal(size=(4 * WIDTH, WIDTH)) * (1 / (4 * WIDTH)) ** 0.5
    mask = drop(random, (*x.shape[:2], WIDTH))
    return mask * (np.maximum(x @ up, 0) @ down), lambda g: ((g * mask) @ down.T * (x @ up > 0)) @ up.T


STRENGTH = WIDTH * 4 * WIDTH * (2 / WIDTH) * (1 / (4 * WIDTH)) / 2


@pytest.mark.parametrize(("r", "rho"), [(0.1, 0.5), (0.6, 0.2), (0.95, 0.9)])
def test_mlp_block(r, rho):
    random = np.random.default_rng(7)
    ahead, back = [], []
    for _ in range(12):
        y, pull = drawn_mlp(random, signal(random, r))
        ahead.append(moments(y))
        back.append(moments(pull(signal(random, rho))))
    found = mlp(Moments(1.0, r), STRENGTH, P)
    assert (found.variance, found.covariance) == pytest.approx(np.mean(ahead, axis=0), rel=0.06)
    found = mlp_backward(Moments(1.0, rho), Moments(1.0, r), STRENGTH, P)
    assert (found.variance, found.covariance) == pytest.approx(np.mean(back, axis=0), rel=0.08)
    series = (1 - P) * (1 / math.pi + r / 2 + (1 / 2 - 1 / math.pi) * r * r)
    assert mlp(Moments(1.0, r), STRENGTH, P).correlation == pytest.approx(series, abs=0.012)


def test_attention_block_for_many_tokens():
    x, g, strength = Moments(1.0, 0.3), Moments(2.0, 0.2), 1.7
    found = attention(x, strength, P)
    assert (found.variance, found.correlation) == pytest.approx((strength * 0.3 / 0.9, 0.9))
    found = attention_backward(g, x, strength, P)
    assert (found.variance, found.correlation) == pytest.approx((strength * 0.2 * 2, 1.0))
    long = attention(x, strength, P, 10**6, 10**4, 1.0)
    assert (long.variance, long.covariance) == pytest.approx((strength * 0.3 / 0.9, strength * 0.3), rel=1e-3)
    long = attention_backward(g, x, strength, P, 10**7)
    assert long.variance == pytest.approx(strength * 0.2 * 2, rel=1e-5)
    short = attention_backward(g, x, strength, P, 40)
    assert short.variance == pytest.approx(strength * 2 / (40 * 0.81) * (1 + 39 * 0.2 * 0.81))
    assert short.covariance == pytest.approx(strength * 2 / 40 * (1 / 0.9 + 39 * 0.2))


def g_of(r):
    """The correlation after an MLP, as App. F has it."""
    return (1 - P) * (1 / math.pi + r / 2 + (1 / 2 - 1 / math.pi) * r * r)


def test_fixed_point_of_vanilla_post_ln():
    """App. F at C1 = 2.2, C2 = 0.4 and p = 0.1: 0.887 (there 0.88) forwards and 0.863 (0.87) backwards."""
    c1, c2 = 2.2, 0.4
    stable = brentq(lambda r: (c1 * (1 - P) + c2 * g_of(r)) / (c1 + c2) - r, 0, 1)
    back = brentq(
        lambda rho: (c1 * (1 - P) + c2 * (1 - P) * (1 / 2 + math.asin(stable) / math.pi) * rho) / (c1 + c2) - rho, 0, 1
    )
    assert (stable, back) == pytest.approx((0.887, 0.863), abs=1e-3)
    # A layer by itself is closer: attention weighs C1 r, and its skip is counted.
    stack = Stack(attention=(c1 * (1 - P),) * 200, mlp=(c2 * (1 - P),) * 200, post=False, p=P)
    states = forward(stack, Moments(1.0, 0.1))
    weighed = brentq(lambda r: (c1 * r * (1 - P) + c2 * g_of(r)) / (c1 * r + c2) - r, 0.5, 1)
    assert weighed == pytest.approx(0.885, abs=1e-3)
    assert states[-1].correlation == pytest.approx(weighed, abs=0.01)
    undropped = Stack(attention=(c1,) * 200, mlp=(c2,) * 200, post=True)
    assert forward(undropped, Moments(1.0, 0.1))[-1].correlation > 0.99  # the twin: without dropout the rank collapses


def test_vanilla_pre_ln_grows_by_c1_r_plus_c2_and_its_gradient_hyperbolically():
    c1, c2, n = 2.2, 0.4, 192
    stack = Stack(attention=(c1 * (1 - P),) * n, mlp=(c2 * (1 - P),) * n, post=False, p=P)
    states = forward(stack, Moments(0.01, 0.5))
    stable = states[-1].correlation
    assert states[-1].variance == pytest.approx(n * (c1 * stable + c2), rel=0.01)
    for before, after in zip(states[:-2:2], states[2::2], strict=True):
        assert after.variance > before.variance + c2
    published = backward(replace(stack, published=True), states, Moments(1.0, stable))
    assert published[n].variance == pytest.approx(2.0, rel=0.03)  # half-way: N/n
    back = backward(stack, states, Moments(1.0, stable))
    # Half-way N/n = 2 in the paper, which counts the dropout of what tokens share; without it, a power below 1.
    power = (c1 * (1 - P) * back[n].correlation + c2) / (c1 * stable + c2)
    assert 0.9 < power < 0.95
    assert back[n].variance == pytest.approx(2**power, rel=0.02)


def test_vanilla_post_ln_gradients_by_layers():
    c1, c2, n = 2.2, 0.4, 40
    stack = Stack(attention=(c1 * (1 - P),) * n, mlp=(c2 * (1 - P),) * n, post=True, p=P)
    states = forward(stack, Moments(1.0, 0.85))
    back = backward(stack, states, Moments(1.0, 0.8))
    for x, before, after in zip(states[:-2:2], back[:-2:2], back[2::2], strict=True):
        # The paper's (1 + C1 ρ)/(1 + C1 r), with the correlation of the gradient where attention hands it back, and
        # without the dropout of what tokens share; below, with it.
        middle = back[2 * (list(back[2::2]).index(after)) + 1]
        assert before.variance == pytest.approx(
            middle.variance * (1 + c1 * (1 - P) * middle.correlation) / (1 + c1 * x.correlation), rel=1e-9
        )
    back = backward(replace(stack, published=True), states, Moments(1.0, 0.8))
    for layer, x in enumerate(states[:-2:2]):
        before, middle = back[2 * layer : 2 * layer + 2]
        assert before.variance == pytest.approx(
            middle.variance * (1 + c1 * middle.correlation) / (1 + c1 * x.correlation), rel=1e-9
        )


SKIP, GAIN = math.sqrt(1 - 2 / 24), math.sqrt(2 / 24)


@pytest.mark.parametrize("post", [False, True], ids=["pre", "post"])
def test_deep_scale_keeps_every_variance_at_one(post):
    """App. E.3 and E.4: forwards 1; backwards λ² + β² (1-p)ρ/r past attention (there without 1-p), 1 past the MLP."""
    rs = layer_correlations(24, 0.221, P, SKIP, GAIN)
    shared = {"mlp": (1 - P,) * 24, "post": post, "skip": SKIP, "gain": GAIN, "p": P}
    stack = Stack(attention=tuple((1 - P) / r for r in rs), **shared)
    states = forward(stack, Moments(1.0, 0.221 * (1 - P)))
    assert [s.variance for s in states] == pytest.approx([1.0] * 49)
    assert [s.correlation for s in states[:-1:2]] == pytest.approx(rs)
    back = backward(stack, states, Moments(1.0, 0.1))
    for layer in range(24):
        before, middle, after = back[2 * layer : 2 * layer + 3]
        assert middle.variance == pytest.approx(after.variance)
        assert before.variance == pytest.approx(
            middle.variance * (SKIP**2 + GAIN**2 * (1 - P) * middle.correlation / states[2 * layer].correlation)
        )
    back = backward(replace(stack, published=True), states, Moments(1.0, 0.4))
    for layer in range(24):
        before, middle = back[2 * layer : 2 * layer + 2]
        assert before.variance == pytest.approx(
            middle.variance * (SKIP**2 + GAIN**2 * middle.correlation / states[2 * layer].correlation)
        )
    white = backward(stack, states, Moments(1.0, 0.0))[0].variance
    assert math.exp(-2) * 0.8 < white < 1  # exp(-N β²(1 - ρ/r)), were ρ 0 all the way
    late = Stack(attention=tuple((1 - P) / r for r in rs[1:] + rs[-1:]), **shared)
    assert post or forward(late, Moments(1.0, 0.221 * (1 - P)))[1].variance < 0.98  # Fig. 15's r, one layer late


def test_correlations_by_hand():
    """Written out once more, with the series of the sums of variances that λ² + β² = 1 hides."""
    skip, gain, p = 0.9, 0.8, 0.2
    r, s, expected = 0.3 * (1 - p), 1.0, []
    for _ in range(5):
        expected.append(r)
        for branch in (1 - p, None):
            if branch is None:
                branch = (1 - p) * (r + (math.sqrt(1 - r * r) - r * math.acos(r)) / math.pi)
            total = skip**2 * s + gain**2
            r, s = (skip**2 * r * s + gain**2 * branch) / total, total
    assert layer_correlations(5, 0.3, p, skip, gain) == pytest.approx(expected, rel=1e-12)
    assert layer_correlations(5, 0.3, p, skip, 0.4) != pytest.approx(expected, rel=1e-2)
    assert 16**2 * deep_scale_std(0.4, p, 16) ** 4 * 0.4 / (1 - p) == pytest.approx(1.0)


def simple(n):
    """Simplified DeepScaleLM: d² σ_v² σ_o² as the MLP has it, half of what makes attention's output 1 at r = 1 - p."""
    skip, gain = math.sqrt(1 - 2 / n), math.sqrt(2 / n)
    return Stack(attention=((1 - P) / 2,) * n, mlp=(1 - P,) * n, post=False, skip=skip, gain=gain, p=P)


def test_simplified_deep_scale_is_within_the_papers_bounds():
    """App. E.5.1, Eq. 6: between 1/2 + 1/(2e⁴) and 3/4 + 1/(4e⁴) after N layers, from 1 before the first."""
    low, high = 1 / 2 + math.exp(-4) / 2, 3 / 4 + math.exp(-4) / 4
    for n in (24, 96, 192, 768):
        assert low - 1 / n < forward(simple(n), Moments(1.0, 0.2))[-1].variance < high
    full = tuple((1 - P) / r for r in layer_correlations(24, 0.221, P, SKIP, GAIN))
    stack = Stack(attention=full, mlp=(1 - P,) * 24, post=False, skip=SKIP, gain=GAIN, p=P)
    assert not low < forward(stack, Moments(1.0, 0.2))[-1].variance < high
