"""Kurtosis bound: what a token kernel says of how much larger a few neurons may be than the rest.

For X [n tokens, d neurons] with the kernel Σ = X Xᵀ / d [n, n], and the kurtosis of the probe of that name,
Kurt(X) = mean_j m_j² / (mean_j m_j)² of the mean squares m_j = (1/n) Σ_α X_αj²:

    any X                                      1 ≤ Kurt(X) ≤ d ‖Σ‖_F² / (tr Σ)²
    independent normal neurons of kernel Σ     Kurt = E[m²] / E[m]² = 1 + 2 ‖Σ‖_F² / (tr Σ)² ≤ 3
    of them, tokens of one cosine ρ            Kurt = 1 + 2 ρ² + 2 (1 - ρ²) / n

The first holds during training, too: the squares on the diagonal of XᵀX are some of those of all its entries, whose sum
is that of X Xᵀ. The second is where a wide network starts. Both are larger the more alike tokens are, and the largest
where rank has collapsed: d and 3. Σ is of the tokens over which Kurt is taken; that of one sequence, for one sequence.

    He et al. 2024, arXiv:2405.19279, Eq. 1 and 4, and Prop. J.1 (for large n; the exact one is Eq. 16 there).
"""

from __future__ import annotations

import numpy as np

from ablate.errors import InputError
from ablate.signal.propagation import Array


def largest_kurtosis(kernel: Array, width: int) -> float:
    """Return d ‖Σ‖_F² / (tr Σ)², which no X of d = `width` neurons exceeds; InputError for a kernel of zeros.

    >>> largest_kurtosis(np.ones((4, 4)), 64), largest_kurtosis(np.eye(4), 64)
    (64.0, 16.0)
    """
    return width * _concentration(kernel)


def normal_kurtosis(kernel: Array) -> float:
    """Return 1 + 2 ‖Σ‖_F² / (tr Σ)², the kurtosis of many independent normal neurons; InputError for zeros.

    >>> normal_kurtosis(np.ones((4, 4))), normal_kurtosis(np.eye(4))
    (3.0, 1.5)
    """
    return 1 + 2 * _concentration(kernel)


def _concentration(kernel: Array) -> float:
    """Return ‖Σ‖_F² / (tr Σ)²: 1/n for n tokens that are orthogonal, 1 for tokens that are one."""
    size = float(np.trace(kernel))
    if not size > 0:
        raise InputError("tokens of zeros have no kurtosis\n  = the stream is 0 there, or not finite: look at its size")
    return float(np.square(kernel / size).sum())  # divided first, so that squares of large numbers do not overflow
