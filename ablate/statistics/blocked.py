"""Least squares with blocks: block means are subtracted before anything is fitted.

A model of block means and columns X has the same coefficients and residuals as X alone, after each block's means are
subtracted on both sides (Frisch & Waugh 1933, Lovell 1963).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RANK = 1e-9
"""An eigenvalue of XᵀX below this share of the largest counts as zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The minimum-norm coefficients, the residual sum of squares `left`, and the rank of X.

    `weights` [columns, cells] are those with which y enters the coefficients, `shares` the variances of the
    coefficients in units of the error variance. `told` [columns, columns] projects on the estimable part of the
    coefficients: where its diagonal is 1 the coefficient is estimable, and the other columns at which a row is not 0
    are those it is confounded with.
    """

    coefficients: Floats
    weights: Floats
    shares: Floats
    told: Floats
    left: float
    rank: int


def apart(columns: Floats, blocks: NDArray[np.intp]) -> Floats:
    """Subtract from columns [cells, columns] the means of their blocks, which are numbered from 0."""
    counts = np.maximum(np.bincount(blocks), 1)
    sums = np.zeros((counts.size, columns.shape[1]))
    np.add.at(sums, blocks, columns)
    return columns - (sums / counts[:, None])[blocks]


def fit(x: Floats, y: Floats) -> Fit:
    """Fit y [cells] on x [cells, columns], of any rank, by least squares."""
    if not x.shape[1]:
        none = np.zeros(0)
        empty = np.zeros((0, y.size))
        return Fit(coefficients=none, weights=empty, shares=none, told=empty[:, :0], left=float((y**2).sum()), rank=0)
    sizes, vectors = np.linalg.eigh(x.T @ x)
    kept = sizes > RANK * max(float(sizes[-1]), 1.0)
    sizes, vectors = sizes[kept], vectors[:, kept]
    inverse = (vectors / sizes) @ vectors.T
    weights = inverse @ x.T
    coefficients = weights @ y
    return Fit(
        coefficients=coefficients,
        weights=weights,
        shares=np.diag(inverse),
        told=vectors @ vectors.T,
        left=float(((y - x @ coefficients) ** 2).sum()),
        rank=int(kept.sum()),
    )
