"""What ESPA (arXiv:2302.10322) solves for, solved here once more: attention matrices and activations, in float64 NumPy.

Attention matrices by Cholesky factors (Sec. 3.2, App. C and F), activations by Gauss-Hermite quadrature (App. H.1 after
Martens et al. 2021, arXiv:2110.01765, and Zhang et al. 2022, arXiv:2203.08120).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from paper_equations import Array, Place, gelu
from scipy.optimize import brentq, root
from scipy.special import ndtr

LENGTH = 10
"""Of the signals that tests send through blocks."""


# Attention matrices


def exponential(decay: float) -> Array:
    """Σ(γ)_ij = exp(-γ|i - j|); γ = ∞ is the identity."""
    places = np.arange(LENGTH)
    return np.eye(LENGTH) if math.isinf(decay) else np.exp(-decay * np.abs(places[:, None] - places))


def even(correlation: float) -> Array:
    """Σ(ρ) = (1 - ρ) I + ρ 11ᵀ."""
    return (1 - correlation) * np.eye(LENGTH) + correlation


def between(incoming: Array, outgoing: Array) -> Array:
    """A = L_out L_in⁻¹, Cholesky factors."""
    return np.linalg.cholesky(outgoing) @ np.linalg.inv(np.linalg.cholesky(incoming))


def a_of(decay: float) -> float:
    return math.sqrt(-math.expm1(-2 * decay))


def decay_of(a: float) -> float:
    return math.inf if a >= 1 else -math.log1p(-(a**2)) / 2


def e_spa(at: Place, *, final: float = 0.005) -> Array:
    """App. C: a(γ_l) = a(γ_L)^(l/L)."""
    incoming, outgoing = (decay_of(a_of(final) ** (n / at.depth)) for n in (at.layer - 1, at.layer))
    return between(exponential(incoming), exponential(outgoing))


def e_spa_beside(at: Place, *, skip: float, final: float) -> Array:
    """App. F: λ_α² = (λ_0² - α²) / (1 - α²), λ_0 = a(γ_l)/a(γ_{l-1}), a(γ_{l,α}) = λ_α a(γ_{l-1}) (Eq. 24, 26)."""
    before, after = (a_of(final) ** (n / at.depth) for n in (at.layer - 1, at.layer))
    kept = math.sqrt(((after / before) ** 2 - skip**2) / (1 - skip**2))
    return between(exponential(decay_of(before)), exponential(decay_of(kept * before)))


def u_spa(at: Place, *, power: float = 1.0) -> Array:
    """App. C: ρ_l grows linearly from 0 to 0.8, or at another polynomial rate."""
    incoming, outgoing = (0.8 * (n / at.depth) ** power for n in (at.layer - 1, at.layer))
    return between(even(incoming), even(outgoing))


def behind_mlp(kernel: Array, at: Place) -> Array:
    """Σ̂ = f(Σ) of Sec. 3.4, for the MLP of the blocks: E[φ(u) φ(v)] / E[φ²], entry by entry; none before layer 1."""
    if at.layer == 1:
        return kernel
    one, other = NODES[:, None], NODES[None, :]
    masses = MASSES[:, None] * MASSES[None, :]

    def mapped(c: float) -> float:
        v = c * one + math.sqrt(max(0.0, 1 - c * c)) * other
        return float((masses * shaped_gelu(one, at.depth) * shaped_gelu(v, at.depth)).sum())

    values = {c: mapped(c) / mean(shaped_gelu(NODES, at.depth) ** 2) for c in set(kernel.flat)}
    return np.vectorize(values.__getitem__)(kernel)


def e_spa_behind_mlp(at: Place) -> Array:
    """Sec. 3.4: A_l = L_l L̂_{l-1}⁻¹."""
    incoming, outgoing = (decay_of(a_of(0.005) ** (n / at.depth)) for n in (at.layer - 1, at.layer))
    return between(behind_mlp(exponential(incoming), at), exponential(outgoing))


def u_spa_behind_mlp(at: Place) -> Array:
    incoming, outgoing = (0.8 * n / at.depth for n in (at.layer - 1, at.layer))
    return between(behind_mlp(even(incoming), at), even(outgoing))


# Activations


NODES, MASSES = np.polynomial.hermite_e.hermegauss(300)
MASSES = MASSES / MASSES.sum()


def mean(values: Array) -> float:
    """Over a standard normal."""
    return float(MASSES @ values)


@functools.cache
def dks_gelu(depth: int) -> tuple[float, float, float, float]:
    """Input scale and shift, output scale and shift: Q(1) = Q'(1) = 1, C(0) = 0, C'(1) = 5^(1/L)."""

    def shifted(a: float, b: float) -> tuple[float, float]:
        """Output scale and shift: variance 1 and mean 0."""
        y = gelu(a * NODES + b)
        return 1 / math.sqrt(mean(y**2) - mean(y) ** 2), -mean(y)

    def misses(unknown: Array) -> list[float]:
        a, b = unknown
        z = a * NODES + b
        scale, shift = shifted(a, b)
        slope = scale * a * (ndtr(z) + z * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))
        y = scale * (gelu(z) + shift)
        return [mean(slope**2) - 5 ** (1 / depth), mean(y * slope * NODES) - 1]

    solved = root(misses, (1.0, 0.0), tol=1e-14)
    assert max(map(abs, misses(solved.x))) < 1e-12
    a, b = map(float, solved.x)
    return a, b, *shifted(a, b)


def shaped_gelu(x: Array, depth: int) -> Array:
    a, b, scale, shift = dks_gelu(depth)
    return scale * (gelu(a * x + b) + shift)


@functools.cache
def tat_slope(depth: int) -> float:
    """Of a leaky ReLU whose L maps take a correlation of 0 to 0.9."""

    def end(s: float) -> float:
        c = 0.0
        for _ in range(depth):
            arc = (math.sqrt(1 - c * c) + (math.pi - math.acos(c)) * c) / math.pi
            c = ((1 - s) ** 2 * arc + 2 * s * c) / (1 + s * s)
        return c - 0.9

    return float(brentq(end, 0, 1, xtol=1e-15))


def shaped_leaky_relu(x: Array, depth: int) -> Array:
    s = tat_slope(depth)
    return math.sqrt(2 / (1 + s * s)) * np.where(x > 0, x, s * x)
