"""Subnetworks: from bounds on a whole network's maps to those of one nonlinear layer.

A network is viewed as an MLP: a stack of L nonlinear layers, each the branch of a residual x -> α x + √(1 - α²) f(x),
or without a skip where α = 0. With r the local map of a layer, its C map say, the stack's map is L times

    x -> α² x + (1 - α²) r(x)

and its subnetworks are runs of residual blocks and the bare branches. A local map is chosen so that the largest value
over all of them, at some starting point, is the target:

    slope      r(y) = ψ y, from 1:      the largest C'(1) is ζ        skipless: ψ = ζ^(1/L)
    curvature  r(y) = y + κ, from 0:    the largest C''(1) is τ where C'(1) = 1

    Martens et al. 2021, arXiv:2110.01765 (slope); Zhang et al. 2022, arXiv:2203.08120 (curvature).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ablate.errors import InputError

MOST_LAYERS = 10_000
"""The most layers; more would take too long in a plan."""
HALVINGS = 200
"""The most bisection steps; it also ends where no float lies between."""


@dataclass(frozen=True, slots=True)
class ResidualStack:
    """L = `layers` nonlinear layers, each in a residual with `skip` α; InputError for invalid values."""

    layers: float
    skip: float = 0.0

    def __post_init__(self) -> None:
        if not (1 <= self.layers <= MOST_LAYERS and float(self.layers).is_integer()):
            raise InputError(
                f"a network of {self.layers:g} nonlinear layers cannot be shaped\n"
                f"  = give `layers` a whole number from 1 to {MOST_LAYERS}"
            )
        if not 0 <= self.skip <= 1:
            raise InputError(
                f"{self.skip:g} is not the weight of a normalised skip, whose branch has the weight sqrt(1 - skip**2)\n"
                "  = give `skip` a number from 0 (no skip) to 1"
            )

    def largest(self, local: Callable[[float], float], start: float) -> float:
        """Return the largest value of the maps of all subnetworks at `start`, where each layer's own map is `local`.

        >>> ResidualStack(3).largest(lambda y: 2 * y, 1.0)
        8.0
        """
        through, branch = self.skip**2, (1 - self.skip) * (1 + self.skip)
        x = start
        for _ in range(int(self.layers)):
            x = (through * x if through else 0.0) + branch * local(x)  # avoids 0 · inf where the maps overflow
        return max(x, local(start))

    def slope(self, psi: float) -> float:
        """Return the largest C'(1) where each layer's is ψ."""
        return self.largest(lambda y: psi * y, 1.0)

    def curvature(self, kappa: float) -> float:
        """Return the largest C''(1) where each layer's is κ, and C'(1) = 1."""
        return self.largest(lambda y: y + kappa, 0.0)

    def local_slope(self, zeta: float) -> float:
        """Find ψ >= 1 with `slope(ψ)` = ζ, for ζ >= 1."""
        return bisect(lambda psi: self.slope(psi) - zeta, 1.0, zeta)

    def local_curvature(self, tau: float) -> float:
        """Find κ >= 0 with `curvature(κ)` = τ, for τ >= 0."""
        return bisect(lambda kappa: self.curvature(kappa) - tau, 0.0, tau)

    def __str__(self) -> str:
        """Describe the stack for messages."""
        layers = f"{self.layers:g} layer{'s' if self.layers > 1 else ''}"
        return f"{layers} in skips of {self.skip:g}" if self.skip else layers


def bisect(increasing: Callable[[float], float], low: float, high: float) -> float:
    """Find where a non-decreasing function crosses 0 between `low` and `high`, to within a few bits."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if increasing(middle) < 0:
            low = middle
        else:
            high = middle
    return high
