"""Value-SkipInit and shaped attention against their equations in NumPy, inside attention as it is compiled."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, gain, node, sequence
from matrix_fixtures import ZERO, X, close, compiled, joined, parts, run, softmax

from ablate.block.normal_form import normalise
from ablate.compiler import size_report
from ablate.kernels import Attend
from ablate.plan.size import cost

ALIBI = -np.array([2.0**-4, 2.0**-8])[:, None, None] * np.abs(np.subtract.outer(np.arange(12), np.arange(12)))


@pytest.mark.fast
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bias", [None, "alibi"])
@pytest.mark.parametrize("per", ["scalar", "head"])
def test_value_skipinit_and_shaped_attention_with_trained_gains(causal, bias, per):
    gains = {name: gain(0.5, trainable=True, per=per) for name in ("skip", "gain", "centre")}
    sizes, added = replace(SIZES, causal=causal), ALIBI if bias else np.zeros((2, 12, 12))
    for name, held in (("shaped", gains), ("value_skipinit", {n: gains[n] for n in ("skip", "gain")})):
        matrix = node(name, **held)
        model, w = compiled(node("attention", matrix=matrix, bias=bias), sizes=sizes, disturbed="factor")
        alpha, beta, gamma = (w.get(f"attention.matrix.{n}.factor", np.zeros(())) for n in ("skip", "gain", "centre"))
        assert alpha.shape == beta.shape == (() if per == "scalar" else (2, 1, 1))
        q, k, v = parts(w)
        a = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8) + added, causal)
        c = softmax(np.zeros_like(a) + added, causal)
        close(run(model), joined((alpha * np.eye(12) + beta * a - gamma * c) @ v, w))


@pytest.mark.fast
def test_the_gains_of_two_heads_are_not_exchanged():
    matrix = node("shaped", **{n: gain(1, trainable=True, per="head") for n in ("skip", "gain", "centre")})
    model, w = compiled(node("attention", matrix=matrix), disturbed="skip.factor")
    q, k, v = parts(w)
    a, c = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(8), True), np.tri(12) / np.arange(1, 13)[:, None]
    alpha = w["attention.matrix.skip.factor"]
    close(run(model), joined((alpha * np.eye(12) + a - c) @ v, w))
    assert np.abs(run(model) - joined((alpha[::-1] * np.eye(12) + a - c) @ v, w)).max() > 0.01


@pytest.mark.fast
@pytest.mark.parametrize("bias", [None, "alibi"])
@pytest.mark.parametrize("causal", [True, False])
def test_shaped_attention_starts_as_the_identity_where_queries_start_at_zero(bias, causal):
    ones = node("shaped", skip=1, gain=1, centre=1)
    attention = node("attention", query=ZERO, matrix=ones, bias=bias)
    model, w = compiled(attention, sizes=replace(SIZES, causal=causal))
    v = parts(w)[2]
    close(run(model), joined(v, w), 1e-14)
    off = node("attention", query=ZERO, matrix=node("shaped", skip=1, gain=1, centre=0.9), bias=bias)
    assert np.abs(run(compiled(off, sizes=replace(SIZES, causal=causal))[0]) - joined(v, w)).max() > 1e-3


@pytest.mark.fast
@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 1e-6), (torch.bfloat16, 0.02)])
def test_in_lower_precision_it_is_the_identity_up_to_rounding(dtype, rounding):
    core = Attend(causal=True, scale=0.3)
    v, k = (torch.randn(2, 2, 256, 16, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in (0, 1))
    q = torch.zeros_like(k)
    off = (core(q, k, v) - core.uniform(q, k, v)).abs().max().item()
    assert 0 < off < rounding * v.abs().max().item()


@pytest.mark.fast
def test_what_is_fixed_at_zero_is_not_computed():
    x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pair = 4 * SIZES.seq_len**2 * SIZES.d_model
    flops = {}
    for fields in [(1, 0), (0, 1), (1, 1)]:
        matrix = node("value_skipinit", **dict(zip(("skip", "gain"), fields, strict=True)))
        flops[fields] = cost(architecture(sequence(node("attention", matrix=matrix))), CATALOGUE).flops
        assert flops[fields] == size_report(architecture(sequence(node("attention", matrix=matrix))), CATALOGUE).flops
    assert flops[1, 0] == flops[1, 1] - 2 * pair == flops[0, 1] - 2 * pair  # two layers
    calls = []
    for matrix in (node("value_skipinit", skip=1, gain=0), node("shaped", skip=1, gain=0, centre=0)):
        model, _ = compiled(node("attention", matrix=matrix))
        model.attention.attend.register_forward_hook(lambda *_: calls.append("attend"))
        model(x)
    assert not calls
    for matrix in (node("value_skipinit", skip=0, gain=0), node("shaped", skip=0, gain=0, centre=0)):
        assert not compiled(node("attention", matrix=matrix))[0](x).any()


@pytest.mark.parametrize("bias", [None, "alibi", "t5", "transformer_xl"])
@pytest.mark.parametrize("fields", [(1, 1, 1), (1, 0, 1), (0, 1, 0), (1, 0, 0)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_products_of_shaped_attention_are_counted_with_every_bias(bias, fields, causal):
    matrix = node("shaped", **dict(zip(("skip", "gain", "centre"), fields, strict=True)))
    block = sequence(node("attention", matrix=matrix, bias=bias))
    model = architecture(block, sizes=replace(SIZES, causal=causal))
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


@pytest.mark.fast
@pytest.mark.parametrize("matrix", [node("shaped", skip=0, gain=1, centre=0), node("value_skipinit", skip=0, gain=1)])
def test_with_gains_that_leave_attention_alone_it_is_softmax_attention_to_the_bit(matrix):
    block = sequence(node("attention", matrix=matrix))
    assert normalise(block, CATALOGUE) == normalise(sequence(node("attention")), CATALOGUE)
    x = torch.from_numpy(X).float()
    as_written, plain = (compiled(p, dtype=torch.float32)[0] for p in (block.parts[0], node("attention")))
    assert torch.equal(as_written(x), plain(x))
    trained = node("attention", matrix=node("shaped", skip=0, gain=gain(1, trainable=True), centre=0))
    assert normalise(sequence(trained), CATALOGUE) != normalise(sequence(node("attention")), CATALOGUE)
