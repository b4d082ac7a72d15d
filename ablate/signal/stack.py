"""A whole model: moments through N layers of attention and MLP, Pre-LN or Post-LN, forwards and backwards.

    Pre-LN    x ← λ x + β·f(norm(x))         Post-LN   x ← norm(λ x + β·f(x))

A branch and its skip are taken as uncorrelated, forwards and backwards.

    Kedia et al. 2024, arXiv:2403.09635, App. E.1 to E.4 and F.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from ablate.signal.moments import Moments, add_skip, layer_norm_backward
from ablate.signal.sublayers import WIDE, attention, attention_backward, mlp, mlp_backward


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


def forward(stack: Stack, x: Moments) -> tuple[Moments, ...]:
    """The residual stream before each of the 2N sublayers, and after the last."""
    states = [x]
    for kind, strength in _sublayers(stack):
        x = _sum(stack, states[-1], kind, strength)
        states.append(_norm(x) if stack.post else x)
    return tuple(states)


def backward(stack: Stack, states: tuple[Moments, ...], g: Moments) -> tuple[Moments, ...]:
    """The gradient at each of the `states` of `forward`, from `g` at the last."""
    gradients = [g]
    for (kind, strength), x in reversed(list(zip(_sublayers(stack), states[:-1], strict=True))):
        g = gradients[-1]
        if stack.post:
            g = layer_norm_backward(g, _sum(stack, x, kind, strength))
        branch = _branch_backward(stack, g, _normalised(stack, x), kind, strength)
        if not stack.post:
            branch = layer_norm_backward(branch, x)
        gradients.append(add_skip(g, branch, stack.skip, stack.gain))
    return tuple(reversed(gradients))


def _sublayers(stack: Stack) -> Iterator[tuple[str, float]]:
    for attention_strength, mlp_strength in zip(stack.attention, stack.mlp, strict=True):
        yield "attention", attention_strength
        yield "mlp", mlp_strength


def _sum(stack: Stack, x: Moments, kind: str, strength: float) -> Moments:
    """λx + β·f of what the branch gets."""
    seen = _normalised(stack, x)
    if kind == "attention":
        branch = attention(seen, strength, stack.p, stack.length, stack.width, stack.scores)
    else:
        branch = mlp(seen, strength, stack.p)
    return add_skip(x, branch, stack.skip, stack.gain)


def _branch_backward(stack: Stack, g: Moments, x: Moments, kind: str, strength: float) -> Moments:
    if kind == "attention":
        return attention_backward(g, x, strength, stack.p, stack.length, stack.width, stack.scores)
    return mlp_backward(g, x, strength, stack.p)


def _normalised(stack: Stack, x: Moments) -> Moments:
    """What a branch gets: the stream itself in Post-LN, whose norms stand behind the sums."""
    return x if stack.post else _norm(x)


def _norm(x: Moments) -> Moments:
    """Variance 1; the 1 - 1/d of `layer_norm` is left out, since a stream that was centred once stays so."""
    return Moments(1.0, x.correlation)
