"""Contrasts of a table of runs by seeds: least squares with seeds as blocks, and whether all vary equally."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ablate.statistics.spread import divided, magnitude

# Least squares with blocks: block means are subtracted before anything is fitted.
#
# A model of block means and columns X has the same coefficients and residuals as X alone, after each block's means
# are subtracted on both sides (Frisch & Waugh 1933, Lovell 1963).

Floats = NDArray[np.float64]

RANK = 1e-9  # an eigenvalue of XᵀX below this share of the largest counts as zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The minimum-norm coefficients, the residual sum of squares `left`, and the rank of X.

    `weights` [columns, cells] give the coefficients from y, `shares` are their variances in units of the error
    variance. `told` [columns, columns] projects on the estimable part: a coefficient is estimable where its diagonal is
    1, and confounded with the other columns at which its row is not 0.
    """

    coefficients: Floats
    weights: Floats
    shares: Floats
    told: Floats
    left: float
    rank: int


def less_block_means(columns: Floats, blocks: NDArray[np.intp]) -> Floats:
    """Columns [cells, columns] less the means of their blocks, which are numbered from 0."""
    counts = np.maximum(np.bincount(blocks), 1)
    sums = np.zeros((counts.size, columns.shape[1]))
    np.add.at(sums, blocks, columns)
    return columns - (sums / counts[:, None])[blocks]


def least_squares(x: Floats, y: Floats) -> Fit:
    """Fit y [cells] on x [cells, columns], of any rank."""
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


# Sphericity: whether all contrasts of a table of runs by seeds vary equally over seeds.
#
#   S = covariance over n seeds of p contrasts of the runs, orthonormal        U = p·tr S²/(tr S)² - 1        John 1971
#   ε = 1/(1 + U)                                                      1 where they all vary equally, 1/p at the least
#
# U is 0 where one error is valid for all effects. Its distribution for unstructured normal values depends only on p and
# n, and is simulated with a fixed seed: Mauchly's and Nagao's approximations need more seeds. ε multiplies the degrees
# of freedom of an F over several contrasts (Box 1954, Greenhouse & Geisser 1959).


DRAWS = 9_999  # the number of simulated unstructured tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Sphericity:
    """John's U of contrasts over seeds, its p, and Box's ε."""

    u: float
    p: float
    epsilon: float


def sphericity(contrasts: Floats) -> Sphericity | None:
    """Test orthonormal `contrasts` [contrasts, seeds]; None for a single one, for one seed, and without spread.

    p = (1 + number of simulated tables with U or more)/(1 + `DRAWS`).
    """
    p, n = contrasts.shape
    if p < 2 or n < 2:
        return None
    u = _u(divided(contrasts, magnitude(contrasts))[None])[0]
    if not np.isfinite(u):
        return None
    reached = DRAWS - int(np.searchsorted(_without_structure(p, n), u - 1e-12))
    return Sphericity(u=float(u), p=(1 + reached) / (1 + DRAWS), epsilon=float(1 / (1 + u)))


def _u(tables: Floats) -> Floats:
    """U of each of several tables [tables, contrasts, seeds]; NaN where one does not vary."""
    apart = tables - tables.mean(axis=2, keepdims=True)
    p, n = apart.shape[1:]
    products = apart @ apart.swapaxes(1, 2) if p <= n else apart.swapaxes(1, 2) @ apart
    trace = np.trace(products, axis1=1, axis2=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        u: Floats = p * (products**2).sum(axis=(1, 2)) / trace**2 - 1
    return u


@lru_cache(maxsize=32)
def _without_structure(p: int, n: int) -> Floats:
    """U of simulated normal tables whose contrasts vary equally; sorted."""
    random = np.random.default_rng(0)
    at_once = max(1, 2_000_000 // (p * n))
    drawn = [_u(random.standard_normal((min(at_once, DRAWS - start), p, n))) for start in range(0, DRAWS, at_once)]
    return np.sort(np.concatenate(drawn))
