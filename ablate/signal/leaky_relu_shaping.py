"""Leaky ReLU shaped by its own slope: the closed forms of DKS and TAT for max(x, s x), 0 <= s <= 1.

φ̂(x) = output_scale · (φ_s(x) + output_shift)

TAT    C(c) = ((1-s)² (√(1-c²) + (π - acos c) c) / π + 2 s c) / (1 + s²)        no shifts; C'(1) = 1, Q'(1) = 1
       s from C(0) = η through the whole network; output_scale = √(2 / (1 + s²))
DKS    C'(1) = 1 / (1 - (1-s)² / (π (1 + s²))) = ψ,  C(0) = 0 by output_shift = -(1-s) / √(2π);  Q'(1) = 1

Zhang et al. 2022, arXiv:2203.08120 (TAT); Martens et al. 2021, arXiv:2110.01765 (DKS).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from ablate.errors import InputError
from ablate.signal.affine import Affine
from ablate.signal.subnetworks import Network, bisect


@dataclass(frozen=True, slots=True)
class ShapedLeakyReLU:
    """The slope s of negative inputs, and the affine maps around."""

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
def leaky_by_slope(zeta: float, network: Network) -> ShapedLeakyReLU:
    """DKS: the leaky ReLU whose largest C'(1) over the network's subnetworks is ζ > 1.

    Raises InputError where ψ is above π / (π - 1) = 1.467, that of ReLU.
    """
    psi = network.local_slope(zeta)
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


def _network_correlation(slope: float, network: Network) -> float:
    """Return the largest C(0) of the network's subnetworks."""
    return network.largest(lambda c: leaky_correlation(min(c, 1.0), slope), 0.0)
