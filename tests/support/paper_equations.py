"""Equations that the papers share, in float64 NumPy: norms, activations, attention, MLP. Nothing here is ours.

Written from arXiv:2302.10322 (ESPA), 2311.01906 (SIMPLIFY), 2405.19279 (OUTLIER) and 2403.09635 (DSLM). Weights are
[out, in] and stand at the addresses of the compiled block; what differs from paper to paper is in the tests.

Dimension key: B batch, T time, D width, H heads, K width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Array: TypeAlias = NDArray[np.float64]
Activation: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a block stands: layer `layer` of `depth`, in a model of that width, so many heads and tokens."""

    layer: int
    depth: int
    width: int
    heads: int
    vocabulary: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class Weights(Mapping[str, Array]):
    """The numbers of a compiled block by address, and which of them an equation has used."""

    def __init__(self, numbers: Mapping[str, Array]):
        self.numbers = numbers
        self.used: set[str] = set()

    def __getitem__(self, address: str) -> Array:
        self.used.add(address)
        return self.numbers[address]

    def __contains__(self, address: object) -> bool:
        return address in self.numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)


Norm: TypeAlias = Callable[[Array, Weights, str], Array]


def rms_norm(x: Array, p: Weights, name: str) -> Array:
    """SIMPLIFY, App. D.1: epsilon 1e-8, inside the root."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-8) * p[f"{name}.scale"]


def rms_norm_as_released(x: Array, p: Weights, name: str) -> Array:
    """Of the code released with SIMPLIFY: epsilon 1e-5, added to the root."""
    return x / (np.linalg.norm(x, axis=-1, keepdims=True) / math.sqrt(x.shape[-1]) + 1e-5) * p[f"{name}.scale"]


def layer_norm(x: Array, p: Weights, name: str, eps: float = 1e-5) -> Array:
    """With gain and shift."""
    standard = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return standard * p[f"{name}.scale"] + p[f"{name}.bias"]


def layer_norm_of_cramming(x: Array, p: Weights, name: str) -> Array:
    """SIMPLIFY, App. D.2: epsilon 1e-12."""
    return layer_norm(x, p, name, eps=1e-12)


def no_norm(x: Array, p: Weights, name: str) -> Array:
    return x


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / math.sqrt(2))) / 2


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def linear(x: Array, p: Weights, name: str) -> Array:
    """x Wᵀ, and a bias where the block has one."""
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def split(x: Array, heads: int) -> Array:
    """[B, T, D] -> [B, H, T, K]: a head is a block of neighbouring columns."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def concat(x: Array) -> Array:
    """[B, H, T, K] -> [B, T, D]."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def causal_softmax(scores: Array) -> Array:
    """Over the past alone."""
    times = scores.shape[-1]
    return softmax(np.where(np.tril(np.ones((times, times), bool)), scores, -np.inf))


def unchanged(x: Array, *_: object) -> Array:
    return x


def attention_matrix(
    x: Array,
    p: Weights,
    at: Place,
    *,
    scale: float | None = None,
    qk: Callable[[Array, Weights, str], Array] = unchanged,
    scores: Callable[[Array], Array] = unchanged,
    causal: bool = True,
) -> Array:
    """A [B, H, T, T] = softmax(scores(q kᵀ/√d_k) + M); `qk` acts on queries and on keys, within a head."""
    q, k = (
        qk(split(linear(x, p, f"attention.{name}"), at.heads), p, f"attention.entropy.qk_norm.{name}")
        for name in ("query", "key")
    )
    logits = scores((1 / math.sqrt(at.head_width) if scale is None else scale) * q @ k.swapaxes(-1, -2))
    return causal_softmax(logits) if causal else softmax(logits)


def attention(x: Array, p: Weights, at: Place, **options: object) -> Array:
    """Concat(A V) W^P, as Vaswani et al. 2017, Eq. 1."""
    a = attention_matrix(x, p, at, **options)  # type: ignore[arg-type]
    return linear(concat(a @ split(linear(x, p, "attention.value"), at.heads)), p, "attention.projection")


def mlp(x: Array, p: Weights, act: Activation, *, scale: float = 1.0, name: str = "mlp") -> Array:
    """act(α x W_up) W_down."""
    return linear(act(scale * linear(x, p, f"{name}.up")), p, f"{name}.down")


def glu(x: Array, p: Weights, act: Activation) -> Array:
    """(act(x W_up) ⊙ x W_gate) W_down: Shazeer 2020, arXiv:2002.05202, Eq. 6."""
    return linear(act(linear(x, p, "mlp.up")) * linear(x, p, "mlp.gate"), p, "mlp.down")
