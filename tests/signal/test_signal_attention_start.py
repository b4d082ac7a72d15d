"""Attention at the start: its entropy and its scores, against attention whose queries and keys are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import entr, softmax

from ablate.signal.attention_kernel import RandomAttention, at_zero_scores
from ablate.signal.network_shaping import Mixing
from ablate.signal.propagation import Signal, concatenated, stacked
from ablate.signal.sampled_attention import AttentionStart

LENGTH, DRAWS = 24, 400


def kernel(rng, length, alike, spread=0.0):
    sizes = np.sqrt(rng.uniform(1 - spread, 1 + spread, length))
    return np.outer(sizes, sizes) * ((1 - alike) * np.eye(length) + alike)


def uniform(*, causal, slope=0.0):
    places = np.arange(LENGTH)
    (weights,) = at_zero_scores([-slope * np.abs(places[:, None] - places)], [], length=LENGTH, causal=causal)
    return weights


def drawn(weights, queries, keys, width=64):
    """Mean entropy and variance of scores over draws of queries and keys, each channel normal with these kernels."""
    rng = np.random.default_rng(3)
    roots = [np.linalg.cholesky(each + 1e-12 * np.eye(len(each))) for each in (queries, keys)]
    with np.errstate(divide="ignore"):
        logarithms = np.log(weights)
    entropies, squares = [], []
    for _ in range(DRAWS):
        q, k = (root @ rng.normal(size=(len(root), width)) for root in roots)
        scores = q @ k.T / np.sqrt(width)
        entropies.append(entr(softmax(logarithms + scores, axis=-1)).sum(-1).mean())
        squares.append((weights * scores**2).sum(-1).mean())
    return np.mean(entropies), np.mean(squares)


CASES = {
    # variance of queries, cosine of tokens, how far the entropy may be away in nats, W
    "small scores": (0.1, 0.2, 0.005, {"causal": True}),
    "scores of variance 1": (1.0, 0.2, 0.05, {"causal": True}),
    "no mask": (1.0, 0.0, 0.06, {"causal": False}),
    "scores of variance 3": (3.0, 0.3, 0.35, {"causal": False}),
    "tokens alike": (2.0, 0.8, 0.02, {"causal": True}),
    "a bias by distance": (1.0, 0.1, 0.06, {"causal": True, "slope": 0.3}),
}


@pytest.mark.parametrize("case", CASES)
def test_entropy_and_scores_are_those_of_attention_that_is_drawn(case):
    variance, alike, near, shown = CASES[case]
    rng, weights = np.random.default_rng(0), uniform(**shown)
    queries, keys = variance * kernel(rng, LENGTH, alike, 0.2), kernel(rng, LENGTH, alike, 0.2)
    found = AttentionStart((RandomAttention(weights, queries, keys, keys),))
    entropy, squares = drawn(weights, queries, keys)
    assert found.score_variance == pytest.approx(squares, rel=0.05)
    assert found.entropy == pytest.approx(entropy, abs=near)
    assert abs(found.uniform_entropy - entropy) > 2 * abs(found.entropy - entropy)  # that of zero scores is not as near


@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
def test_small_scores_cost_half_their_variance_apart_from_what_keys_share(alike):
    keys, weights = kernel(np.random.default_rng(0), LENGTH, alike), uniform(causal=False)
    found = AttentionStart((RandomAttention(weights, 0.02 * np.eye(LENGTH), keys, keys),))
    assert found.uniform_entropy == pytest.approx(np.log(LENGTH))
    assert np.log(LENGTH) - found.entropy == pytest.approx(0.01 * (1 - alike) * (1 - 1 / LENGTH), rel=0.03, abs=1e-12)


def test_heads_count_the_same():
    keys = np.eye(LENGTH)
    heads = [RandomAttention(uniform(causal=True, slope=s), 1.5 * keys, keys, keys) for s in (0.0, 0.5)]
    one, other = (AttentionStart((head,)) for head in heads)
    assert AttentionStart(tuple(heads)).entropy == pytest.approx((one.entropy + other.entropy) / 2)
    assert one.entropy != pytest.approx(other.entropy, rel=0.1)


def attended(x):
    return x.attending(x, x, uniform(causal=True)[None], 0.5, Mixing())


def test_a_signal_knows_the_attention_that_it_went_through_from_its_root_on():
    root = Signal.root(np.eye(LENGTH))
    once = attended(root)
    assert root.attention == () and len(once.attention) == 1
    twice = attended(once.through_weights(1, 1).normalised(1e-5, centred=False))
    assert [len(twice.attention), twice.attention[0] is once.attention[0]] == [2, True]
    beside = root.forked(lambda x: [x, (shared := attended(x)), shared.times(2.0)])
    assert len(beside.attention) == 1
    assert (
        len(stacked([once, twice], np.eye(LENGTH)).attention) == len(concatenated([twice, once], [1, 1]).attention) == 2
    )
