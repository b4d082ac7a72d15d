"""Depth laws: how a positive quantity goes with depth, as a power, as an exponential, not at all, or by neither.

    flat           max / min below `FLAT`
    power          v = a (x + s)^c              1 for linear growth, -1 for a hyperbola; s ≥ 0 is fitted, too
    exponential    v = a e^{c x}                c is the rate a layer

The power and the exponential are fitted to log v by least squares. The nearer one is the law, or neither, if it leaves
more than a tenth of the variance of log v. A power has a number more to fit, s, which favours it where depths are few.
Depth x is the layer in a model, or the number of layers of several models.

    Kedia et al. 2024, arXiv:2403.09635, Table 3 and Fig. 1 to 4 (O(1), O(N), O(c^N)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ablate.signal.propagation import Array

Kind: TypeAlias = Literal["flat", "power", "exponential", "neither"]

FLAT = 1.5
"""A quantity that varies by less than this factor is flat."""
LEAST_R2 = 0.9
"""Curves that leave more than 1 minus this of the variance of log v are no law of it."""
FEWEST = 4
"""The fewest depths that a law is fitted to."""
SHIFTS = 400
"""How many values of s are tried, evenly spread by their logarithms, besides 0."""


@dataclass(frozen=True, slots=True)
class DepthLaw:
    """The kind of law, its `exponent` c, its `shift` s (0 but for a power), and r² of log v of the nearer curve.

    r² is 1 for a flat one, and c is 0 there and for neither.
    """

    kind: Kind
    exponent: float
    shift: float
    r2: float

    def __str__(self) -> str:
        """Write the law as a formula of the layer.

        >>> str(DepthLaw("power", 1.0, 0.5, 0.999)), str(DepthLaw("exponential", -0.077, 0.0, 1.0))
        ('(layer + 0.5)^1', 'e^(-0.077 layer)')
        """
        if self.kind in ("flat", "neither"):
            return self.kind
        if self.kind == "exponential":
            return f"e^({self.exponent:.3g} layer)"
        return f"(layer + {self.shift:.2g})^{self.exponent:.3g}" if self.shift else f"layer^{self.exponent:.3g}"


def depth_law(depths: Sequence[float], values: Sequence[float]) -> DepthLaw | None:
    """Fit the law of values at depths ≥ 0; None for fewer than `FEWEST`, or if a value is 0 or not finite."""
    x, v = np.asarray(depths, dtype=float), np.asarray(values, dtype=float)
    if len(x) < FEWEST or not (np.isfinite(v).all() and (v > 0).all()):
        return None
    if v.max() < FLAT * v.min():
        return DepthLaw("flat", 0.0, 0.0, 1.0)
    y = np.log(v)
    rate, missed = _line(x, y)
    exponential = DepthLaw("exponential", rate, 0.0, _r2(missed, y))
    shifts = np.geomspace(1e-2, x.max(), SHIFTS)
    powers = [(*_line(np.log(x + s), y), float(s)) for s in ((0.0, *shifts) if x.min() > 0 else shifts)]
    exponent, missed, shift = min(powers, key=lambda power: power[1])
    power = DepthLaw("power", exponent, shift, _r2(missed, y))
    nearer = power if power.r2 > exponential.r2 else exponential
    return nearer if nearer.r2 >= LEAST_R2 else DepthLaw("neither", 0.0, 0.0, nearer.r2)


def _line(x: Array, y: Array) -> tuple[float, float]:
    """Return the slope of the line of least squares, and the sum of squares that it misses."""
    apart = x - x.mean()
    slope = float(apart @ y / (apart @ apart))
    return slope, float(((y - y.mean() - slope * apart) ** 2).sum())


def _r2(missed: float, y: Array) -> float:
    return 1 - missed / float(((y - y.mean()) ** 2).sum())
