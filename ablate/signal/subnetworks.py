"""Subnetworks: from bounds on a whole network's maps to those of one nonlinear layer.

A network is viewed as an MLP: a sequence of nonlinear layers and of residuals, whose branches are such sequences again
(`block/network.py`). With r the local map of a layer, its C map say, and b_i the maps of a residual's branches, a
residual's map is

    x -> s x + g_1 b_1(x) + g_2 b_2(x) + …        s + g_1 + g_2 + … = 1

in shares of the mean square of the sum. In a stack, L layers each in a residual x -> α x + √(1 - α²) f(x), s is α².

Subnetworks are runs of elements, of the whole and of each branch. A local map is chosen so that the largest value over
all of them, at some starting point, is the target:

    slope      r(y) = ψ y, from 1:      the largest C'(1) is ζ        skipless: ψ = ζ^(1/L)
    curvature  r(y) = y + κ, from 0:    the largest C''(1) is τ where C'(1) = 1

These maps are nowhere below the identity, and neither is then that of any run, so that a run's value is never above
that of the sequence it is a run of: the largest is that of the whole or of one branch by itself.

The slope Q'(1) of the map of mean squares goes through a network in the same shares, r(y) = ρ y from 1, if every sum
has the mean square 1. Its target is that of the whole network, and may be below 1.

    Martens et al. 2021, arXiv:2110.01765 (slope); Zhang et al. 2022, arXiv:2203.08120 (curvature).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ablate.block.network import Branch, Elements, Layer, Repeated, Residual
from ablate.errors import InputError

MOST_LAYERS = 10_000
"""The most layers; more would take too long in a plan."""
HALVINGS = 200
"""The most bisection steps; it also ends where no float lies between."""

HIGHEST = 1e12
"""The highest Q'(1) of a layer that is looked at."""

LocalMap: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Network:
    """A network whose nonlinear layers have one local map; `description` stands for it in messages."""

    elements: Elements
    description: str

    def largest(self, local: LocalMap, start: float) -> float:
        """Return the largest value of the maps of all subnetworks at `start`, where each layer's own map is `local`.

        `local` is nowhere below the identity and does not decrease.

        >>> residual_stack(3).largest(lambda y: 2 * y, 1.0)
        8.0
        """
        return max(_through(elements, local, start) for elements in (self.elements, *_branches(self.elements)))

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

    def q_slope(self, rho: float) -> float:
        """Return Q'(1) of the whole network where each layer's is ρ."""
        return _through(self.elements, lambda y: rho * y, 1.0)

    def local_q_slope(self, target: float) -> float:
        """Find ρ >= 0 with `q_slope(ρ)` = `target`, for a target above 0; 1 for 1.

        Raises InputError for a target below what skips alone carry, and for any but 1 where no branch has a share.
        """
        if target == 1:
            return 1.0
        least = self.q_slope(0.0)
        if target < least:
            at_least = f"choose a q_slope above {math.ceil(1000 * least) / 1000:g}" if least < 1 else "leave it at 1"
            raise InputError(
                f"q_slope is {target:g}, but over {self} Q'(1) is {least:.4g} by the skips alone\n  = {at_least}"
            )
        high = max(1.0, target)
        while self.q_slope(high) < target:
            if high > HIGHEST:
                raise InputError(
                    f"q_slope is {target:g}, but over {self} Q'(1) hardly depends on the layers\n  = leave it at 1"
                )
            high *= 2
        return bisect(lambda rho: self.q_slope(rho) - target, 0.0, high)

    def __str__(self) -> str:
        """Return the description."""
        return self.description


def residual_stack(layers: float, skip: float = 0.0) -> Network:
    """Make a network of nonlinear layers, each in a residual with `skip` α; InputError for invalid values."""
    if not (1 <= layers <= MOST_LAYERS and float(layers).is_integer()):
        raise InputError(
            f"a network of {layers:g} nonlinear layers cannot be shaped\n"
            f"  = give `layers` a whole number from 1 to {MOST_LAYERS}"
        )
    if not 0 <= skip <= 1:
        raise InputError(
            f"{skip:g} is not the weight of a normalised skip, whose branch has the weight sqrt(1 - skip**2)\n"
            "  = give `skip` a number from 0 (no skip) to 1"
        )
    one = Residual(skip**2, (Branch((1 - skip) * (1 + skip), (Layer(),)),))
    counted = f"{layers:g} layer{'s' if layers > 1 else ''}"
    return Network((Repeated(int(layers), (one,)),), f"{counted} in skips of {skip:g}" if skip else counted)


def _branches(elements: Elements) -> Iterator[Elements]:
    """Yield each branch in a sequence, and those inside of it."""
    for element in elements:
        match element:
            case Residual(branches=branches):
                for branch in branches:
                    yield branch.elements
                    yield from _branches(branch.elements)
            case Repeated(elements=repeated):
                yield from _branches(repeated)


def _through(elements: Elements, local: LocalMap, x: float) -> float:
    """Return the value of a sequence's map at x."""
    for element in elements:
        match element:
            case Layer():
                x = local(x)
            case Residual(skip=skip, branches=branches):
                y = skip * x if skip else 0.0  # avoids 0 · inf where the maps overflow, as below
                for branch in branches:
                    if branch.share:
                        y += branch.share * _through(branch.elements, local, x)
                x = y
            case Repeated(times=times, elements=repeated):
                for _ in range(times):
                    x = _through(repeated, local, x)
    return x


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
