"""Skipless after MLPs: attention that undoes the effect of the preceding MLP on the similarity of tokens.

    A_l = L_l L̂_{l-1}⁻¹        L_l L_lᵀ = Σ_l,  L̂_l L̂_lᵀ = Σ̂_l = C(Σ_l)  entry by entry

C is the correlation map of the MLP's activation (`kernel_maps`): tokens have the covariance Σ_l after attention,
and Σ̂_l after the MLP. Layer 1 reads the embedding, after no MLP: Σ̂_0 = Σ_0. Nothing ensures that the entries of A are
positive, so this is checked, and A is refused where one is not.

    He et al. 2023, arXiv:2302.10322, Sec. 3.4, which leaves the MLP out: A_l = L_l L_{l-1}⁻¹.

All in float64; matrices are [T, T], by query and key.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ablate.errors import InputError
from ablate.signal.kernel_maps import CorrelationMap
from ablate.signal.skipless import LayerStep
from ablate.signal.skipless_exponential import NOISE, Array, exponential_factor, exponential_matrix


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
    _check(matrix)
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


def _check(matrix: Array) -> None:
    least = float(matrix.min())
    if least < -NOISE * float(np.abs(matrix).max()):
        i, j = np.unravel_index(matrix.argmin(), matrix.shape)
        raise InputError(
            f"E-SPA after an MLP: its attention would have the entry {least:.3g} (query {i + 1}, key {j + 1}), and a "
            "softmax gives no negative weights (arXiv:2302.10322, Sec. 3.4)\n"
            "  = choose an activation that is closer to linear, such as dks; mlp: none leaves the MLP out"
        )
