"""Attention at zero query: the mean of what is seen, weighted by the bias alone, against softmax in NumPy."""

import numpy as np
import pytest
import torch
from attention_cases import Case, cases, close, gradients, numpy_attention
from example_counts import examples_of
from hypothesis import given, settings

from ablate.kernels import Attend
from ablate.kernels.eager import attend_eager

pytestmark = pytest.mark.fast


def core_of(case, bias, **more):
    biases = () if bias is None else (lambda q, k, scale: 1 * bias,)
    return Attend(causal=case.causal, scale=case.scale, biases=biases, **more)


@settings(max_examples=examples_of(80), deadline=None)
@given(cases(dtypes=(torch.float64, torch.float32)))
def test_uniform_is_softmax_of_bias_and_mask_alone(case):
    (q, k, v), bias = case.draw()
    actual = core_of(case, bias).uniform(q, k, v)
    high = None if bias is None else bias.double()
    expected = numpy_attention(0 * q.double(), k.double(), v.double(), causal=case.causal, scale=1.0, bias=high)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}[case.dtype]
    close(actual, torch.from_numpy(expected), tolerance)
    assert actual.dtype == case.dtype


@settings(max_examples=examples_of(40), deadline=None)
@given(cases())
def test_its_gradients_are_those_of_attention_at_zero_query(case):
    (q, k, v), bias = case.draw()
    wanted = [v, bias] if case.learned and bias is not None else [v]
    actual = core_of(case, bias).uniform(q, k, v)
    expected = attend_eager(0 * q.detach(), k, v, causal=case.causal, scale=1.0, bias=bias)
    for a, b in zip(gradients(actual, wanted), gradients(expected, wanted), strict=True):
        close(a, b, 1e-11)


def test_maps_and_dropout_leave_it_alone():
    case = Case((2, 2, 9, 9, 4), bias="head")
    (q, k, v), bias = case.draw()
    plain = core_of(case, bias).uniform(q, k, v)
    other = core_of(case, bias, logits=(lambda s: s + 3,), dropout=0.5)
    assert torch.equal(other.uniform(q, k, v), plain)
    assert not torch.equal(other(q, k, v), core_of(case, bias)(q, k, v))


def test_a_kept_bias_is_not_spoiled():
    case = Case((2, 2, 9, 9, 4), bias="shared")
    (q, k, v), kept = case.draw()
    before = kept.clone()
    core = Attend(causal=True, scale=0.3, biases=(lambda q, k, scale: kept[..., :9, :9],))
    first = core.uniform(q, k, v), core(q, k, v)
    assert torch.equal(kept, before)
    assert all(torch.equal(a, b) for a, b in zip(first, (core.uniform(q, k, v), core(q, k, v)), strict=True))


def test_a_parameter_is_not_spoiled_without_gradients():
    case = Case((1, 2, 9, 9, 4))
    (q, k, v), _ = case.draw()
    weight = torch.nn.Parameter(torch.ones(2, 9, 9, dtype=torch.float64))
    core = Attend(causal=True, scale=0.3, biases=(lambda q, k, scale: weight[None],))
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            core(q, k, v), core.uniform(q, k, v)
    assert torch.equal(weight, torch.ones_like(weight))


def test_halves_are_summed_in_float32():
    n = 4096
    v = torch.full((1, 1, n, 1), 0.1, dtype=torch.bfloat16)
    q = torch.zeros(1, 1, n, 1, dtype=torch.bfloat16)
    for biases in ((), (lambda q, k, scale: torch.zeros(1, 1, 64, 64),)):
        length = 64 if biases else n
        core = Attend(causal=True, scale=1.0, biases=biases)
        result = core.uniform(q[:, :, :length], q[:, :, :length], v[:, :, :length])
        assert torch.equal(result, v[:, :, :length])
    counts = torch.arange(1, n + 1, dtype=torch.bfloat16)[:, None]
    assert not torch.equal(v.cumsum(-2) / counts, v)  # as sums in bfloat16 would not


def test_one_key_or_many_of_another_length():
    v = torch.arange(3.0, dtype=torch.float64).reshape(1, 1, 3, 1)
    q = torch.zeros(1, 1, 5, 1, dtype=torch.float64)
    core = Attend(causal=True, scale=1.0)
    np.testing.assert_allclose(core.uniform(q, v, v).flatten(), [0, 0.5, 1, 1, 1], rtol=1e-15)
    np.testing.assert_allclose(core.uniform(q[:, :, :2], v, v).flatten(), [0, 0.5], rtol=1e-15)
    open_core = Attend(causal=False, scale=1.0)
    np.testing.assert_allclose(open_core.uniform(q, v, v).flatten(), [1, 1, 1, 1, 1], rtol=1e-15)
