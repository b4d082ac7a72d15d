"""Every backend against the equation in float64: eager against NumPy, the others against eager, gradients included."""

import sys
import types

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.kernels import Attend, attend
from ablate.kernels.eager import attend_eager

pytestmark = pytest.mark.fast


def tensors(shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
    return [x.to(dtype).requires_grad_() for x in drawn]


def numpy_attention(q, k, v, *, causal, scale, logit_map=lambda s: s):
    q, k, v = (x.detach().numpy() for x in (q, k, v))
    scores = logit_map(scale * np.einsum("bhtk,bhsk->bhts", q, k))
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhts,bhsk->bhtk", weights / weights.sum(-1, keepdims=True), v)


def gradients(result, inputs):
    direction = torch.randn(result.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.autograd.grad((result * direction.to(result.dtype)).sum(), inputs)


SHAPES = st.tuples(*(st.integers(1, n) for n in (3, 3, 9, 6)))


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.booleans(), st.floats(0.05, 2), st.integers(0, 5))
def test_eager_is_the_equation(shape, causal, scale, seed):
    q, k, v = tensors(shape, seed=seed)
    expected = numpy_attention(q, k, v, causal=causal, scale=scale)
    actual = attend_eager(q, k, v, causal=causal, scale=scale)
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-11, atol=1e-13)
    capped = attend_eager(q, k, v, causal=causal, scale=scale, logits=(lambda s: torch.tanh(s), lambda s: 3 * s))
    expected = numpy_attention(q, k, v, causal=causal, scale=scale, logit_map=lambda s: 3 * np.tanh(s))
    np.testing.assert_allclose(capped.detach().numpy(), expected, rtol=1e-11, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.booleans(), st.floats(0.05, 2), st.integers(0, 5))
def test_sdpa_equals_eager_forward_and_backward(shape, causal, scale, seed):
    inputs = tensors(shape, seed=seed)
    fused = attend(*inputs, causal=causal, scale=scale, kernel="sdpa")
    eager = attend(*inputs, causal=causal, scale=scale, kernel="eager")
    torch.testing.assert_close(fused, eager, rtol=1e-10, atol=1e-12)
    for a, b in zip(gradients(fused, inputs), gradients(eager, inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_another_scale_is_told_apart():
    inputs = tensors((2, 2, 8, 4))
    one, other = (attend(*inputs, causal=True, scale=scale, kernel="sdpa") for scale in (0.5, 0.51))
    assert (one - other).abs().max() > 1e-3


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_lower_precision_stays_close_and_keeps_its_type(kernel, dtype, tolerance):
    low = tensors((2, 2, 33, 8), dtype)
    high = [x.detach().double() for x in low]
    result = attend(*low, causal=True, scale=0.35, kernel=kernel)
    assert result.dtype == dtype
    expected = attend_eager(*high, causal=True, scale=0.35)
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance)


def test_eager_softmax_is_not_taken_in_bfloat16():
    q, k, v = (30 * x for x in tensors((1, 1, 2, 64), torch.bfloat16))
    seen = []
    attend_eager(q, k, v, causal=False, scale=0.125, logits=(lambda s: seen.append(s.dtype) or s,))
    assert seen == [torch.float32]


class RecordedOps(types.ModuleType):
    """Stands for `xformers.ops`: keeps what it is called with, and computes it in its own layout, [B, M, H, K]."""

    class LowerTriangularMask:
        pass

    def __init__(self):
        super().__init__("xformers.ops")
        self.calls = []

    def memory_efficient_attention(self, query, key, value, attn_bias=None, p=0.0, scale=None):
        self.calls.append({"shape": tuple(query.shape), "attn_bias": attn_bias, "p": p, "scale": scale})
        scores = torch.einsum("bmhk,bnhk->bhmn", query, key) * scale
        if isinstance(attn_bias, self.LowerTriangularMask):
            scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        return torch.einsum("bhmn,bnhk->bmhk", scores.softmax(-1), value)


@pytest.fixture
def recorded(monkeypatch):
    ops = RecordedOps()
    monkeypatch.setitem(sys.modules, "xformers", types.ModuleType("xformers"))
    monkeypatch.setitem(sys.modules, "xformers.ops", ops)
    return ops


@pytest.mark.parametrize("causal", [True, False])
def test_xformers_is_handed_its_own_layout_and_mask(recorded, causal):
    from ablate.kernels.xformers import attend_xformers

    q, k, v = tensors((2, 3, 5, 4))
    result = attend_xformers(q, k, v, causal=causal, scale=0.3)
    (call,) = recorded.calls
    assert call["shape"] == (2, 5, 3, 4)
    assert call["scale"] == 0.3
    assert call["p"] == 0.0
    assert isinstance(call["attn_bias"], RecordedOps.LowerTriangularMask) == causal
    assert (call["attn_bias"] is None) == (not causal)
    torch.testing.assert_close(result, attend_eager(q, k, v, causal=causal, scale=0.3), rtol=1e-10, atol=1e-12)


def test_a_kernel_that_cannot_do_it_is_refused():
    q, k, v = tensors((1, 1, 2, 2))
    with pytest.raises(ValueError, match="sdpa takes no map"):
        attend(q, k, v, causal=True, scale=1.0, logits=(torch.tanh,), kernel="sdpa")
    with pytest.raises(ValueError, match="xformers has no operators on cpu"):
        attend(q, k, v, causal=True, scale=1.0, kernel="xformers")
    with pytest.raises(ValueError, match="no kernel 'flash'"):
        attend(q, k, v, causal=True, scale=1.0, kernel="flash")


def test_the_module_is_the_function_and_can_be_hooked():
    module = Attend(causal=True, scale=0.5, logits=(torch.tanh,))
    seen = []
    module.register_forward_pre_hook(lambda _, inputs: seen.extend(x.shape for x in inputs))
    q, k, v = tensors((2, 3, 5, 4))
    expected = attend(q, k, v, causal=True, scale=0.5, logits=(torch.tanh,))
    assert torch.equal(module(q, k, v), expected)
    assert seen == [q.shape] * 3
    assert not list(module.parameters())
