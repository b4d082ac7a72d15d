"""Named blocks of modern.yaml equal their sources, as models of four layers in float64 NumPy: forward and start.

A block that reads other layers, or differs from layer to layer, has no equation of its own; a model of it has.

Dimension key: B batch, T time, D width, H heads, K width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from builders import architecture, node
from paper_equations import Array, concat, gelu, sigmoid, softmax, split
from paper_starts import constant, normal, uniform, xavier_bound, zeros
from reading import transformer

from ablate.block.sizes import Sizes
from ablate.compiler import compile_model

GRAMMAR = transformer()
SIZES = Sizes(n_layers=4, d_model=64, n_heads=4, seq_len=16, vocab_size=70)
RNG = np.random.default_rng(3)
TOKENS = RNG.integers(0, SIZES.vocab_size, size=(2, 16))


def gelu_tanh(x: Array) -> Array:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def relu_squared(x: Array) -> Array:
    return np.maximum(x, 0) ** 2


@dataclass
class Pass:
    """A forward pass: the numbers of the model, the layer at hand, and the streams before all layers so far."""

    w: dict[str, Array]
    layer: int = 1
    before: list[Array] = field(default_factory=list)
    first_values: Array | None = None

    def __getitem__(self, name: str) -> Array:
        return self.w[f"layers.{self.layer}.{name}"]

    def linear(self, x: Array, name: str) -> Array:
        y = x @ self[f"{name}.weight"].T
        bias = f"layers.{self.layer}.{name}.bias"
        return y + self.w[bias] if bias in self.w else y


def rms(x: Array, eps: float = 1e-8) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + eps))


def rope(x: Array, base: float, turned: int) -> Array:
    """Turn neighbouring pairs of the first channels, as complex numbers."""
    angle = np.arange(x.shape[-2])[:, None] * base ** (-2 * np.arange(turned // 2) / turned)
    pairs = (x[..., 0:turned:2] + 1j * x[..., 1:turned:2]) * np.exp(1j * angle)
    y = x.copy()
    y[..., 0:turned:2], y[..., 1:turned:2] = pairs.real, pairs.imag
    return y


def attend(
    p: Pass,
    x: Array,
    value: Array,
    *,
    scale: float | None = None,
    on_pairs: Callable[[Array, str], Array] = lambda x, _: x,
    cap: float | None = None,
    window: int | None = None,
    kv_heads: int = 4,
    gate: Array | None = None,
) -> Array:
    """Concat(A V) W^P, the gate before the projection; each head of keys serves as many queries as there are to one."""
    q, k, v = (
        split(p.linear(x, "attention.query"), 4),
        split(p.linear(x, "attention.key"), kv_heads),
        split(value, kv_heads),
    )
    q, k = on_pairs(q, "query"), on_pairs(k, "key")
    k, v = (np.repeat(each, 4 // kv_heads, axis=1) for each in (k, v))
    scores = (scale or 1 / math.sqrt(q.shape[-1])) * q @ k.swapaxes(-1, -2)
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    t, s = np.indices(scores.shape[-2:])
    seen = (s <= t) & (t - s < (window or 10**6))
    y = concat(softmax(np.where(seen, scores, -np.inf)) @ v)
    return p.linear(y if gate is None else y * gate, "attention.projection")


def own_values(p: Pass, x: Array) -> Array:
    return p.linear(x, "attention.value")


def plain_mlp(p: Pass, x: Array, act: Callable[[Array], Array] = gelu) -> Array:
    return p.linear(act(p.linear(x, "mlp.up")), "mlp.down")


def gated_mlp(p: Pass, x: Array, act: Callable[[Array], Array]) -> Array:
    return p.linear(act(p.linear(x, "mlp.up")) * p.linear(x, "mlp.gate"), "mlp.down")


def normed(p: Pass, x: Array, name: str, eps: float = 1e-8) -> Array:
    return rms(x, eps) * p[f"{name}.scale"]


def pre_rms(p: Pass, x: Array, value: Callable[[Pass, Array], Array] = own_values, **options: Any) -> Array:
    h = normed(p, x, "attention_norm")
    x = x + attend(p, h, value(p, h), **options)
    return x + plain_mlp(p, normed(p, x, "mlp_norm"))


def nanochat(p: Pass, x: Array) -> Array:
    """nanochat/gpt.py at 92d63d4, lines 89 to 152 and 500."""
    x = p["attention_recall.skip.factor"] * x + p["attention_recall.gain.factor"] * p.before[0]
    h = rms(x, 1.19e-7)
    even = p.layer % 2 == 0
    value = p.linear(h, "attention.value.own" if even else "attention.value")
    if even:
        table = p["attention.value.beside.weight"][TOKENS]
        gate = 3 * sigmoid(h[..., :12] @ p["attention.value.beside.gate.weight.weight"].T)
        value = value + table * np.repeat(gate, 16, axis=-1)

    def on_pairs(y: Array, _: str) -> Array:
        return 1.2 * rope(rms(y, 1.19e-7), 100000, 16)

    x = x + attend(p, h, value, on_pairs=on_pairs, window=4 if p.layer < 4 else None)
    return x + plain_mlp(p, rms(x, 1.19e-7), relu_squared)


def modded_nanogpt(p: Pass, x: Array) -> Array:
    """records/track_3_optimization/train_gpt_simple.py at f411b3d, lines 59 to 124."""

    def on_pairs(y: Array, name: str) -> Array:
        return rope(rms(y, 1.19e-7) * p[f"attention.entropy.qk_norm.{name}.scale"], 1024 ** (32 / 31), 8)

    h = normed(p, x, "attention_norm", 1.19e-7)
    x = x + attend(p, h, own_values(p, h), on_pairs=on_pairs, scale=0.12)
    return x + plain_mlp(p, normed(p, x, "mlp_norm", 1.19e-7), relu_squared)


def llama(p: Pass, x: Array) -> Array:
    h = normed(p, x, "attention_norm", 1e-5)
    x = x + attend(p, h, own_values(p, h), kv_heads=1, on_pairs=lambda y, _: rope(y, 500000, 16))
    return x + gated_mlp(p, normed(p, x, "mlp_norm", 1e-5), silu)


def gated_attention(p: Pass, x: Array) -> Array:
    """arXiv:2505.06708, Eq. 5."""
    h = normed(p, x, "attention_norm")
    gate = sigmoid(h @ p["attention.gate.weight.weight"].T)
    x = x + attend(p, h, own_values(p, h), gate=gate)
    return x + plain_mlp(p, normed(p, x, "mlp_norm"))


def gemma_2(p: Pass, x: Array) -> Array:
    """arXiv:2408.00118, Sec. 2: norms on both sides, caps of 50, windows in each odd layer, two queries to a key."""
    h = normed(p, x, "attention_norm", 1e-6)
    y = attend(
        p,
        h,
        own_values(p, h),
        cap=50,
        kv_heads=2,
        window=8 if p.layer % 2 else None,
        on_pairs=lambda y, _: rope(y, 10000, 16),
    )
    x = x + normed(p, y, "attention_post_norm", 1e-6)
    return x + normed(p, gated_mlp(p, normed(p, x, "mlp_norm", 1e-6), gelu_tanh), "mlp_post_norm", 1e-6)


def first_values(p: Pass, h: Array) -> Array:
    """SVFormer: those of layer 1 everywhere."""
    if p.first_values is None:
        p.first_values = p.linear(h, "attention.value")
    return p.first_values


def mean_values(p: Pass, h: Array) -> Array:
    """ResFormer, ½ (V_n + V_1)."""
    if p.first_values is None:
        return first_values(p, h)
    return (p.linear(h, "attention.value.own") + p.first_values) / 2


def denseformer(p: Pass, x: Array) -> Array:
    """arXiv:2402.02622: the average behind a block is read by the next."""
    factors = p["attention_depth_average.factor"]
    return pre_rms(p, sum(factor * each for factor, each in zip(factors, p.before, strict=True)))  # type: ignore[arg-type]


def attention_over_depth(p: Pass, x: Array) -> Array:
    """arXiv:2603.15031, Eq. 2 to 4, over streams in place of outputs."""
    query = p["attention_depth_attention.query"]
    shares = softmax(np.stack([rms(each) @ query for each in p.before], -1))
    return pre_rms(p, sum(shares[..., i, None] * each for i, each in enumerate(p.before)))  # type: ignore[arg-type]


def u_net(p: Pass, x: Array) -> Array:
    """Layer l of the second half adds what entered layer depth + 2 - l, which is what the mirrored layer gave."""
    if p.layer > 3:
        x = x + p["attention_recall.gain.factor"] * p.before[4 + 2 - p.layer - 1]
    return pre_rms(p, x)


def mixture_of_experts(p: Pass, x: Array) -> Array:
    """arXiv:2412.19437, Eq. 12 to 16: four of sixteen by their sigmoids, as shares; one expert for all."""
    h = normed(p, x, "attention_norm")
    x = x + attend(p, h, own_values(p, h))
    h = normed(p, x, "mlp_norm")

    def expert(name: str, y: Array) -> Array:
        return p.linear(gelu(p.linear(y, f"mlp.{name}.up")), f"mlp.{name}.down")

    scores = sigmoid(p.linear(h, "mlp.router"))
    y = expert("shared.0", h)
    for b, t in np.ndindex(*h.shape[:2]):
        best = np.argsort(-scores[b, t])[:4]
        for e in best:
            y[b, t] += scores[b, t, e] / scores[b, t, best].sum() * expert(f"experts.{e}", h[b, t])
    return x + y


BLOCKS: dict[str, Callable[[Pass, Array], Array]] = {
    "nanochat": nanochat,
    "modded_nanogpt": modded_nanogpt,
    "llama": llama,
    "gated_attention": gated_attention,
    "gemma_2": gemma_2,
    "value_residual": lambda p, x: pre_rms(p, x, mean_values),
    "shared_first_values": lambda p, x: pre_rms(p, x, first_values),
    "denseformer": denseformer,
    "attention_over_depth": attention_over_depth,
    "u_net": u_net,
    "mixture_of_experts": mixture_of_experts,
    "keys_as_values": lambda p, x: pre_rms(p, x, lambda p, h: p.linear(h, "attention.key")),
}


def model_of(name: str, *, moved: bool) -> torch.nn.Module:
    """The model in float64; if `moved`, none of its parameters is at a value that hides it."""
    whole = architecture(GRAMMAR.block(name), sizes=SIZES, init=node("normal", std=0.2))
    model = compile_model(whole, GRAMMAR.catalogue, seed=1, dtype=torch.float64)
    if moved:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.from_numpy(RNG.normal(size=parameter.shape))
    return model


def written(name: str, w: dict[str, Array]) -> Array:
    """The logits by the equations above."""
    x = 50.0 * w["embedding.weight"][TOKENS]
    p = Pass(w)
    for p.layer in range(1, 5):
        p.before.append(x)
        x = BLOCKS[name](p, x)
    return np.asarray(x @ w["head.weight"].T)


def numbers_of(model: torch.nn.Module) -> dict[str, Array]:
    return {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}


@pytest.mark.fast
@pytest.mark.parametrize("name", BLOCKS)
def test_a_model_is_what_its_source_says(name):
    model = model_of(name, moved=True)
    logits = model(torch.from_numpy(TOKENS)).detach().numpy()
    np.testing.assert_allclose(logits, written(name, numbers_of(model)), rtol=1e-8, atol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize("name", BLOCKS)
def test_a_small_change_of_any_number_is_seen(name):
    """One column of a parameter of the last layer, by a hundredth: every parameter counts."""
    numbers = numbers_of(model_of(name, moved=True))
    whole = written(name, numbers)
    for address, value in numbers.items():
        if not address.startswith("layers.4.") or address.endswith("attention.key.bias") or ".experts." in address:
            continue
        changed = np.array(value)
        (changed[..., :1] if changed.ndim else changed)[...] += 1e-2  # not every row of a table or a router is used
        other = written(name, numbers | {address: changed})
        assert np.abs(other - whole).max() > 1e-8 * np.abs(whole).max(), address


@pytest.mark.full
def test_no_block_is_what_is_written_of_another():
    """So the comparison can fail: of all that is written, a model is one."""
    for name in BLOCKS:
        model = model_of(name, moved=True)
        logits, numbers = model(torch.from_numpy(TOKENS)).detach().numpy(), numbers_of(model)
        alike = set()
        for other in BLOCKS:
            try:
                alike |= {other} if np.allclose(written(other, numbers), logits, rtol=1e-8, atol=1e-8) else set()
            except (KeyError, ValueError):  # it has other parameters
                continue
        assert alike == {name}


@pytest.mark.fast
def test_nanochat_starts_as_its_code_does():
    numbers = numbers_of(model_of("nanochat", moved=False))
    bound = math.sqrt(3 / 64)
    for layer in range(1, 5):
        at = f"layers.{layer}."
        own = "attention.value.own.weight" if layer % 2 == 0 else "attention.value.weight"
        starts = {
            **dict.fromkeys(("attention.query.weight", "attention.key.weight", own), uniform(bound)),
            **dict.fromkeys(("attention.projection.weight", "mlp.down.weight"), zeros()),
            "mlp.up.weight": uniform(0.4 * bound),
            "attention_recall.skip.factor": constant(1.15 - 0.1 * (layer - 1) / 3),
            "attention_recall.gain.factor": constant(0.2 - 0.15 * (layer - 1) / 3),
        }
        if layer % 2 == 0:
            starts["attention.value.beside.weight"] = normal(1 / 8)
            starts["attention.value.beside.gate.weight.weight"] = zeros()
        for name, start in starts.items():
            value = numbers[at + name]
            assert start.holds(value) and not start.holds(1.1 * value + 1e-3), (name, start.says)
        assert {n for n in numbers if n.startswith(at)} == {at + name for name in starts}


@pytest.mark.fast
def test_modded_nanogpt_starts_as_its_code_does():
    numbers = numbers_of(model_of("modded_nanogpt", moved=False))
    for name in ("attention.query", "attention.key", "attention.value", "mlp.up"):
        assert normal(math.sqrt(0.33 / 64)).holds(numbers[f"layers.2.{name}.weight"])
        assert not numbers[f"layers.2.{name}.bias"].any()
    for name in ("attention.projection", "mlp.down"):
        assert zeros().holds(numbers[f"layers.2.{name}.weight"])
    assert xavier_bound(64, 64) == pytest.approx(math.sqrt(3 / 64))
