"""U-SPA's matrices: attention from tokens that are all equally correlated to tokens at another common correlation.

    Σ(ρ) = (1 - ρ) I + ρ 11ᵀ        A = L(ρ_out) L(ρ_in)⁻¹,  L the Cholesky factor, or the symmetric root if not causal

    He et al. 2023, arXiv:2302.10322: Theorem 1 and App. I (causal), App. A (not causal). Tokens that repeat with
    chance r have Σ_0 = Σ(r), so they need nothing but ρ_0 = r (App. B).

With p_n = 1 + nρ, d_n = (1 - ρ) p_n / p_{n-1} and r_n = √((1 - ρ) p_n p_{n-1}), counting i and j from 1:

    L_jj = √d_{j-1},  L_ij = ρ (1 - ρ) / r_{j-1} for i > j        (constant down the column)
    (L⁻¹)_ii = 1 / √d_{i-1},  (L⁻¹)_ij = -ρ / r_{i-1} for i > j    (constant along the row)

All in float64; matrices are [T, T], by query and key.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.errors import InputError

Array: TypeAlias = NDArray[np.float64]


def uniform_matrix(length: int, incoming: float, outgoing: float, *, causal: bool = True) -> Array:
    """A [T, T] for the correlations 0 <= ρ_in <= ρ_out < 1, in O(T²).

    Raises InputError for other correlations: A would have negative entries (Theorem 1), or Σ no inverse.
    """
    if not 0 <= incoming <= outgoing < 1:
        raise InputError(
            f"U-SPA from a correlation of {incoming:g} to {outgoing:g}: its attention has no negative entries only "
            "where correlations are from 0 to below 1 and grow with depth (arXiv:2302.10322, Theorem 1)\n"
            "  = choose an outgoing correlation from the incoming one to below 1"
        )
    if incoming == outgoing:
        return np.eye(length)
    return _causal(length, incoming, outgoing) if causal else _symmetric(length, incoming, outgoing)


def uniform_factor(length: int, correlation: float) -> Array:
    """L(ρ) [T, T], lower triangular, L Lᵀ = Σ(ρ)."""
    diagonal, scale = _diagonal_and_scale(length, correlation)
    below = np.tri(length, k=-1) * correlation * (1 - correlation) / scale
    return below + np.diag(diagonal)


def uniform_inverse(length: int, correlation: float) -> Array:
    """L(ρ)⁻¹ [T, T], lower triangular."""
    diagonal, scale = _diagonal_and_scale(length, correlation)
    below = np.tri(length, k=-1) * -correlation / scale[:, None]
    return below + np.diag(1 / diagonal)


def _causal(length: int, incoming: float, outgoing: float) -> Array:
    """L(ρ_out) L(ρ_in)⁻¹, by running sums, with every difference of near numbers written as a product.

    With x = ρ_in, y = ρ_out and R_n = p_n(y) / p_n(x), the product of the two factors is, on and below the diagonal,

        A_jj = √(κ R_{j-1} / R_{j-2}),  κ = (1 - y) / (1 - x)
        A_{j+1,j} = √κ (y - x √(R_{j-2} R_j)) / (p_{j-1}(x) √(R_{j-1} R_{j-2}))
        A_{i,j} - A_{i+1,j} = √κ x (√R_i - √R_{i-2}) / (p_{i-1}(x) √R_{i-1})        whatever j < i

    where R_i - R_{i-2} = 2 (y - x) / (p_i(x) p_{i-2}(x)), and y² - x² R_{j-2} R_j has the factor y - x as well: a
    small step between layers has small entries, whose logarithms are as exact as those of a large one.
    """
    x, y = incoming, outgoing
    steps = np.arange(length, dtype=np.float64)  # j - 1, and i - 1
    before, here, after = (1 + (steps + shift) * x for shift in (-1, 0, 1))
    ratios = (1 + (steps - 1) * y) / before, (1 + steps * y) / here, (1 + (steps + 1) * y) / after
    root_before, root_here, root_after = (np.sqrt(ratio) for ratio in ratios)
    root_kappa = np.sqrt((1 - y) / (1 - x))
    common = root_kappa * (y - x) / (before * here * after * root_here)
    highest = common * (x + y + 2 * steps * x * y) / (root_before * (y + x * root_before * root_after))
    fall = common * 2 * x / (root_before + root_after)
    fallen = np.cumsum(fall)  # from row 1 to row i + 1
    below = np.tri(length, k=-1) * (highest + fallen - (fallen - fall)[:, None])
    return np.asarray(below + np.diag(root_kappa * root_here / root_before))


def _symmetric(length: int, incoming: float, outgoing: float) -> Array:
    """Both roots share their eigenvectors: the mean, of eigenvalue 1 + (T - 1)ρ, and all else, of eigenvalue 1 - ρ."""
    mean = np.sqrt((1 + (length - 1) * outgoing) / (1 + (length - 1) * incoming))
    other = np.sqrt((1 - outgoing) / (1 - incoming))
    return np.asarray(other * np.eye(length) + (mean - other) / length)


def _diagonal_and_scale(length: int, correlation: float) -> tuple[Array, Array]:
    """√d_n and r_n for n = 0, …, T - 1, each [T]."""
    steps = np.arange(length, dtype=np.float64)
    p, before = 1 + steps * correlation, 1 + (steps - 1) * correlation
    return np.sqrt((1 - correlation) * p / before), np.sqrt((1 - correlation) * p * before)
