"""Sphericity: whether all contrasts of a table of runs by seeds vary equally over seeds.

    S = covariance over n seeds of p contrasts of the runs, orthonormal        U = p·tr S²/(tr S)² - 1        John 1971
    ε = 1/(1 + U)                                                      1 where they all vary equally, 1/p at the least

U is 0 where one error is valid for all effects. For unstructured normal values its distribution depends only on p and n
and is simulated with a fixed seed, since the usual approximations (Mauchly's, Nagao's) need more seeds than there are,
and Mauchly's more than contrasts. ε multiplies the degrees of freedom of an F over several contrasts (Box 1954,
Greenhouse & Geisser 1959).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ablate.statistics.magnitude import divided, magnitude

Floats = NDArray[np.float64]

DRAWS = 9_999
"""The number of simulated unstructured tables."""


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
    """Compute U of each of several tables [tables, contrasts, seeds]; NaN where one does not vary."""
    apart = tables - tables.mean(axis=2, keepdims=True)
    p, n = apart.shape[1:]
    products = apart @ apart.swapaxes(1, 2) if p <= n else apart.swapaxes(1, 2) @ apart
    trace = np.trace(products, axis1=1, axis2=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        u: Floats = p * (products**2).sum(axis=(1, 2)) / trace**2 - 1
    return u


@lru_cache(maxsize=32)
def _without_structure(p: int, n: int) -> Floats:
    """Simulate U of normal tables whose contrasts vary equally; sorted."""
    random = np.random.default_rng(0)
    at_once = max(1, 2_000_000 // (p * n))
    drawn = [_u(random.standard_normal((min(at_once, DRAWS - start), p, n))) for start in range(0, DRAWS, at_once)]
    return np.sort(np.concatenate(drawn))
