"""Every named block that is forecast, against starts that are drawn: the compiled modules in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from builders import node
from reading import DEPTHS, decoders, read_block, transformer

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.compiler import compile_block
from ablate.errors import InputError
from ablate.signal.propagation import Signal
from ablate.theory import through_layers as room
from ablate.theory.blocks import through_block
from ablate.theory.initial_state import mean_cosine
from ablate.theory.through_layers import through_layers

CATALOGUE = transformer().catalogue
LENGTH, WIDTH, SEQUENCES, LAYERS, STARTS = 24, 256, 2, 4, 4
KERNEL = 0.8 * np.exp(-0.15 * np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)))) + 0.2
GRADIENT = 0.9 * np.eye(LENGTH) + 0.1
INIT = node("normal", std="1/sqrt(width)")

IN_A_MODEL = {
    "admin",
    "nanochat",
    "value_residual",
    "shared_first_values",
    "denseformer",
    "attention_over_depth",
    "u_net",
}
"""Named blocks that read other layers, or start from a profiling pass: test_theory_elsewhere.py."""
NOT_THE_SAME = {"ds_init", "gemma_2", "keys_as_values"}
"""Those that have patterns over layers, name the layer in arithmetic or read a value of their own."""
FORECAST = [name for name in decoders() if name not in IN_A_MODEL]


@dataclass
class Start:
    """The kernel behind the last layer, and that of the gradient in front of the first."""

    kernel: np.ndarray
    gradient: np.ndarray


def sizes_of(name):
    layers = DEPTHS.get(name, LAYERS)
    return Sizes(n_layers=layers, d_model=WIDTH, n_heads=4, seq_len=LENGTH, vocab_size=256, repetition=0.02)


def block_of(name):
    named = transformer().blocks.get(name)
    return load_block(name) if named is None else named.block


def forecast_of(name, sizes):
    x, back = Signal.root(KERNEL), []
    for layer in range(1, sizes.n_layers + 1):
        start = Signal.root(x.kernel, x.mean)
        x = through_block(block_of(name), start, sizes.at(layer), INIT, CATALOGUE)
        back.append(x.backward)
    gradient = GRADIENT
    for each in reversed(back):
        gradient = each(gradient)
    return Start(x.kernel, gradient)


def through_all(block, sizes):
    """The kernels behind the layers of a model, and the sizes and cosines of gradients in front of them."""
    through = through_layers(block, Signal.root(KERNEL), sizes, INIT, CATALOGUE, None)
    gradients = through.backward(GRADIENT)
    return *through.kernels, np.array(gradients.mean_squares), np.array(gradients.cosines)


def made_once(monkeypatch):
    """Which blocks are made into signals once for all layers, as they come."""
    seen, made = [], room.in_all_layers
    monkeypatch.setattr(room, "in_all_layers", lambda block, *given: seen.append(block) or made(block, *given))
    return seen


OWN_SIZES = """
- residual:
    - first_layer: [layer_norm]
    - attention: {heads: 2, query: {dense: {init: deep_scale}}, bias: [t5]}
"""
"""A block whose attention has heads of its own, and whose inits, biases and combinator know their layer."""


@pytest.mark.parametrize("name", [*FORECAST, OWN_SIZES])
def test_a_block_made_once_for_all_layers_is_that_made_in_each(name, monkeypatch):
    block = read_block(name) if name == OWN_SIZES else block_of(name)
    sizes, seen = sizes_of(name), made_once(monkeypatch)
    once = through_all(block, sizes)
    assert len(seen) == (name not in NOT_THE_SAME)
    monkeypatch.setattr(room._BlockInLayers, "_made", None)
    for first, again in zip(once, through_all(block, sizes), strict=True):
        np.testing.assert_array_equal(first, again)


def test_what_a_component_is_told_of_its_layer_counts(monkeypatch):
    sizes = sizes_of("e_spa")
    once = through_all(block_of("e_spa"), sizes)
    monkeypatch.setattr(room, "in_all_layers", lambda *given: lambda x, layer: given_in(given, x, 1))
    assert not np.allclose(once[2], through_all(block_of("e_spa"), sizes)[2], rtol=1e-3)


def given_in(given, x, layer):
    block, sizes, init, catalogue, elsewhere = given
    return through_block(block, x, sizes.at(layer), init, catalogue, elsewhere)


def drawn(name, sizes, seed=0):
    block = block_of(name)
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    shape = (SEQUENCES, LENGTH, WIDTH)
    x = torch.tensor(np.linalg.cholesky(KERNEL) @ random.normal(size=shape), requires_grad=True)
    y = x
    for layer in range(1, sizes.n_layers + 1):
        y = compile_block(block, sizes, CATALOGUE, layer=layer, init=INIT, seed=seed, dtype=torch.float64).train()(y)
    (g,) = torch.autograd.grad(y, x, torch.tensor(np.linalg.cholesky(GRADIENT) @ random.normal(size=shape)))
    return Start(mean_kernel(y.detach().numpy()), mean_kernel(g.numpy()))


def mean_kernel(x):
    return np.einsum("btd,bsd->ts", x, x) / SEQUENCES / WIDTH


def agrees(forecast, found, within):
    """A forecast is within a share of the mean of several starts, and three standard errors of it."""
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    return abs(forecast - np.mean(found)) < within * np.mean(found) + 3 * error


PARTS = {
    "alibi": "attention: {bias: alibi}",
    "a window": "attention: {mask: {window: 6}}",
    "two masks": "attention: {mask: [causal, {window: 9}]}",
    "dropout": "attention: {dropout: 0.3}, dropout: 0.2",
    "rotary positions of half the channels": "attention: {position: {rope: {share: 0.5}}}",
    "one head of keys": "attention: {kv_heads: 1}",
    "scores divided by the norms of their weights": "attention: {entropy: sigma_reparam}",
    "orthogonal weights divided by theirs": """attention: {entropy: sigma_reparam,
        query: &q {dense: {init: {orthogonal: 2}}}, key: *q}""",
    "values divided by the norm of their weight": "attention: {value: spectral}",
    "clipped queries and keys": "attention: {entropy: {qk_clip: 100}}",
    "scores that are capped": "attention: {entropy: {softcap: 1}}",
    "scores that are clamped": "attention: {entropy: {clamp: 1}}",
    "a gate": "attention: {gate: sigmoid_gate}",
    "a gate of heads that starts open": "attention: {gate: {sigmoid_gate: {per: head, factor: 2, inputs: 1/4x}}}",
    "a sink": "attention: {sink: {learned_sink: -1}}",
    "a sink, a bias and a window": "attention: {sink: learned_sink, bias: alibi, mask: {window: 12}, dropout: 0.2}",
    "biases that are random": "attention: {bias: {t5: {init: {normal: 1}}}}",
    "biases that start at 0": "attention: {bias: {t5: {init: zero}}}",
    "relative positions": "attention: {bias: {transformer_xl: {start: {normal: 1}}}}",
    "relative positions, a sink and dropout": """attention: {bias: {transformer_xl: {start: {normal: 1}}},
        sink: learned_sink, dropout: 0.2}""",
    "shaped attention with relative positions": """attention: {matrix: {shaped: {skip: 1, gain: 1, centre: 1}},
        bias: {transformer_xl: {start: {normal: 1}}}}""",
    "scores that are nearly one-hot": "attention: {query: &q {dense: {init: {normal: 3/sqrt(width)}}}, key: *q}",
    "values that are the keys": "attention: {value: {from: attention.key}}",
    "a projection that undoes the values": """attention: {value: {dense: {init: orthogonal}},
        projection: {dense: {init: {inverse: value}}}}""",
    "norms within heads and behind them": "attention: {entropy: {qk_norm: rms_norm}, output_norm: rms_norm}",
}
"""Attention in ways that are in few of the named blocks, or in none."""


@pytest.mark.parametrize("attention", list(PARTS))
def test_a_part(attention):
    check(f"[residual: [rms_norm, {PARTS[attention]}], residual: [rms_norm, mlp: {{activation: tanh, hidden: 2x}}]]")


@pytest.mark.sampled(6, gate=30)
@pytest.mark.parametrize("name", FORECAST)
def test_a_named_block(name):
    """Behind several layers: sizes within 10 %, gradients within 15 %, but for the spread of starts; cosines."""
    check(name)


def check(name):
    sizes = sizes_of(name)
    forecast, starts = forecast_of(name, sizes), [drawn(name, sizes, seed) for seed in range(STARTS)]
    assert agrees(np.trace(forecast.kernel), [np.trace(start.kernel) for start in starts], 0.1)
    assert agrees(np.trace(forecast.gradient), [np.trace(start.gradient) for start in starts], 0.15)
    kernel, gradient = (np.mean([getattr(start, of) for start in starts], 0) for of in ("kernel", "gradient"))
    assert mean_cosine(forecast.kernel) == pytest.approx(mean_cosine(kernel), abs=0.05)
    assert mean_cosine(forecast.gradient) == pytest.approx(mean_cosine(gradient), abs=0.06)


PATHS = {
    "experts whose gains sum to 1": "moe: {experts: 4, active: 2, shared: 0, hidden: 1x, normalised: true}",
    "gated experts, of which one is taken": "moe: {experts: 8, active: 1, shared: 1, hidden: 1x, gate: dense}",
    "a narrow branch that is concatenated": "concatenation: {width: 1/4x, branch: [mlp: {activation: tanh}]}",
    "a down that undoes up": """mlp: {hidden: 1x, activation: tanh, up: {dense: {init: orthogonal}},
        down: {dense: {init: {inverse: up}}}}""",
}


@pytest.mark.parametrize("path", list(PATHS))
def test_a_branch(path):
    check(f"[residual: [rms_norm, {PATHS[path]}]]")


REFUSED = {
    "both start as its input": ("[attention: {query: identity, key: identity}]", "a weight with a random init"),
    "what is taken off is random": (
        "[attention: {bias: transformer_xl, matrix: {shaped: {skip: 1, gain: 0, centre: 1}}}]",
        "query: zero",
    ),
    "it starts orthogonal": (
        "[attention: {value: {dense: {init: xavier}}, "
        "projection: {dense: {init: {inverse: {of: value, init: xavier}}}}}]",
        "orthogonal",
    ),
    "query that starts as the inverse": ("[attention: {query: {dense: {init: {inverse: key}}}}]", "inverts value"),
    "not of independent random weights": (
        "[moe: {up: identity, hidden: 1x, down: identity, activation: tanh}]",
        "dense",
    ),
    "inside of a branch": ("[residual: [recall: layers.first.in, rms_norm, mlp]]", "in front of the branch"),
    "only to where fresh random weights are": ("[attention, recall: attention]", "give the weight behind it a random"),
    "before the layers": ("[recall: embedding, attention]", "read a stream"),
    "in layer 2": ("[recall: layers.2.in, attention]", "read a stream"),
}
"""What is said of blocks that are not forecast, and the way out."""


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused_says_why_and_what_to_do(reason):
    block, way_out = REFUSED[reason]
    with pytest.raises(InputError, match=rf"(?s){reason}.*\n  = .*{way_out}"):
        forecast_of(block, sizes_of(block))


def test_another_block_is_told_apart():
    """The twin: starts of a block without norms are not within reach of the forecast of one with them."""
    sizes = sizes_of("pre_ln")
    forecast, starts = forecast_of("pre_ln", sizes), [drawn("op", sizes, seed) for seed in range(STARTS)]
    assert not agrees(np.trace(forecast.kernel), [np.trace(start.kernel) for start in starts], 0.1)
