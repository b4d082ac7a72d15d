"""Skipless: how similar tokens may be after each layer, so that attention without skips does not collapse in rank.

Signal Preserving Attention gives the token covariance after layer l a form chosen in advance, and solves for the
attention matrix A that produces it from the one before, Σ_l = A Σ_{l-1} Aᵀ:

    E-SPA   Σ_ij = exp(-γ_l |i - j|)            γ_0 = ∞ and γ_l falls to γ_L;  a(γ) = √(1 - exp(-2γ)),  a_l = a_L^(l/L)
    U-SPA   Σ = (1 - ρ_l) I + ρ_l 11ᵀ           ρ_l grows from ρ_0 to ρ_L: linearly, or with another power of l/L

    He et al. 2023, arXiv:2302.10322, Sec. 3.2 and App. C; beside normalised skips (α² + β² = 1): Sec. 3.4 and App. F.

Only scalars are computed here; the matrices are in `skipless_matrices`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ablate.errors import InputError


@dataclass(frozen=True, slots=True)
class LayerStep:
    """One layer: the decay rate (E-SPA) or correlation (U-SPA) of its input, and that of its attention's output."""

    incoming: float
    outgoing: float


def log_complement(x: float) -> float:
    """log(1 - eˣ) for x <= 0, to the last digit at both ends; its own inverse.

    >>> log_complement(0.0)
    -inf
    >>> log_complement(log_complement(-40.0))
    -40.0
    """
    if x == 0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -math.log(2) else math.log1p(-math.exp(x))


def diagonal(decay: float) -> float:
    """a(γ) = √(1 - exp(-2γ)), the diagonal (but for its first entry) of the Cholesky factor of E-SPA's kernel.

    >>> diagonal(math.inf)
    1.0
    """
    return math.sqrt(-math.expm1(-2 * decay))


def scheduled_decay(layer: int, n_layers: int, final: float) -> float:
    """γ_l = -½ log(1 - a(γ_L)^(2l/L)) after layer l; γ_0 = ∞ (App. C).

    >>> scheduled_decay(0, 6, 0.005), scheduled_decay(6, 6, 0.005)
    (inf, 0.005)
    """
    if layer in (0, n_layers):
        return final if layer else math.inf
    return _decay_at(layer / n_layers * log_complement(-2 * final))


def scheduled_correlation(layer: int, n_layers: int, final: float, initial: float, power: float = 1.0) -> float:
    """ρ_l = ρ_0 + (ρ_L - ρ_0) (l/L)^p after layer l (App. C: the paper's p is 1, and others worked as well).

    >>> scheduled_correlation(3, 4, 0.5, 0.0)
    0.375
    >>> scheduled_correlation(2, 4, 0.5, 0.0, 2.0)
    0.125
    """
    if power == 1:
        return initial + (final - initial) * layer / n_layers
    return initial + (final - initial) * math.pow(layer / n_layers, power)


def exponential_step(layer: int, n_layers: int, final: float, skip: float = 0.0) -> LayerStep:
    """E-SPA's decay rates around the attention of layer l, from 1 (App. C).

    With a normalised skip α around it, its own outgoing rate keeps α² + (1 - α²) λ² at the λ² without one (Eq. 26):
    λ_α² = (λ_0² - α²) / (1 - α²), λ_0 = a(γ_l) / a(γ_{l-1}), and a(γ_{l,α}) = λ_α a(γ_{l-1}).
    Raises InputError for a skip not in [0, 1), and where λ_α is not a positive number.
    """
    _check_skip(skip)
    incoming = scheduled_decay(layer - 1, n_layers, final)
    if not skip:
        return LayerStep(incoming, scheduled_decay(layer, n_layers, final))
    log_squared = log_complement(-2 * final)  # log a_L²
    kept = math.exp(log_squared / n_layers)  # λ_0², the same in every layer
    if kept <= skip**2:
        raise InputError(
            f"E-SPA with a decay of {final:g} has {math.sqrt(kept):.4g} on the diagonal of its attention in each of "
            f"{n_layers} layers, and a skip of {skip:g} alone keeps more: no attention compensates for that "
            "(arXiv:2302.10322, Eq. 24)\n  = choose a larger final decay, more layers or a smaller skip"
        )
    log_lambda = math.log((kept - skip**2) / (1 - skip**2))
    return LayerStep(incoming, _decay_at(log_lambda + (layer - 1) / n_layers * log_squared))


def uniform_step(
    layer: int, n_layers: int, final: float, initial: float = 0.0, skip: float = 0.0, power: float = 1.0
) -> LayerStep:
    """U-SPA's correlations around the attention of layer l, from 1, growing with the `power` of l/L (App. C).

    With a normalised skip α around it, the attention gives (ρ_l - α² ρ_{l-1}) / (1 - α²) itself (Sec. 3.4).
    Raises InputError for a skip not in [0, 1), for correlations that fall with depth, and where the attention would
    have to give a correlation of 1 or more.
    """
    _check_skip(skip)
    if not 0 <= initial <= final:
        raise InputError(
            f"U-SPA from a correlation of {initial:g} to {final:g}: its attention has no negative entries only where "
            "correlations start at 0 or above and grow with depth (arXiv:2302.10322, Theorem 1)\n"
            "  = choose an initial correlation from 0 to the final one"
        )
    incoming = scheduled_correlation(layer - 1, n_layers, final, initial, power)
    grown = scheduled_correlation(layer, n_layers, final, initial, power) - incoming
    outgoing = incoming + grown / (1 - skip**2)
    if outgoing >= 1:
        raise InputError(
            f"U-SPA beside a skip of {skip:g}: the attention of layer {layer} of {n_layers} would have to give a "
            f"correlation of {outgoing:.4g}, which must be below 1 (arXiv:2302.10322, Sec. 3.4)\n"
            "  = choose a smaller final correlation, more layers or a smaller skip"
        )
    return LayerStep(incoming, outgoing)


def check_repetition(repetition: float) -> None:
    """Raises InputError unless a repetition is a share of pairs of tokens below 1."""
    if not 0 <= repetition < 1:
        raise InputError(
            f"a repetition of {repetition:g}: it is the chance that two tokens of a sequence are the same\n"
            "  = choose a number from 0 (no correction) to below 1"
        )


def _decay_at(log_squared: float) -> float:
    """γ, given log a(γ)²."""
    return -log_complement(log_squared) / 2


def _check_skip(skip: float) -> None:
    if not 0 <= skip < 1:
        raise InputError(
            f"a normalised skip of {skip:g}: its gain is √(1 - skip²)\n  = choose a skip from 0 (none) to below 1"
        )
