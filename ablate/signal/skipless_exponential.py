"""E-SPA's matrices: attention from tokens whose similarity decays at one rate to tokens where it decays at another.

    Σ(γ)_ij = exp(-γ |i - j|)        A = L(γ_out) L(γ_in)⁻¹,  L the Cholesky factor, or the symmetric root if not causal

    He et al. 2023, arXiv:2302.10322: Lemma 1 (the factor), Theorem 3 (A in closed form), App. A (not causal),
    App. B (repeated tokens).

All in float64; matrices are [T, T], by query and key.
"""

from __future__ import annotations

import functools
import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.errors import InputError
from ablate.signal.skipless import check_repetition, diagonal

Array: TypeAlias = NDArray[np.float64]

NOISE = 1e-13
"""Entries below this, in a matrix from eigenvectors with largest entries of about 1, are rounding errors."""


def exponential_matrix(
    length: int, incoming: float, outgoing: float, *, repetition: float = 0.0, causal: bool = True
) -> Array:
    """A [T, T] for the decay rates γ_in >= γ_out > 0; γ_in may be infinite, which is Σ = I.

    `repetition` is r, the chance that two tokens are the same: A becomes D̄_out^(-½) A D̄_in^(½), where
    D̄ = Diag(L Σ̄_0 Lᵀ) and Σ̄_0 = (1 - r) I + r 11ᵀ, so that on average every token keeps its norm (App. B).

    Raises InputError for rates that grow (A would have negative entries, Theorem 2), for a rate of 0, and for a
    repetition not in [0, 1).
    """
    if not 0 < outgoing <= incoming:
        raise InputError(
            f"E-SPA from a decay of {incoming:g} to {outgoing:g}: its attention has no negative entries only where "
            "decays are positive and fall with depth (arXiv:2302.10322, Theorem 2)\n"
            "  = choose an outgoing decay from above 0 to the incoming one"
        )
    check_repetition(repetition)
    if incoming == outgoing:
        return np.eye(length)
    matrix = _causal(length, incoming, outgoing) if causal else _symmetric(length, incoming, outgoing)
    if not repetition:
        return matrix
    before = squared_norms(length, incoming, repetition, causal=causal)
    after = squared_norms(length, outgoing, repetition, causal=causal)
    return matrix * np.sqrt(before / after[:, None])


def exponential_factor(length: int, decay: float) -> Array:
    """L(γ) [T, T], L Lᵀ = Σ(γ): L_i1 = e^(-γ(i-1)), L_ij = a(γ) e^(-γ(i-j)) for 2 <= j <= i (Lemma 1)."""
    if math.isinf(decay):
        return np.eye(length)
    factor = np.tril(np.exp(-decay * _distances(length)))
    factor[:, 1:] *= diagonal(decay)
    return factor


def squared_norms(length: int, decay: float, repetition: float, *, causal: bool = True) -> Array:
    """D̄ [T] = Diag(L Σ̄_0 Lᵀ) = (1 - r) + r (L 1)²: how repeated tokens change the norm at each position (App. B)."""
    if math.isinf(decay):
        return np.ones(length)
    if causal:
        steps = np.arange(length)
        sums = np.exp(-decay * steps) + diagonal(decay) * np.expm1(-decay * steps) / math.expm1(-decay)
    else:
        sums = _root(length, decay, 0.5).sum(1)
    return np.asarray(1 - repetition + repetition * sums**2)


def _causal(length: int, incoming: float, outgoing: float) -> Array:
    """Compute A by Theorem 3, with differences of exponentials written as products, which lose no digits."""
    faster = incoming - outgoing
    lost = -math.expm1(-faster)  # 1 - e^-(γ_in - γ_out)
    kept = diagonal(outgoing) / diagonal(incoming)  # ρ
    # 1 - ρ² = e^(-2γ_out) (1 - e^(-2(γ_in - γ_out))) / a(γ_in)²
    gone = math.exp(-2 * outgoing) * -math.expm1(-2 * faster) / -math.expm1(-2 * incoming)
    falling = np.exp(-outgoing * _distances(length))
    matrix = np.tril(kept * lost * falling, -1)
    matrix[1:, 0] = (gone / (1 + kept) + kept * lost) * falling[1:, 0]  # (1 - ρ e^-(γ_in - γ_out)) e^(-γ_out (i-1))
    np.fill_diagonal(matrix, kept)
    matrix[0, 0] = 1
    return matrix


def _symmetric(length: int, incoming: float, outgoing: float) -> Array:
    before = _root(length, incoming, -0.5) if math.isfinite(incoming) else None  # cached by the previous layer
    matrix = _root(length, outgoing, 0.5)
    if before is not None:
        matrix = matrix @ before
    return np.where(np.abs(matrix) < NOISE, 0.0, matrix)


def _root(length: int, decay: float, power: float) -> Array:
    """Σ(γ) to a power, ½ or -½, by its eigenvectors."""
    values, vectors = _spectrum(length, decay)
    return np.asarray((vectors * values**power) @ vectors.T)


@functools.lru_cache(maxsize=2)
def _spectrum(length: int, decay: float) -> tuple[Array, Array]:
    """Return eigenvalues [T] and eigenvectors [T, T] of Σ(γ); the output of one layer is the input of the next."""
    values, vectors = np.linalg.eigh(np.exp(-decay * _distances(length)))
    for array in (values, vectors):
        array.setflags(write=False)
    return values, vectors


def _distances(length: int) -> Array:
    places = np.arange(length, dtype=np.float64)
    return np.abs(places[:, None] - places)
