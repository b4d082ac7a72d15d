"""The mean over strata of what a treatment does in each, where these strata are all that is asked about.

With n_g differences in stratum g of G, their mean d_g and variance s_g² (of two samples s²/n + r²/m in place of
s_g²/n_g, with n - 1 and m - 1 degrees of freedom):

    difference    Σ d_g / G
    error         √(Σ s_g²/n_g) / G
    df            (Σ s_g²/n_g)² / Σ (s_g²/n_g)²/(n_g - 1)            Satterthwaite 1946
                  min n_g - 1, where that is below `TELLING` - 1

Runs vary within strata alone: the strata are not drawn from others. Satterthwaite's df are estimated, and where one
stratum is noisier than all others and has few runs they are too many: at 4 %, p is below it in 8.5 % of 20 strata of
two differences each, one of ten times the sd of the others, in 6.3 % of three, and in 4.8 % of five.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.statistics.by_t import ByT
from ablate.statistics.magnitude import divided, magnitude, times
from ablate.statistics.welch import TELLING

Samples = Sequence[Sequence[float]]
"""What is known of one stratum: its differences, or the values of both sides, before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratified(ByT):
    """The mean difference over `strata`, and that of `each`; `n` is the number of runs of the smallest side of one."""

    strata: int
    n: int
    each: tuple[float, ...]

    @property
    def of_smallest(self) -> bool:
        """Return whether the degrees of freedom are those of the smallest stratum alone."""
        return self.df is not None and self.n < TELLING


def stratified(strata: Sequence[Samples], *, confidence: float = 0.95) -> Stratified:
    """Compare two sides over strata, each with its differences, or with the values before and those after.

    ValueError without a stratum, for a side of one with fewer than two values, and for one that is not finite.

    >>> result = stratified([[[0.1, 0.2, 0.3, 0.2, 0.1]], [[0.3, 0.4, 0.5, 0.4, 0.4]]])
    >>> round(result.difference, 3), round(result.error, 4), round(result.df or 0, 1)
    (0.29, 0.0245, 7.8)
    """
    sides = [[np.asarray(side, dtype=np.float64) for side in samples] for samples in strata]
    flat = [side for samples in sides for side in samples]
    if not flat or min(side.size for side in flat) < 2 or not all(np.isfinite(side).all() for side in flat):
        raise ValueError("strata need two or more finite values a side")
    k = magnitude(*flat)
    sides = [[divided(side, k) for side in samples] for samples in sides]
    each = [float(samples[-1].mean()) - (float(samples[0].mean()) if len(samples) > 1 else 0.0) for samples in sides]
    parts = [(float(side.var(ddof=1)) / side.size, side.size - 1) for samples in sides for side in samples]
    count, whole = len(sides), sum(part for part, _ in parts)
    smallest, df = min(side.size for side in flat), None
    if whole > 0:
        df = whole**2 / sum(part**2 / of for part, of in parts) if smallest >= TELLING else float(smallest - 1)
    return Stratified.of(
        sum(each) / count,
        math.sqrt(whole) / count,
        df,
        confidence=confidence,
        unit=k,
        strata=count,
        n=smallest,
        each=tuple(times(mean, k) for mean in each),
    )
