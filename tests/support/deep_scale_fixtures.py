"""Deep stacks of layers by DeepScaleLM and by Xavier's rule, and what their signals and gradients come to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from builders import CATALOGUE, node, residual, sequence
from moment_recursion import Stack, backward, forward

from ablate.block.expression import Block, Node, Size
from ablate.block.sizes import Sizes
from ablate.compiler import compile_block
from ablate.signal.moments import Moments, layer_correlations

P, R0 = 0.1, 0.221
SKIP, GAIN = "sqrt(1-2/depth)", "sqrt(2/depth)"


def dense(std: Node | str) -> Node:
    return node("dense", init=std if isinstance(std, Node) else node("normal", std=std))


def layer(attention: Node, mlp: Node, *, post: bool, skip: str = "1", gain: str = "1", p: float = P) -> Block:
    """Attention and MLP in residuals, each with dropout at its end."""
    norm, drop = "layer_norm", node("dropout", p=p)
    around = {"skip": skip, "gain": gain}
    if post:
        return sequence(residual(attention, drop, **around), norm, residual(mlp, drop, **around), norm)
    return sequence(residual(norm, attention, drop, **around), residual(norm, mlp, drop, **around))


def parts(query: Node, value: Node, projection: Node, mlp: Node, p: float = P) -> tuple[Node, Node]:
    return (
        node("attention", query=query, key=query, value=value, projection=projection, dropout=p),
        node("mlp", activation="relu", hidden=Size(multiple=4.0), up=mlp, down=mlp),
    )


def dslm(*, post: bool = False, simple: bool = False, p: float = P, correlation: float | str = R0) -> Block:
    """DeepScaleLM with λ² = 1 - 2/N, β² = 2/N; `simple`: values and projection are scaled as the MLP is."""
    init = node("deep_scale", correlation=correlation, dropout=p, skip=SKIP, gain=GAIN)
    mlp = dense(f"sqrt(sqrt((1-{p})/2)/width)")
    value = mlp if simple else dense(init)
    return layer(*parts(dense("1/sqrt(width)"), value, value, mlp, p), post=post, skip=SKIP, gain=GAIN, p=p)


def xavier(*, post: bool = False) -> Block:
    """Glorot & Bengio's fan average for each weight; queries, keys and values by heads, as DSLM's authors ran it."""
    per_head = dense("sqrt(2/(width+head_width))")
    return layer(*parts(per_head, per_head, dense("1/sqrt(width)"), dense("sqrt(2/(5*width))")), post=post)


@dataclass(frozen=True)
class Seen:
    """Variance and token correlation of the stream and of its gradient after 0, 1, …, N layers; gradients of weights.

    `weights` are the norms, one a layer, of the gradient of all its matrices together.
    """

    variance: np.ndarray
    correlation: np.ndarray
    gradient: np.ndarray
    gradient_correlation: np.ndarray
    weights: np.ndarray

    @property
    def factor(self) -> float:
        """How much of the gradient's variance at the last layer reaches the first."""
        return float(self.gradient[0] / self.gradient[-1])

    @property
    def weights_first_to_last(self) -> float:
        """Median norm over the first quarter of the layers by that over the last."""
        quarter = len(self.weights) // 4
        return float(np.median(self.weights[:quarter]) / np.median(self.weights[-quarter:]))


def sizes(n_layers: int, width: int, length: int) -> Sizes:
    return Sizes(n_layers=n_layers, d_model=width, n_heads=width // 64, seq_len=length, vocab_size=2, causal=False)


def observe(block: Block, shape: Sizes, *, batch: int, seed: int, variance: float = 1.0) -> Seen:
    """A normal signal with the correlation of embeddings after dropout goes through; white noise comes back."""
    random = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # for dropout
    r = R0 * (1 - P)

    def normal(length: int) -> torch.Tensor:
        return torch.randn(batch, length, shape.d_model, generator=random)

    x = math.sqrt(variance) * (math.sqrt(r) * normal(1) + math.sqrt(1 - r) * normal(shape.seq_len))
    states = [x.requires_grad_()]
    layers = [
        compile_block(block, shape, CATALOGUE, init=node("zero"), layer=n, seed=seed)
        for n in range(1, shape.n_layers + 1)
    ]
    for module in layers:
        states.append(module(states[-1]))
        states[-1].retain_grad()
    states[-1].backward(normal(shape.seq_len))
    norms = [
        math.sqrt(sum(float(w.grad.square().sum()) for w in module.parameters() if w.ndim == 2)) for module in layers
    ]
    moments = [token_moments(s.detach()) for s in states]
    gradients = [token_moments(s.grad) for s in states]
    return Seen(
        *(np.array(v) for v in zip(*moments, strict=True)),
        *(np.array(v) for v in zip(*gradients, strict=True)),
        np.array(norms),
    )


def token_moments(x: torch.Tensor) -> tuple[float, float]:
    """Variance over everything, and the correlation of the same channel at two tokens of a sequence."""
    x = x - x.mean()
    square = x.square().sum()
    pairs = (x.sum(1).square().sum() - square) / (x.shape[1] - 1)
    return float(square / x.numel()), float(pairs / square)


def expected(seen: Seen, shape: Sizes, *, post: bool, scheme: str = "dslm") -> tuple[np.ndarray, np.ndarray]:
    """The variances of stream and gradient by the closed forms, from the first state and the last gradient as seen."""
    n, d, p = shape.n_layers, shape.d_model, P
    skip, gain, scores = math.sqrt(1 - 2 / n), math.sqrt(2 / n), 1.0
    attention = [(1 - p) / r for r in layer_correlations(n, R0, p, skip, gain)]
    mlp = 1 - p
    if scheme == "simple":
        attention = [math.sqrt((1 - p) / 2) ** 2] * n
    if scheme == "xavier":
        skip = gain = 1.0
        per_head = 2 / (d + shape.d_head)
        attention, mlp, scores = [d * per_head] * n, 2 * d**2 * (2 / (5 * d)) ** 2, (d * per_head) ** 2
    stack = Stack(
        attention=tuple(attention),
        mlp=(mlp,) * n,
        post=post,
        skip=skip,
        gain=gain,
        p=p,
        length=shape.seq_len,
        width=d,
        scores=scores,
    )
    states = forward(stack, Moments(float(seen.variance[0]), float(seen.correlation[0])))
    back = backward(stack, states, Moments(float(seen.gradient[-1]), float(seen.gradient_correlation[-1])))
    return np.array([s.variance for s in states[::2]]), np.array([g.variance for g in back[::2]])
