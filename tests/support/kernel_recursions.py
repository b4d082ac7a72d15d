"""Kernel recursions: how alike tokens become in a model of attention alone, at zero scores, layer by layer.

    vanilla             Σ ← M(Σ)                    M(Σ) = (1/H) Σ_h A_h Σ A_hᵀ, A_h softmax of ALiBi's bias
    skipless_norm       Σ ← N(M(Σ))                 N(Σ)_ij = Σ_ij / √(Σ_ii Σ_jj)
    pre_ln              Σ ← α² Σ + β² M(N(Σ))       α = β = 1
    pre_ln_normalised   the same                    α = 0.98, β² = 1 - α²
    post_ln             Σ ← N(Σ + M(Σ))
    u_spa, e_spa        Σ ← A_l Σ A_lᵀ              their matrices, which take Σ_0 = I to chosen kernels

from any Σ_0 whose diagonal is 1, such as 1 where two tokens of a sequence are the same and 0 elsewhere. Values and
projections are orthogonal, so that nothing else changes the kernel.

    He et al. 2023, arXiv:2302.10322, Fig. 1 and 7 and App. H.2: T = 100, a share of 0.02 of equal tokens, 8 heads,
    γ_L = 0.005, ρ_L = 0.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ablate.errors import InputError
from ablate.signal.propagation import Array
from ablate.signal.skipless import exponential_step, uniform_step
from ablate.signal.skipless_matrices import exponential_matrix, uniform_matrix

HEADS = 8
DECAY = 0.005
"""γ_L of E-SPA."""
CORRELATION = 0.8
"""ρ_L of U-SPA."""
SKIP = 0.98
"""α of normalised skips."""


def kernels(row: str, depth: int, start: Array, repetition: float) -> tuple[Array, ...]:
    """Return Σ_0 to Σ_L [T, T] of a row of Fig. 7, L = `depth`, from Σ_0 = `start`.

    `repetition` is ρ_0 of U-SPA: the share of pairs of tokens that are the same, over all sequences. Raises InputError
    for a row that is not there.
    """
    if row not in RECURSIONS:
        raise InputError(f"{row} is no row of Fig. 7 of arXiv:2302.10322\n  = choose one of {', '.join(RECURSIONS)}")
    through = [start]
    for step in RECURSIONS[row](depth, len(start), repetition):
        through.append(step(through[-1]))
    return tuple(through)


Step = Callable[[Array], Array]


def _alike(step: Callable[[Array, Array], Array]) -> Callable[[int, int, float], Iterator[Step]]:
    """Return the recursion whose layers all do the same, with the heads of ALiBi."""

    def steps(depth: int, length: int, repetition: float) -> Iterator[Step]:
        heads = _alibi(length)
        for _ in range(depth):
            yield lambda kernel: step(kernel, heads)

    return steps


def _u_spa(depth: int, length: int, repetition: float) -> Iterator[Step]:
    for layer in range(1, depth + 1):
        step = uniform_step(layer, depth, CORRELATION, initial=repetition)
        yield _by(uniform_matrix(length, step.incoming, step.outgoing))


def _e_spa(depth: int, length: int, repetition: float) -> Iterator[Step]:
    for layer in range(1, depth + 1):
        step = exponential_step(layer, depth, DECAY)
        yield _by(exponential_matrix(length, step.incoming, step.outgoing))


def _by(matrix: Array) -> Step:
    return lambda kernel: np.asarray(matrix @ kernel @ matrix.T)


def _alibi(length: int) -> Array:
    """Return the softmax of -2^-h (i - j) over j ≤ i, h = 1 to `HEADS`, [H, T, T]."""
    apart = np.subtract.outer(np.arange(length), np.arange(length))
    slopes = 2.0 ** -np.arange(1, HEADS + 1)
    weights = np.exp(np.where(apart >= 0, -slopes[:, None, None] * apart, -np.inf))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def _mixed(kernel: Array, heads: Array) -> Array:
    """Return M(Σ)."""
    return np.asarray(np.mean(heads @ kernel @ heads.transpose(0, 2, 1), axis=0))


def _normed(kernel: Array) -> Array:
    """Return N(Σ)."""
    sizes = np.sqrt(np.diag(kernel))
    return np.asarray(kernel / np.outer(sizes, sizes))


RECURSIONS: Mapping[str, Callable[[int, int, float], Iterator[Step]]] = {
    "vanilla": _alike(_mixed),
    "u_spa": _u_spa,
    "e_spa": _e_spa,
    "skipless_norm": _alike(lambda kernel, heads: _normed(_mixed(kernel, heads))),
    "pre_ln": _alike(lambda kernel, heads: kernel + _mixed(_normed(kernel), heads)),
    "pre_ln_normalised": _alike(
        lambda kernel, heads: SKIP**2 * kernel + (1 - SKIP**2) * _mixed(_normed(kernel), heads)
    ),
    "post_ln": _alike(lambda kernel, heads: _normed(kernel + _mixed(kernel, heads))),
}
"""The rows of Fig. 7, from the top: what each layer does to the kernel, for a depth, a length and r."""
