"""Every backend against the equation in float64: eager against NumPy, the others against eager, gradients included."""

import sys
import types

import numpy as np
import pytest
import torch
from attention_cases import MAPS, NUMPY_MAPS, Case, cases, close, gradients, numpy_attention, wanted
from example_counts import examples_of
from fake_cuda import fake_cuda, inputs
from hypothesis import given, settings

from ablate.kernels import Attend, attend
from ablate.kernels.attend import BACKENDS
from ablate.kernels.eager import attend_eager

WIDE = (torch.float64, torch.float32)
TOLERANCE = {torch.float64: 1e-12, torch.float32: 4e-5, torch.bfloat16: 2e-2}


def tensors(shape, dtype=torch.float64):
    b, h, t, k = shape
    return Case((b, h, t, t, k), dtype=dtype).draw()[0]


@pytest.mark.fast
@settings(max_examples=examples_of(60), deadline=None)
@given(cases(maps=tuple(MAPS)))
def test_eager_is_the_equation(case):
    qkv, bias = case.draw()
    actual = attend_eager(*qkv, bias=bias, **case.asked())
    expected = numpy_attention(*qkv, causal=case.causal, scale=case.scale, logit_map=NUMPY_MAPS[case.maps], bias=bias)
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-11, atol=1e-12)


def equals_eager_in_float64(case, kernel, device="cpu"):
    """Forward and backward, of queries, keys, values and a bias that learns."""
    qkv, bias = case.draw(device)
    result = attend(*qkv, bias=bias, kernel=kernel, **case.asked())
    assert result.dtype == case.dtype
    high = [x.detach().cpu().double().requires_grad_() for x in qkv]
    high_bias = None if bias is None else bias.detach().cpu().double().requires_grad_(bias.requires_grad)
    expected = attend_eager(*high, bias=high_bias, **case.asked())
    # On CUDA a bias has the type of the queries, and products of float32 may be taken in pieces.
    tolerance = TOLERANCE[case.dtype] * (4 if device == "cuda" else 1)
    close(result, expected, tolerance)
    pairs = zip(gradients(result, wanted(qkv, bias)), gradients(expected, wanted(high, high_bias)), strict=True)
    for actual, exact in pairs:
        close(actual, exact, 3 * tolerance)


@pytest.mark.fast
@settings(max_examples=examples_of(100), deadline=None)
@given(cases(dtypes=WIDE))
def test_sdpa_equals_eager_forward_and_backward(case):
    equals_eager_in_float64(case, "sdpa")


@pytest.mark.fast
@settings(max_examples=examples_of(60), deadline=None)
@given(cases(dtypes=WIDE, maps=tuple(MAPS)))
def test_what_is_chosen_equals_eager_forward_and_backward(case):
    equals_eager_in_float64(case, None)


@pytest.mark.fast
@settings(max_examples=examples_of(40), deadline=None)
@given(cases(dtypes=(torch.bfloat16,), maps=tuple(MAPS)))
def test_bfloat16_stays_close_whatever_the_bias(case):
    equals_eager_in_float64(case, None)


@pytest.mark.fast
@pytest.mark.parametrize("change", [{"scale": 0.31}, {"causal": False}, {"maps": "softcap"}, {"seed": 1}, {"far": 1.1}])
def test_another_case_is_told_apart(change):
    case = Case((2, 2, 9, 9, 8), bias="head", far=1.0)
    other = Case(**{**case.__dict__, **change})
    results = []
    for each in (case, other):
        (q, k, v), bias = each.draw()
        results.append(attend(q, k, v, bias=bias, **each.asked()))
    with pytest.raises(AssertionError):
        close(*results, 1e-4)


@pytest.mark.fast
def test_eager_softmax_is_not_taken_in_bfloat16():
    q, k, v = (30 * x for x in tensors((1, 1, 2, 64), torch.bfloat16))
    seen = []
    attend_eager(q, k, v, causal=False, scale=0.125, logits=(lambda s: seen.append(s.dtype) or s,))
    assert seen == [torch.float32]


@pytest.mark.fast
def test_the_bias_of_a_caller_is_left_alone():
    qkv, bias = Case((1, 2, 5, 5, 8), bias="head").draw()
    before = bias.clone()
    for kernel in ("sdpa", "eager"):
        attend(*qkv, causal=True, scale=1.0, bias=bias, kernel=kernel)
        assert torch.equal(bias, before)
    attend(*qkv, causal=True, scale=1.0, bias=bias, kernel="sdpa", overwrite_bias=True)
    assert bias[0, 0, 0, 1] == -torch.inf  # unless it says that it may be written over


class RecordedOps(types.ModuleType):
    """Stands for `xformers.ops`: keeps what it is called with, and computes it in its own layout, [B, M, H, K].

    As fused kernels do, it hides the future before it scales.
    """

    class LowerTriangularMask:
        pass

    def __init__(self):
        super().__init__("xformers.ops")
        self.calls = []

    def memory_efficient_attention(self, query, key, value, attn_bias=None, p=0.0, scale=None):
        self.calls.append({"query": query, "attn_bias": attn_bias, "p": p, "scale": scale})
        scores = torch.einsum("bmhk,bnhk->bhmn", query, key)
        if isinstance(attn_bias, self.LowerTriangularMask):
            scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        scores = scores * scale
        if attn_bias is not None and not isinstance(attn_bias, self.LowerTriangularMask):
            scores = scores + attn_bias
        return torch.einsum("bhmn,bnhk->bmhk", scores.softmax(-1), value)


@pytest.fixture
def recorded(monkeypatch):
    ops = RecordedOps()
    monkeypatch.setitem(sys.modules, "xformers", types.ModuleType("xformers"))
    monkeypatch.setitem(sys.modules, "xformers.ops", ops)
    return ops


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_xformers_is_handed_its_own_layout_and_mask(recorded, causal, dropout):
    from ablate.kernels.xformers import attend_xformers

    q, k, v = tensors((2, 3, 5, 4))
    result = attend_xformers(q, k, v, causal=causal, scale=0.3, dropout=dropout)
    (call,) = recorded.calls
    assert call["query"].shape == (2, 5, 3, 4)
    assert call["query"].data_ptr() == q.data_ptr()  # a view: nothing is copied
    assert call["scale"] == 0.3
    assert call["p"] == dropout
    assert isinstance(call["attn_bias"], RecordedOps.LowerTriangularMask) == causal
    assert (call["attn_bias"] is None) == (not causal)
    torch.testing.assert_close(result, attend_eager(q, k, v, causal=causal, scale=0.3), rtol=1e-10, atol=1e-12)


@pytest.mark.fast
@pytest.mark.parametrize("bias", ["none", "head"])
@pytest.mark.parametrize("scale", [0.0, -0.3])
def test_xformers_is_handed_no_scale_that_would_turn_what_is_hidden(recorded, scale, bias):
    from ablate.kernels.xformers import attend_xformers

    qkv, added = Case((2, 3, 5, 5, 4), bias=bias).draw()
    result = attend_xformers(*qkv, causal=True, scale=scale, bias=added)
    assert recorded.calls[0]["scale"] > 0
    expected = attend_eager(*qkv, causal=True, scale=scale, bias=added)
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)
    ops = recorded.memory_efficient_attention
    handed = [x.transpose(1, 2) for x in qkv]
    assert ops(*handed, attn_bias=RecordedOps.LowerTriangularMask(), scale=scale).isnan().any()  # as it is, it would


@pytest.mark.fast
@pytest.mark.parametrize("kind", ["shared", "head", "row", "batch"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("n_keys", [5, 8])
@pytest.mark.parametrize("learned", [True, False])
def test_xformers_is_handed_a_bias_as_it_wants_it(recorded, kind, causal, n_keys, learned):
    from ablate.kernels.xformers import attend_xformers

    case = Case((2, 3, n_keys, n_keys, 4), causal=causal, bias=kind, learned=learned)
    qkv, bias = case.draw()
    result = attend_xformers(*qkv, causal=causal, scale=case.scale, bias=bias)
    handed = recorded.calls[0]["attn_bias"]
    assert handed.shape == (2, 3, n_keys, n_keys)
    assert handed.stride(-1) == 1
    assert all(stride % 8 == 0 for stride in handed.stride()[:-1])
    assert [stride == 0 for stride in handed.stride()[:2]] == [kind in ("shared", "head"), kind in ("shared", "row")]
    expected = attend_eager(*qkv, causal=causal, scale=case.scale, bias=bias)
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)
    inputs = wanted(qkv, bias)
    for a, b in zip(gradients(result, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.fast
def test_xformers_is_handed_a_bias_in_the_type_of_the_queries(recorded):
    from ablate.kernels.xformers import attend_xformers

    qkv, bias = Case((1, 2, 5, 5, 8), bias="head", far=300.0, dtype=torch.bfloat16).draw()
    assert bias.dtype == torch.float32
    attend_xformers(*qkv, causal=True, scale=0.3, bias=bias)
    handed = recorded.calls[0]["attn_bias"]
    assert handed.dtype == torch.bfloat16
    assert (handed.amax(-1) == 0).all()  # a bias of hundreds is shifted before it is rounded


@pytest.mark.fast
def test_a_kernel_that_cannot_do_it_is_refused():
    q, k, v = tensors((1, 1, 2, 2))
    with pytest.raises(ValueError, match="sdpa takes no map"):
        attend(q, k, v, causal=True, scale=1.0, logits=(torch.tanh,), kernel="sdpa")
    with pytest.raises(ValueError, match="xformers has no operators on cpu"):
        attend(q, k, v, causal=True, scale=1.0, kernel="xformers")
    with pytest.raises(ValueError, match="flex has no backward on cpu"):
        attend(q, k, v, causal=True, scale=1.0, kernel="flex")
    with pytest.raises(ValueError, match="unknown kernel 'flash'"):
        attend(q, k, v, causal=True, scale=1.0, kernel="flash")


@pytest.mark.fast
def test_the_module_is_the_function_and_can_be_hooked():
    module = Attend(causal=True, scale=0.5, logits=(torch.tanh,), biases=(lambda q, k, scale: scale * q @ k.mT,))
    seen = []
    module.register_forward_pre_hook(lambda _, inputs: seen.extend(x.shape for x in inputs))
    q, k, v = tensors((2, 3, 5, 4))
    expected = attend(q, k, v, causal=True, scale=0.5, logits=(torch.tanh,), bias=0.5 * q @ k.mT)
    assert torch.equal(module(q, k, v), expected)
    assert seen == [q.shape] * 3
    assert not list(module.parameters())


def test_on_a_gpu_where_xformers_has_no_kernels_the_next_backend_is_taken(monkeypatch):
    """The real xformers beside the real torch, which it is not built for: what a fresh GPU machine has."""
    pytest.importorskip("xformers")
    import xformers._cpp_lib

    if xformers._cpp_lib._built_with_cuda:
        pytest.skip("this xformers has its kernels")
    used = []
    monkeypatch.setitem(BACKENDS, "sdpa", lambda q, k, v, **asked: used.append(asked) or v)
    with fake_cuda(built="13.0"):
        q, k, v, _ = inputs(gradient=False)
        attend(q, k, v, causal=True, scale=0.3)
    assert len(used) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
class TestOnCUDA:
    """The same, where xformers, SDPA and FlexAttention compute."""

    @pytest.mark.parametrize("kernel", ["xformers", "sdpa", "eager", None])
    @settings(max_examples=examples_of(150), deadline=None)
    @given(case=cases(dtypes=(torch.float32, torch.bfloat16)))
    def test_equals_eager_forward_and_backward(self, kernel, case):
        wide = 8 * (1 + case.shape[-1] // 8) if kernel == "xformers" else case.shape[-1]
        learned = case.learned and kernel is not None  # what Flex would be chosen for, and compiled for each case
        fitting = Case(**{**case.__dict__, "shape": (*case.shape[:-1], wide), "learned": learned})
        equals_eager_in_float64(fitting, kernel, "cuda")

    @pytest.mark.parametrize("maps", list(MAPS))
    @pytest.mark.parametrize("bias", ["none", "shared", "head", "batch"])
    @pytest.mark.parametrize("length", [64, 130, 300])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_flex_equals_eager_forward_and_backward(self, maps, bias, length, dtype):
        case = Case((2, 2, length, length, 32), maps=maps, bias=bias, learned=bias != "none", dtype=dtype)
        equals_eager_in_float64(case, "flex", "cuda")

    @pytest.mark.parametrize("bias", ["none", "shared", "head"])
    @pytest.mark.parametrize("length", [64, 130, 300])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_what_the_gate_lets_through_equals_eager_and_is_no_eager(self, bias, length, dtype):
        """On a machine whose backends are right the gate keeps none out that the dispatcher has an operator for."""
        from ablate.kernels.gate import AttentionSite, Gate

        case = Case((1, 4, length, length, 64), bias=bias, dtype=dtype)
        qkv, added = case.draw("cuda")
        core = Attend(causal=True, scale=0.125, biases=() if added is None else (lambda q, k, scale: added,))
        site = AttentionSite(core, core.needs(*qkv), 4, length, length, qkv[0].device)
        choice = Gate().choose(site)
        assert choice.name != "eager", choice
        assert " gives wrong numbers here" not in choice.reason, choice
        assert " fails here" not in choice.reason, choice
        assert bool(choice.operator) == (choice.name == "xformers")
