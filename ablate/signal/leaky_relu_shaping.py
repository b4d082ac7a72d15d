"""Leaky ReLU shaped by its own slope: the closed forms of DKS and TAT for max(x, s x), 0 <= s <= 1.

φ̂(x) = output_scale · (φ_s(x + b) + output_shift)

TAT    C(c) = ((1-s)² (√(1-c²) + (π - acos c) c) / π + 2 s c) / (1 + s²)        no shifts; C'(1) = 1, Q'(1) = 1
       s from C(0) = η through the whole network; output_scale = √(2 / (1 + s²))
DKS    C'(1) = 1 / (1 - (1-s)² / (π (1 + s²))) = ψ,  C(0) = 0 by output_shift = -(1-s) / √(2π);  b = 0, Q'(1) = 1

DKS with another Q'(1) = ρ has an input shift b. With Φ and φ the normal distribution function and density at b, and
m = b Φ + φ and v = (1 + b²) Φ + b φ - m² the mean and variance of max(z + b, 0) for standard normal z:

       Var φ_s(z + b) = s² + 2 s (1-s) Φ + (1-s)² v = V,  output_scale = 1/√V,  output_shift = -(s b + (1-s) m)
       1 - 1/C'(1) = (1-s)² (Φ - v) / (Φ + s² (1-Φ))        Q'(1) - 1 = -b (1-s) (s φ + (1-s) (1-Φ) m) / V

so that b > 0 where ρ < 1. The first gives s for each b, and of the b that then give ρ that nearest to 0 is taken.

Zhang et al. 2022, arXiv:2203.08120 (TAT); Martens et al. 2021, arXiv:2110.01765 (DKS).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from ablate.errors import InputError
from ablate.signal.affine import Affine
from ablate.signal.subnetworks import Network, bisect

FURTHEST, STEPS = 6.0, 600
"""The largest shift of the input that is looked at, and the steps up to it."""


@dataclass(frozen=True, slots=True)
class ShapedLeakyReLU:
    """The slope s of negative inputs, and the affine maps around, whose input_scale is 1."""

    slope: float
    affine: Affine


def leaky_correlation(c: float, slope: float) -> float:
    """Compute C(c) of leaky ReLU without shifts, for c in [-1, 1].

    >>> leaky_correlation(0.5, 1.0), leaky_correlation(1.0, 0.2)
    (0.5, 1.0)
    """
    angle = math.sqrt((1 - c) * (1 + c)) + (math.pi - math.acos(c)) * c
    return ((1 - slope) ** 2 * angle / math.pi + 2 * slope * c) / (1 + slope**2)


@functools.lru_cache(maxsize=256)
def leaky_by_correlation(eta: float, network: Network) -> ShapedLeakyReLU:
    """TAT: the leaky ReLU whose largest C(0) over the network's subnetworks is η, within (0, 1).

    Raises InputError where even ReLU, s = 0, stays below: in shallow networks.
    """
    largest = _network_correlation(0.0, network)
    if eta > largest:
        raise InputError(
            f"TAT finds no leaky ReLU that brings C(0) to eta {eta:g} over {network}; "
            f"the largest is {largest:.4g}, that of ReLU\n"
            f"  = choose an eta below {math.floor(1000 * largest) / 1000:g}, or more layers"
        )
    slope = bisect(lambda s: eta - _network_correlation(s, network), 0.0, 1.0)
    return ShapedLeakyReLU(slope, Affine(output_scale=math.sqrt(2 / (1 + slope**2))))


@functools.lru_cache(maxsize=256)
def leaky_by_slope(zeta: float, network: Network, q_slope: float = 1.0) -> ShapedLeakyReLU:
    """DKS: the leaky ReLU whose largest C'(1) over the network's subnetworks is ζ > 1.

    `q_slope` is Q'(1) of the whole network. Raises InputError where ψ is above π / (π - 1) = 1.467, that of ReLU, and
    for a `q_slope` other than 1 that the network or the activation cannot have.
    """
    psi, rho = network.local_slope(zeta), network.local_q_slope(q_slope)
    if rho != 1:
        return _with_input_shift(psi, rho, f"zeta {zeta:g} and q_slope {q_slope:g} over {network}")
    # C'(1) = ψ is (1-s)² = π (1 - 1/ψ) (1+s²); with k the rest that follows, s² k - 2 s + k = 0.
    k = 1 - math.pi * (psi - 1) / psi
    if k < 0:
        largest = math.pi / (math.pi - 1)
        raise InputError(
            f"DKS finds no leaky ReLU with C'(1) = {psi:.4g}, as zeta {zeta:g} over {network} requires; "
            f"the largest is {largest:.4g}, that of ReLU, which makes zeta {network.slope(largest):.4g}\n"
            "  = choose a smaller zeta, or more layers"
        )
    slope = k / (1 + math.sqrt((1 - k) * (1 + k)))
    mean = (1 - slope) / math.sqrt(2 * math.pi)
    return ShapedLeakyReLU(slope, Affine(output_shift=-mean, output_scale=((1 + slope**2) / 2 - mean**2) ** -0.5))


def _with_input_shift(psi: float, rho: float, required: str) -> ShapedLeakyReLU:
    """Return the leaky ReLU with C'(1) = ψ and Q'(1) = ρ, other than 1, whose input is shifted the least."""
    sign, away = math.copysign(1.0, 1 - rho), abs(rho - 1)
    reached, last, side = 0.0, 0.0, -1.0

    def beyond(b: float) -> float:
        return abs(_Shifted.of(sign * b, psi).q_slope - 1) - away

    for shift in (FURTHEST * step / STEPS for step in range(1, STEPS + 1)):
        here = math.copysign(1.0, beyond(shift))
        if here != side:  # it is crossed in between, from either side
            solved = bisect(lambda b, rising=here: rising * beyond(b), last, shift)  # type: ignore[misc]
            if (found := _Shifted.of(sign * solved, psi)).exists:
                return found.shaped
        elif here < 0 and (near := _Shifted.of(sign * shift, psi)).exists:
            reached = max(reached, abs(near.q_slope - 1))
        last, side = shift, here
    bound = f"; the {'least' if sign > 0 else 'largest'} found is {1 - sign * reached:.4g}" if reached else ""
    raise InputError(
        f"DKS finds no leaky ReLU with C'(1) = {psi:.4g} and Q'(1) = {rho:.4g}, as {required} require{bound}\n"
        "  = choose a smaller zeta, or a q_slope nearer to 1"
    )


@dataclass(frozen=True, slots=True)
class _Shifted:
    """Leaky ReLU behind a `shift` of its input, of the slope of negative inputs that gives C'(1); it `exists` if >= 0.

    `below` and `above` are the shares of inputs on either side of the kink, 1 - Φ and Φ, and `density` is φ there.
    """

    shift: float
    slope: float
    exists: bool
    below: float
    above: float
    density: float

    @staticmethod
    def of(shift: float, psi: float) -> _Shifted:
        """Solve (1-s)² D = a (Φ + s² (1-Φ)) for s, with a = 1 - 1/ψ and D = Φ - v; s is 0 where there is none."""
        below, above = math.erfc(shift / math.sqrt(2)) / 2, math.erfc(-shift / math.sqrt(2)) / 2
        density = math.exp(-(shift**2) / 2) / math.sqrt(2 * math.pi)
        mean, a = shift * above + density, (psi - 1) / psi
        curved = mean * (mean - shift)
        rest = curved - a * above
        slope = rest / (curved + math.sqrt(a * (curved - a * above * below))) if rest > 0 else 0.0
        return _Shifted(shift, slope, rest >= 0, below, above, density)

    @property
    def mean(self) -> float:
        """E max(z + b, 0)."""
        return self.shift * self.above + self.density

    @property
    def variance(self) -> float:
        """The variance of the output."""
        s, m = self.slope, self.mean
        kinked = self.above + self.shift * m - m**2
        return s**2 + 2 * s * (1 - s) * self.above + (1 - s) ** 2 * kinked

    @property
    def q_slope(self) -> float:
        """Q'(1) between the output's maps."""
        s = self.slope
        turned = s * self.density + (1 - s) * self.below * self.mean
        return 1 - self.shift * (1 - s) * turned / self.variance

    @property
    def shaped(self) -> ShapedLeakyReLU:
        """The leaky ReLU with its maps, of mean 0 and variance 1."""
        mean = self.slope * self.shift + (1 - self.slope) * self.mean
        return ShapedLeakyReLU(self.slope, Affine(1.0, self.shift, -mean, self.variance**-0.5))


def _network_correlation(slope: float, network: Network) -> float:
    """Return the largest C(0) of the network's subnetworks."""
    return network.largest(lambda c: leaky_correlation(min(c, 1.0), slope), 0.0)
