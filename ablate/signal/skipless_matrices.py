"""Skipless matrices: the attention matrices of E-SPA and U-SPA, also behind an MLP, and each as output of a softmax.

All in float64; matrices are [T, T], by query and key.
"""

from __future__ import annotations

import functools
import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.errors import InputError
from ablate.signal.kernel_maps import CorrelationMap
from ablate.signal.skipless import LayerStep, check_repetition, diagonal

# E-SPA's matrices: attention from tokens whose similarity decays at one rate to tokens where it decays at another.
#
#   Σ(γ)_ij = exp(-γ |i - j|)        A = L(γ_out) L(γ_in)⁻¹,  L the Cholesky factor, or the symmetric root if not causal
#
#     He et al. 2023, arXiv:2302.10322: Lemma 1 (the factor), Theorem 3 (A in closed form), App. A (not causal),
#     App. B (repeated tokens).

Array: TypeAlias = NDArray[np.float64]

NOISE = 1e-13
"""Entries below this, in a matrix from eigenvectors with largest entries of about 1, are rounding errors."""


def exponential_matrix(
    length: int, incoming: float, outgoing: float, *, repetition: float = 0.0, causal: bool = True
) -> Array:
    """A [T, T] for the decay rates γ_in >= γ_out > 0; γ_in may be infinite, which is Σ = I.

    `repetition` is r, the chance that two tokens are the same: A becomes D̄_out^(-½) A D̄_in^(½), where
    D̄ = Diag(L Σ̄_0 Lᵀ) and Σ̄_0 = (1 - r) I + r 11ᵀ, so that on average every token keeps its norm (App. B).
    Raises InputError for rates that grow (A would have negative entries, Theorem 2), a rate of 0, and r not in [0, 1).
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
    matrix = (
        _causal_exponential(length, incoming, outgoing)
        if causal
        else _symmetric_exponential(length, incoming, outgoing)
    )
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
        sums = _kernel_power(length, decay, 0.5).sum(1)
    return np.asarray(1 - repetition + repetition * sums**2)


def _causal_exponential(length: int, incoming: float, outgoing: float) -> Array:
    """A by Theorem 3, with differences of exponentials written as products, which lose no digits."""
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


def _symmetric_exponential(length: int, incoming: float, outgoing: float) -> Array:
    before = _kernel_power(length, incoming, -0.5) if math.isfinite(incoming) else None  # cached by the previous layer
    matrix = _kernel_power(length, outgoing, 0.5)
    if before is not None:
        matrix = matrix @ before
    return np.where(np.abs(matrix) < NOISE, 0.0, matrix)


def _kernel_power(length: int, decay: float, power: float) -> Array:
    """Σ(γ) to a power, ½ or -½, by its eigenvectors."""
    values, vectors = _spectrum(length, decay)
    return np.asarray((vectors * values**power) @ vectors.T)


@functools.lru_cache(maxsize=2)
def _spectrum(length: int, decay: float) -> tuple[Array, Array]:
    """Eigenvalues [T] and eigenvectors [T, T] of Σ(γ); the output of one layer is the input of the next."""
    values, vectors = np.linalg.eigh(np.exp(-decay * _distances(length)))
    for array in (values, vectors):
        array.setflags(write=False)
    return values, vectors


def _distances(length: int) -> Array:
    places = np.arange(length, dtype=np.float64)
    return np.abs(places[:, None] - places)


# U-SPA's matrices: attention from tokens that are all equally correlated to tokens at another common correlation.
#
#   Σ(ρ) = (1 - ρ) I + ρ 11ᵀ        A = L(ρ_out) L(ρ_in)⁻¹,  L the Cholesky factor, or the symmetric root if not causal
#
#     He et al. 2023, arXiv:2302.10322: Theorem 1 and App. I (causal), App. A (not causal). Tokens that repeat with
#     chance r have Σ_0 = Σ(r), so they need nothing but ρ_0 = r (App. B).
#
# With p_n = 1 + nρ, d_n = (1 - ρ) p_n / p_{n-1} and r_n = √((1 - ρ) p_n p_{n-1}), counting i and j from 1:
#
#     L_jj = √d_{j-1},  L_ij = ρ (1 - ρ) / r_{j-1} for i > j        (constant down the column)
#     (L⁻¹)_ii = 1 / √d_{i-1},  (L⁻¹)_ij = -ρ / r_{i-1} for i > j    (constant along the row)


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
    return _causal_uniform(length, incoming, outgoing) if causal else _symmetric_uniform(length, incoming, outgoing)


def _causal_uniform(length: int, incoming: float, outgoing: float) -> Array:
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


def _symmetric_uniform(length: int, incoming: float, outgoing: float) -> Array:
    """Both roots share their eigenvectors: the mean, of eigenvalue 1 + (T - 1)ρ, and all else, of eigenvalue 1 - ρ."""
    mean = np.sqrt((1 + (length - 1) * outgoing) / (1 + (length - 1) * incoming))
    other = np.sqrt((1 - outgoing) / (1 - incoming))
    return np.asarray(other * np.eye(length) + (mean - other) / length)


# Skipless after MLPs: attention that undoes the effect of the preceding MLP on the similarity of tokens.
#
#     A_l = L_l L̂_{l-1}⁻¹        L_l L_lᵀ = Σ_l,  L̂_l L̂_lᵀ = Σ̂_l = C(Σ_l)  entry by entry
#
# C is the correlation map of the MLP's activation (`kernel_maps`): tokens have the covariance Σ_l after attention,
# and Σ̂_l after the MLP. Layer 1 reads the embedding, after no MLP: Σ̂_0 = Σ_0. Nothing ensures that the entries of A
# are positive, so this is checked, and an A with one that is not is refused.
#
#     He et al. 2023, arXiv:2302.10322, Sec. 3.4, which leaves the MLP out: A_l = L_l L_{l-1}⁻¹.


@functools.lru_cache(maxsize=4)
def exponential_through(length: int, incoming: float, outgoing: float, through: CorrelationMap, causal: bool) -> Array:
    """E-SPA's A from C(Σ(γ_in)) to Σ(γ_out), read-only; γ_in = ∞ is the embedding, after no MLP.

    Raises InputError where C(Σ(γ_in)) has no Cholesky factor in float64, and where A has negative entries.
    """
    if math.isinf(incoming):
        matrix = exponential_matrix(length, incoming, outgoing, causal=causal)
    else:
        places = np.arange(length)
        similar = through(np.exp(-incoming * places))
        similar[0] = 1.0
        before = similar[np.abs(places[:, None] - places)]
        after = exponential_factor(length, outgoing)
        matrix = _factor_ratio(after, before) if causal else _root_ratio(outgoing, before)
    _check_entries(matrix)
    matrix = np.maximum(matrix, 0.0)
    matrix.setflags(write=False)
    return matrix


def uniform_through(step: LayerStep, layer: int, through: CorrelationMap) -> LayerStep:
    """Return U-SPA's correlations around the attention of layer l whose input is an MLP's output: C(Σ(ρ)) is Σ(C(ρ)).

    Raises InputError where the MLP brings tokens closer than they are to be after the attention.
    """
    if layer == 1:
        return step
    incoming = max(0.0, float(through(step.incoming)))
    if incoming > step.outgoing:
        raise InputError(
            f"U-SPA after an MLP: it raises a correlation of {step.incoming:.4g} to {incoming:.4g}, above the "
            f"{step.outgoing:.4g} that the attention of layer {layer} must give: no attention moves tokens apart\n"
            "  = choose an activation that is closer to linear, such as dks; mlp: none leaves the MLP out"
        )
    return LayerStep(incoming, step.outgoing)


def _factor_ratio(after: Array, before: Array) -> Array:
    """L_after L_before⁻¹, lower triangular."""
    return np.tril(np.linalg.solve(_cholesky(before).T, after.T).T)


def _root_ratio(outgoing: float, before: Array) -> Array:
    """Σ_after^½ Σ_before^(-½), roots symmetric."""
    places = np.arange(len(before))
    (after_values, after), (values, vectors) = (
        np.linalg.eigh(kernel) for kernel in (np.exp(-outgoing * np.abs(places[:, None] - places)), before)
    )
    _cholesky(before)  # refuses a kernel without an inverse
    return np.asarray((after * after_values**0.5) @ after.T @ (vectors * values**-0.5) @ vectors.T)


def _cholesky(kernel: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(kernel))
    except np.linalg.LinAlgError:
        raise InputError(
            "E-SPA after an MLP: it brings tokens so close together that no attention can separate them\n"
            "  = choose an activation that is closer to linear, such as dks; mlp: none leaves the MLP out"
        ) from None


def _check_entries(matrix: Array) -> None:
    least = float(matrix.min())
    if least < -NOISE * float(np.abs(matrix).max()):
        i, j = np.unravel_index(matrix.argmin(), matrix.shape)
        raise InputError(
            f"E-SPA after an MLP: its attention would have the entry {least:.3g} (query {i + 1}, key {j + 1}), and a "
            "softmax gives no negative weights (arXiv:2302.10322, Sec. 3.4)\n"
            "  = choose an activation that is closer to linear, such as dks; mlp: none leaves the MLP out"
        )


# A given attention matrix as the output of a softmax: a bias on its scores, and a factor on each of its rows.
#
#     A v = D softmax(B) v        D = Diag(row sums of A),  P = D⁻¹ A,  B = log P
#
#     He et al. 2023, arXiv:2302.10322, Sec. 3.3 and Eq. 10.

LEAST_WEIGHT = float(np.finfo(np.float64).tiny)
"""P below this, 0 included, counts as this: its logarithm, -708.4, is finite in every type, and its weight is 0 in
all of them but float64. The paper's Γ (footnote 6) is 1e30, which float16 does not hold."""


def row_scale_and_bias(matrix: Array, *, causal: bool = True) -> tuple[Array, Array]:
    """D [T] and B [T, T] of A [T, T]; where causal, B holds the mask: -∞ after the diagonal (Eq. 10's -Γ (1 - M)).

    Raises InputError for an A with negative entries, which have no logarithm, or with a row that sums to 0.
    """
    if matrix.min() < 0:
        i, j = np.unravel_index(matrix.argmin(), matrix.shape)
        raise InputError(
            f"an attention matrix with the entry {matrix[i, j]:.3g} (query {i + 1}, key {j + 1}): a softmax gives no "
            "negative weights, and log P does not exist\n  = choose covariances that grow in every entry with depth"
        )
    sums = matrix.sum(1)
    if not sums.min() > 0:
        raise InputError(
            f"an attention matrix whose row {int(sums.argmin()) + 1} sums to {sums.min():.3g}\n"
            "  = choose one in which every query has a key"
        )
    bias = np.log(np.maximum(matrix / sums[:, None], LEAST_WEIGHT))
    return sums, np.where(np.tri(len(bias), dtype=bool), bias, -np.inf) if causal else bias
