"""Attention entropy equals -Σ p log p over the whole matrix, and never makes that matrix."""

import math

import numpy as np
import pytest
import torch
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.kernels import Attend, attention_entropy
from ablate.probes.attention_entropy import mean_entropy


def drawn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2)]


def numpy_entropy(q, k, *, causal, scale, logit_map=lambda s: s, bias=0.0):
    scores = logit_map(scale * np.einsum("bhtk,bhsk->bhts", q.numpy(), k.numpy())) + np.asarray(bias)
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return -(p * np.log(np.where(p > 0, p, 1))).sum(-1)


@settings(max_examples=examples_of(40), deadline=None)
@given(st.integers(1, 20), st.booleans(), st.integers(1, 25), st.sampled_from([0.1, 1.0, 20.0]))
def test_equals_its_definition_whatever_the_chunks(n_times, causal, rows, scale):
    q, k = drawn(2, 3, n_times, 4, seed=n_times)
    actual = attention_entropy(q, k, causal=causal, scale=scale, rows=rows)
    np.testing.assert_allclose(actual, numpy_entropy(q, k, causal=causal, scale=scale), rtol=1e-11, atol=1e-12)
    mapped = attention_entropy(q, k, causal=causal, scale=scale, logits=(torch.tanh,), rows=rows)
    expected = numpy_entropy(q, k, causal=causal, scale=scale, logit_map=np.tanh)
    np.testing.assert_allclose(mapped, expected, rtol=1e-11, atol=1e-12)


@settings(max_examples=examples_of(40), deadline=None)
@given(st.integers(1, 20), st.booleans(), st.integers(1, 25), st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 3)]))
def test_a_bias_is_counted_whatever_it_varies_along(n_times, causal, rows, shape):
    q, k = drawn(2, 3, n_times, 4, seed=n_times)
    bias, _ = drawn(*shape, n_times, n_times, seed=1)
    actual = attention_entropy(q, k, causal=causal, scale=0.5, logits=(torch.tanh,), bias=bias, rows=rows)
    expected = numpy_entropy(q, k, causal=causal, scale=0.5, logit_map=np.tanh, bias=bias)
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.fast
@pytest.mark.parametrize("causal", [True, False])
def test_the_probe_reads_the_bias_of_the_core(causal):
    q, k = (x.float() for x in drawn(2, 3, 9, 4))
    bias, _ = drawn(1, 3, 9, 9, seed=1)
    core = Attend(causal=causal, scale=0.5, biases=(lambda q, k, scale: bias.to(q.dtype),))
    read = mean_entropy(core, q, k)["attention_entropy"]
    expected = numpy_entropy(q.double(), k.double(), causal=causal, scale=0.5, bias=bias).mean()
    np.testing.assert_allclose(read, expected, rtol=1e-11)
    plain = mean_entropy(Attend(causal=causal, scale=0.5), q, k)["attention_entropy"]
    assert abs(plain - expected) > 1e-2


@pytest.mark.fast
def test_even_and_collapsed_attention():
    q, k = drawn(1, 1, 9, 4)
    even = attention_entropy(0 * q, k, causal=True, scale=1.0)
    np.testing.assert_allclose(even[0, 0], [math.log(t) for t in range(1, 10)], rtol=1e-12)
    collapsed = attention_entropy(1e4 * q, k, causal=True, scale=1.0)
    assert collapsed.max() < 1e-6
    assert collapsed.min() >= 0


@pytest.mark.fast
def test_bfloat16_is_exact_at_collapse_because_scores_are_wide():
    q, k = (30 * x.bfloat16() for x in drawn(1, 2, 40, 16))
    actual = attention_entropy(q, k, causal=True, scale=0.25)
    assert actual.dtype == torch.float32
    expected = numpy_entropy(q.double(), k.double(), causal=True, scale=0.25)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
    narrow = (0.25 * q @ k.transpose(-1, -2)).masked_fill(torch.ones(40, 40).triu(1).bool(), -torch.inf)
    off = torch.special.entr(narrow.softmax(-1).double()).sum(-1) - torch.from_numpy(expected)
    assert off.abs().max() > 1e-2  # scores in bfloat16 would not do


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation makes."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.largest = max(self.largest, result.numel())
        return result


@pytest.mark.fast
@pytest.mark.parametrize(("rows", "fits"), [(8, True), (256, False)])
def test_the_whole_matrix_is_never_made(rows, fits):
    q, k = drawn(1, 2, 256, 4)
    with LargestTensor() as watch:
        attention_entropy(q, k, causal=True, scale=1.0, rows=rows)
    assert (watch.largest <= 1 * 2 * 8 * 256) == fits
