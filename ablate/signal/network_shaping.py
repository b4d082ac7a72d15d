"""Network shaping: affine maps around activations, gains of attention, and those of a layer from a whole network's.

A plan needs this file, so it loads no NumPy; activations without a closed form are solved in `kernel_maps`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ablate.block.network import Branch, Elements, Layer, Repeated, Residual
from ablate.errors import InputError


@dataclass(frozen=True, slots=True)
class AffineMaps:
    """The maps around an activation, x -> output_scale · (φ(input_scale · x + input_shift) + output_shift)."""

    input_scale: float = 1.0
    input_shift: float = 0.0
    output_shift: float = 0.0
    output_scale: float = 1.0

    def before(self, x: str) -> str:
        """The input map as text, applied to the text x.

        >>> AffineMaps(0.5, -1).before("x"), AffineMaps(0.5).before("x W")
        ('0.5 x - 1', '0.5 (x W)')
        """
        return f"{self.input_scale:.4g} {_one_term(x)}{_added(self.input_shift)}"

    def shifted(self, x: str) -> str:
        """The input map without its scale as text, applied to the text x.

        >>> AffineMaps(input_shift=-0.5).shifted("x"), AffineMaps().shifted("x W")
        ('x - 0.5', 'x W')
        """
        return f"{x}{_added(self.input_shift)}"

    def after(self, y: str) -> str:
        """The output map as text.

        >>> AffineMaps(output_shift=0.25, output_scale=2).after("f(x)"), AffineMaps(output_scale=2).after("f(x; 0.1)")
        ('2 (f(x) + 0.25)', '2 f(x; 0.1)')
        """
        return f"{self.output_scale:.4g} {_one_term(y + _added(self.output_shift))}"


UNCHANGED = AffineMaps()


def _one_term(text: str) -> str:
    depths = itertools.accumulate((sign == "(") - (sign == ")") for sign in text)
    several = any(sign == " " and depth == 0 for sign, depth in zip(text, depths, strict=True))
    return f"({text})" if several else text


def _added(number: float) -> str:
    return f" {'-' if number < 0 else '+'} {abs(number):.4g}" if number else ""


# Mixing: how attention mixes values, as gains of the matrices that it is made of.


@dataclass(frozen=True, slots=True)
class Mixing:
    """α I + β A - γ C, with A the softmax of the scores and C the same at zero scores: `skip`, `gain` and `centre`.

    Where they are given, `bias` B [T, T] is added to the scores, and `rows` D [T] multiply the rows of A.
    """

    skip: float = 0.0
    gain: float = 1.0
    centre: float = 0.0
    bias: Any = None
    rows: Any = None


# Subnetworks: from bounds on a whole network's maps to those of one nonlinear layer.
#
# A network is viewed as an MLP: a sequence of nonlinear layers and of residuals, whose branches are such sequences
# again (`block/network.py`). With r the local map of a layer, its C map say, and b_i the maps of a residual's
# branches, a residual's map is
#
#     x -> s x + g_1 b_1(x) + g_2 b_2(x) + …        s + g_1 + g_2 + … = 1
#
# in shares of the mean square of the sum. In a stack, L layers each in a residual x -> α x + √(1 - α²) f(x), s is α².
#
# Subnetworks are runs of elements, of the whole and of each branch. A local map is chosen so that the largest value
# over all of them, at some starting point, is the target:
#
#     slope      r(y) = ψ y, from 1:      the largest C'(1) is ζ        skipless: ψ = ζ^(1/L)
#     curvature  r(y) = y + κ, from 0:    the largest C''(1) is τ where C'(1) = 1
#
# These maps are nowhere below the identity, and neither is then that of any run, so that a run's value is never above
# that of the sequence it is a run of: the largest is that of the whole or of one branch by itself.
#
# The slope Q'(1) of the map of mean squares goes through a network in the same shares, r(y) = ρ y from 1, if every
# sum has the mean square 1. Its target is that of the whole network, and may be below 1.
#
#     Martens et al. 2021, arXiv:2110.01765 (slope); Zhang et al. 2022, arXiv:2203.08120 (curvature).

MOST_LAYERS = 10_000  # the most layers; more would take too long in a plan
HALVINGS = 200  # the most bisection steps; it also ends where no float lies between

HIGHEST = 1e12  # the highest Q'(1) of a layer that is looked at

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
        """The largest C'(1) where each layer's is ψ."""
        return self.largest(lambda y: psi * y, 1.0)

    def curvature(self, kappa: float) -> float:
        """The largest C''(1) where each layer's is κ, and C'(1) = 1."""
        return self.largest(lambda y: y + kappa, 0.0)

    def local_slope(self, zeta: float) -> float:
        """ψ >= 1 with `slope(ψ)` = ζ, for ζ >= 1."""
        return bisect(lambda psi: self.slope(psi) - zeta, 1.0, zeta)

    def local_curvature(self, tau: float) -> float:
        """κ >= 0 with `curvature(κ)` = τ, for τ >= 0."""
        return bisect(lambda kappa: self.curvature(kappa) - tau, 0.0, tau)

    def q_slope(self, rho: float) -> float:
        """Q'(1) of the whole network where each layer's is ρ."""
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
        return self.description


def residual_stack(layers: float, skip: float = 0.0) -> Network:
    """Nonlinear layers, each in a residual with `skip` α; InputError for invalid values."""
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
    for element in elements:
        match element:
            case Residual(branches=branches):
                for branch in branches:
                    yield branch.elements
                    yield from _branches(branch.elements)
            case Repeated(elements=repeated):
                yield from _branches(repeated)


def _through(elements: Elements, local: LocalMap, x: float) -> float:
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
    """The zero of a non-decreasing function between `low` and `high`, to within a few bits."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if increasing(middle) < 0:
            low = middle
        else:
            high = middle
    return high


# Leaky ReLU shaped by its own slope: the closed forms of DKS and TAT for max(x, s x), 0 <= s <= 1.
#
# φ̂(x) = output_scale · (φ_s(x + b) + output_shift)
#
# TAT    C(c) = ((1-s)² (√(1-c²) + (π - acos c) c) / π + 2 s c) / (1 + s²)        no shifts; C'(1) = 1, Q'(1) = 1
#        s from C(0) = η through the whole network; output_scale = √(2 / (1 + s²))
# DKS    C'(1) = 1 / (1 - (1-s)² / (π (1 + s²))) = ψ,  C(0) = 0 by output_shift = -(1-s) / √(2π);  b = 0, Q'(1) = 1
#
# DKS with another Q'(1) = ρ has an input shift b. With Φ and φ the normal distribution function and density at b, and
# m = b Φ + φ and v = (1 + b²) Φ + b φ - m² the mean and variance of max(z + b, 0) for standard normal z:
#
#        Var φ_s(z + b) = s² + 2 s (1-s) Φ + (1-s)² v = V,  output_scale = 1/√V,  output_shift = -(s b + (1-s) m)
#        1 - 1/C'(1) = (1-s)² (Φ - v) / (Φ + s² (1-Φ))        Q'(1) - 1 = -b (1-s) (s φ + (1-s) (1-Φ) m) / V
#
# so that b > 0 where ρ < 1. The first gives s for each b, and of the b that then give ρ that nearest to 0 is taken.
#
# Zhang et al. 2022, arXiv:2203.08120 (TAT); Martens et al. 2021, arXiv:2110.01765 (DKS).

FURTHEST, STEPS = 6.0, 600  # the largest shift of the input that is looked at, and the steps up to it


@dataclass(frozen=True, slots=True)
class ShapedLeakyReLU:
    """The slope s of negative inputs, and the affine maps around, whose input_scale is 1."""

    slope: float
    affine: AffineMaps


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
    return ShapedLeakyReLU(slope, AffineMaps(output_scale=math.sqrt(2 / (1 + slope**2))))


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
    return ShapedLeakyReLU(slope, AffineMaps(output_shift=-mean, output_scale=((1 + slope**2) / 2 - mean**2) ** -0.5))


def _with_input_shift(psi: float, rho: float, required: str) -> ShapedLeakyReLU:
    """The leaky ReLU with C'(1) = ψ and Q'(1) = ρ, other than 1, whose input is shifted the least."""
    sign, away = math.copysign(1.0, 1 - rho), abs(rho - 1)
    reached, last, side = 0.0, 0.0, -1.0

    def beyond(b: float, rising: float = 1.0) -> float:
        return rising * (abs(_Shifted.of(sign * b, psi).q_slope - 1) - away)

    for shift in (FURTHEST * step / STEPS for step in range(1, STEPS + 1)):
        here = math.copysign(1.0, beyond(shift))
        if here != side:  # it is crossed in between, from either side
            solved = bisect(functools.partial(beyond, rising=here), last, shift)
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
        return ShapedLeakyReLU(self.slope, AffineMaps(1.0, self.shift, -mean, self.variance**-0.5))


def _network_correlation(slope: float, network: Network) -> float:
    """The largest C(0) of the network's subnetworks."""
    return network.largest(lambda c: leaky_correlation(min(c, 1.0), slope), 0.0)
