"""A given attention matrix as the output of a softmax: a bias on its scores, and a factor on each of its rows.

A v = D softmax(B) v        D = Diag(row sums of A),  P = D⁻¹ A,  B = log P

He et al. 2023, arXiv:2302.10322, Sec. 3.3 and Eq. 10.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.errors import InputError

Array: TypeAlias = NDArray[np.float64]

LEAST = float(np.finfo(np.float64).tiny)
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
    bias = np.log(np.maximum(matrix / sums[:, None], LEAST))
    return sums, np.where(np.tri(len(bias), dtype=bool), bias, -np.inf) if causal else bias
