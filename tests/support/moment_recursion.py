"""The recursion of moments through N layers of attention and MLP, Pre-LN or Post-LN, forwards and backwards.

    Pre-LN    x ← λ x + β·f(norm(x))         Post-LN   x ← norm(λ x + β·f(x))

A branch and its skip are taken as uncorrelated, forwards and backwards. At `length` inf and `scores` 0 these are the
paper's recursions, but for the gradient of attention, of which the paper divides what tokens share by 1 - p too: that
is the way back where `published`. Other values add the terms of short sequences and of gradients through attention
weights.

    Kedia et al. 2024, arXiv:2403.09635, App. E.1 to E.4 and F.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from ablate.signal.moments import (
    WIDE,
    Moments,
    add_skip,
    attention,
    attention_backward,
    layer_norm_backward,
    mlp,
    mlp_backward,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """N layers: the `strength` of each one's attention and MLP (see `sublayers`), and what they share.

    `skip` λ and `gain` β of every residual, dropout p, tokens in a sequence, width, variance of the attention scores.
    """

    attention: tuple[float, ...]
    mlp: tuple[float, ...]
    post: bool
    skip: float = 1.0
    gain: float = 1.0
    p: float = 0.0
    length: float = inf
    width: int = WIDE
    scores: float = 0.0
    published: bool = False


@dataclass(frozen=True, slots=True)
class _Sublayer:
    """Attention, or else the MLP, of one layer."""

    attends: bool
    strength: float


def forward(stack: Stack, x: Moments) -> tuple[Moments, ...]:
    """Compute the residual stream before each of the 2N sublayers, and after the last."""
    states = [x]
    for sublayer in _sublayers(stack):
        x = _sum(stack, states[-1], sublayer)
        states.append(_norm(x) if stack.post else x)
    return tuple(states)


def backward(stack: Stack, states: tuple[Moments, ...], g: Moments) -> tuple[Moments, ...]:
    """Compute the gradient at each of the `states` of `forward`, from `g` at the last."""
    gradients = [g]
    for sublayer, x in reversed(list(zip(_sublayers(stack), states[:-1], strict=True))):
        g = gradients[-1]
        if stack.post:
            g = layer_norm_backward(g, _sum(stack, x, sublayer), WIDE)
        branch = _branch_backward(stack, g, _seen(stack, x), sublayer)
        if not stack.post:
            branch = layer_norm_backward(branch, x, WIDE)
        gradients.append(add_skip(g, branch, stack.skip, stack.gain))
    return tuple(reversed(gradients))


def _sublayers(stack: Stack) -> Iterator[_Sublayer]:
    for attention_strength, mlp_strength in zip(stack.attention, stack.mlp, strict=True):
        yield _Sublayer(True, attention_strength)
        yield _Sublayer(False, mlp_strength)


def _sum(stack: Stack, x: Moments, sublayer: _Sublayer) -> Moments:
    """Return λx + β·f of the branch's input."""
    seen = _seen(stack, x)
    if sublayer.attends:
        branch = attention(seen, sublayer.strength, stack.p, stack.length, stack.width, stack.scores)
    else:
        branch = mlp(seen, sublayer.strength, stack.p)
    return add_skip(x, branch, stack.skip, stack.gain)


def _branch_backward(stack: Stack, g: Moments, x: Moments, sublayer: _Sublayer) -> Moments:
    if sublayer.attends and stack.published:
        shared = sublayer.strength * g.covariance  # App. A.8 and C for many tokens: A r_g σ_g² / (1 - p)
        return Moments.of(shared / (1 - stack.p), shared)
    if sublayer.attends:
        return attention_backward(g, x, sublayer.strength, stack.p, stack.length, stack.width, stack.scores)
    return mlp_backward(g, x, sublayer.strength, stack.p)


def _seen(stack: Stack, x: Moments) -> Moments:
    """Return the input of a branch: the stream itself in Post-LN, whose norms follow the sums."""
    return x if stack.post else _norm(x)


def _norm(x: Moments) -> Moments:
    """Normalise to variance 1; what norms have of order 1/d, here and backwards, is that of normal tokens, once.

    A stream that was normalised before has a size that varies less, and has lost those directions already.
    """
    return Moments(1.0, x.correlation)
