"""Every component equals its equation, computed here in float64 by NumPy, without a line of ours."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, default_init, gain, node, residual, sequence

from ablate.block.expression import Size
from ablate.compiler import compile_block

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 12, 16)) * 3 + 1

pytestmark = pytest.mark.fast


def run(*parts, x=X, sizes=SIZES, **options):
    """The block's output on `x` and its parameters, as arrays."""
    block = sequence(*parts)
    model = compile_block(block, sizes, CATALOGUE, init=default_init(), dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in model.parameters():  # no parameter at a value that hides it, such as a gain of 1
            parameter += 0.1 * torch.from_numpy(RNG.normal(size=parameter.shape))
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    return model(torch.from_numpy(x)).detach().numpy(), weights


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def rms(x, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def standardise(x, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def heads(x):
    return x.reshape(2, 12, 2, 8).transpose(0, 2, 1, 3)


def attend(q, k, v, logit_map=lambda s: s, scale=1 / math.sqrt(8)):
    """Causal attention over heads of width 8, concatenated."""
    scores = logit_map(scale * q @ k.transpose(0, 1, 3, 2))
    scores = np.where(np.tri(12, dtype=bool), scores, -np.inf)
    return (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(2, 12, 16)


def rotate(x, base):
    """Turn each pair of channels as a complex number; float64 all the way."""
    angle = np.arange(12)[:, None] * base ** (-2 * np.arange(4) / 8)
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack((turned.real, turned.imag), -1).reshape(x.shape)


@pytest.mark.parametrize("eps", [0.0, 1e-8, 0.5])
def test_norms(eps):
    y, w = run(node("layer_norm", eps=eps, scale=True, bias=True))
    close(y, standardise(X, eps) * w["norm.scale"] + w["norm.bias"])
    y, w = run(node("rms_norm", eps=eps, scale=True))
    close(y, rms(X, eps) * w["norm.scale"])
    y, w = run(node("rms_norm", eps=eps, outside=True, scale=True))
    close(y, X / (np.sqrt((X**2).mean(-1, keepdims=True)) + eps) * w["norm.scale"])
    y, w = run(node("simple_rms_norm", eps=eps))
    close(y, rms(X, eps))
    assert not w


def test_eps_is_inside_the_root():
    y, _ = run(node("simple_rms_norm", eps=0.5), x=0.1 * X)
    outside = 0.1 * X / (np.sqrt((0.01 * X**2).mean(-1, keepdims=True)) + 0.5)
    assert np.abs(y - outside).max() > 0.01


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", lambda x: np.where(x > 0, x, 0)),
        (node("leaky_relu", slope=0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
        ("relu_squared", lambda x: np.where(x > 0, x * x, 0)),
        (node("elu", alpha=0.7), lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1))),
        ("gelu", lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
        ("gelu_tanh", lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("silu", lambda x: x / (1 + np.exp(-x))),
    ],
    ids=["relu", "leaky_relu", "relu_squared", "elu", "gelu", "gelu_tanh", "silu"],
)
def test_mlp_gated_or_not_with_every_activation(activation, function):
    biased = node("dense", bias=True)
    common = {"activation": activation, "input_scale": "1/sqrt(2)", "hidden": Size(units=24), "up": biased}
    y, w = run(node("mlp", down=biased, **common))
    h = function((X @ w["mlp.up.weight"].T + w["mlp.up.bias"]) / math.sqrt(2))
    close(y, h @ w["mlp.down.weight"].T + w["mlp.down.bias"])
    assert "mlp.gate.weight" not in w

    y, w = run(node("mlp", gate="dense", **common))
    h = function((X @ w["mlp.up.weight"].T + w["mlp.up.bias"]) / math.sqrt(2)) * (X @ w["mlp.gate.weight"].T)
    close(y, h @ w["mlp.down.weight"].T)


def test_attention_with_norms_before_it():
    y, w = run(node("attention", pre_qk=node("rms_norm", eps=0.1), pre_v=node("layer_norm", eps=0.1, bias=True)))
    to_match = rms(X, 0.1) * w["attention.pre_qk.scale"]
    to_carry = standardise(X, 0.1) * w["attention.pre_v.scale"] + w["attention.pre_v.bias"]
    q, k = (heads(to_match @ w[f"attention.{name}.weight"].T) for name in ("query", "key"))
    v = heads(to_carry @ w["attention.value.weight"].T)
    close(y, attend(q, k, v) @ w["attention.projection.weight"].T)


def test_attention_over_everything_and_its_scale():
    y, w = run(node("attention", scale="1/head_width"), sizes=replace(SIZES, causal=False))
    q, k, v = (heads(X @ w[f"attention.{name}.weight"].T) for name in ("query", "key", "value"))
    mixed = softmax(q @ k.transpose(0, 1, 3, 2) / 8) @ v
    close(y, mixed.transpose(0, 2, 1, 3).reshape(X.shape) @ w["attention.projection.weight"].T)


SOFTCAP, CLAMP = node("softcap", cap=5.0), node("clamp", bound=4.0)


@pytest.mark.parametrize(
    ("entropy", "logit_map"),
    [
        ((SOFTCAP,), lambda s: 5 * np.tanh(s / 5)),
        ((CLAMP,), lambda s: np.clip(s, -4, 4)),
        ((SOFTCAP, CLAMP), lambda s: np.clip(5 * np.tanh(s / 5), -4, 4)),
        ((CLAMP, SOFTCAP), lambda s: 5 * np.tanh(np.clip(s, -4, 4) / 5)),
    ],
    ids=["softcap", "clamp", "softcap_clamp", "clamp_softcap"],
)
def test_logit_maps_act_in_the_order_listed(entropy, logit_map):
    y, w = run(node("attention", entropy=entropy))
    q, k, v = (heads(X @ w[f"attention.{name}.weight"].T) for name in ("query", "key", "value"))
    close(y, attend(q, k, v, logit_map) @ w["attention.projection.weight"].T)
    assert np.abs(y - attend(q, k, v) @ w["attention.projection.weight"].T).max() > 1e-2


def test_rope_turns_neighbouring_pairs():
    y, w = run(node("attention", position=node("rope", base=50.0)))
    q, k, v = (heads(X @ w[f"attention.{name}.weight"].T) for name in ("query", "key", "value"))
    close(y, attend(rotate(q, 50.0), rotate(k, 50.0), v) @ w["attention.projection.weight"].T)


def test_qk_norm_acts_before_rope_with_one_gain_for_all_heads():
    regulation = node("qk_norm", norm=node("rms_norm", eps=0.01))
    y, w = run(node("attention", position=node("rope", base=50.0), entropy=(regulation, SOFTCAP)))
    q, k, v = (heads(X @ w[f"attention.{name}.weight"].T) for name in ("query", "key", "value"))
    q_gain, k_gain = (w[f"attention.entropy.qk_norm.{name}.scale"] for name in ("query", "key"))
    assert q_gain.shape == k_gain.shape == (8,)
    q, k = rotate(rms(q, 0.01) * q_gain, 50.0), rotate(rms(k, 0.01) * k_gain, 50.0)
    close(y, attend(q, k, v, lambda s: 5 * np.tanh(s / 5)) @ w["attention.projection.weight"].T)
    swapped = rms(rotate(q, 50.0), 0.01) * q_gain  # the other order is another function once the gain is not constant
    assert np.abs(swapped - q).max() > 1e-2


@pytest.mark.parametrize("per", ["scalar", "channel"])
def test_gains_of_a_residual(per):
    skip, branch = gain("1/sqrt(depth)", trainable=True, per=per), gain("layer", trainable=True, per=per)
    y, w = run(residual(node("simple_rms_norm", eps=0.1), skip=skip, gain=branch), layer=2)
    start = w["residual.skip.factor"], w["residual.gain.factor"]
    assert start[0].shape == start[1].shape == (() if per == "scalar" else (16,))
    close(y, start[0] * X + start[1] * rms(X, 0.1))
    y, w = run(residual(node("simple_rms_norm", eps=0.1), skip="1/sqrt(depth)", gain="layer"), layer=2)
    close(y, X / math.sqrt(2) + 2 * rms(X, 0.1))
    assert not w


def test_parallel_sums_its_branches():
    branches = [[node("simple_rms_norm", eps=0.1)], [residual("simple_rms_norm", skip=2)], []]
    y, _ = run(node("parallel", skip=0.5, gain=3, branches=branches))
    close(y, 0.5 * X + 3 * (rms(X, 0.1) + (2 * X + rms(X, 1e-5)) + X))


def test_a_fixed_skip_of_zero_is_no_skip():
    x = X.copy()
    x[0, 0, 0] = np.inf
    np.testing.assert_array_equal(run(residual(skip=0), x=x)[0], x)
    with np.errstate(invalid="ignore"):
        assert np.isnan(0 * x + x).any()  # which a skip multiplied by 0 would give
