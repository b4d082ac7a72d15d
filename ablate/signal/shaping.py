"""Shaping: the affine maps around an activation that give a deep network of it chosen kernel maps.

φ̂(x) = output_scale · (φ(input_scale · x + input_shift) + output_shift), by one of two sets of conditions (the maps
are those of `kernel_maps`, ψ and κ come from a target for the whole network, see `subnetworks`):

    DKS    Q(1) = 1, Q'(1) = ρ, C(0) = 0, C'(1) = ψ        Martens et al. 2021, arXiv:2110.01765
    TAT    Q(1) = 1, Q'(1) = ρ, C'(1) = 1, C''(1) = κ      Zhang et al. 2022, arXiv:2203.08120; smooth activations

In the papers ρ is 1; here it may follow from a target for Q'(1) of the whole network, too.

ReLU, and whatever else is linear on both sides of 0, does not distinguish input_scale from output_scale: under DKS its
input_shift is 1 or -1, and Q'(1) is not constrained.

**The numbers are not unique.** Newton's method (Powell's hybrid, MINPACK) starts from a fixed list, then from seeded
random points, and the first solution is taken; of a solution and its mirror images, that with input_scale > 0, and
input_shift > 0 for functions that are odd around 0. Solutions are cached per process, as layers share them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ablate.errors import InputError
from ablate.signal.affine import UNCHANGED, Affine
from ablate.signal.kernel_maps import Curved, Floats, Shaped, curved, kinks, local_maps, normal_nodes_of
from ablate.signal.subnetworks import Network, bisect

Vector: TypeAlias = Sequence[float]
Conditions: TypeAlias = Callable[[Vector], Vector]

SCALES, SHIFTS = (1.0, 0.1), (0.0, 1.0, -1.0)
"""The values of the fixed starts, in the order of their product."""
RANDOM_STARTS, SEED = 40, 123
HALVINGS_OF_REACH = 16
"""Bisection steps for the largest reachable target, which a refusal reports."""
TOLERANCE = 1e-9
"""The tolerance of each condition, relative to the target's distance from a linear network's."""
STEEPEST = 2.0
"""TAT's solutions come in two kinds; the steep ones, output_scale · φ'(…) · input_scale at 2 and above, are refused."""


@functools.lru_cache(maxsize=256)
def shape_by_slope(activation: Any, name: str, zeta: float, network: Network, q_slope: float = 1.0) -> Affine:
    """DKS: the maps around `activation`, named `name` by the user, for a network whose largest C'(1) is ζ > 1.

    `q_slope` is Q'(1) of the whole network. Raises InputError where no maps are found, with the largest ζ within reach,
    for an activation without a curve, and for a `q_slope` other than 1 that the network or the activation cannot have.
    """
    activation = curved(activation, name)
    psi, rho = network.local_slope(zeta), network.local_q_slope(q_slope)
    if is_homogeneous(activation):
        if q_slope != 1:
            raise InputError(
                f"q_slope is {q_slope:g}, but {name} is linear on both sides of 0: its input_scale only acts like its "
                "output_scale, and no number is left for a condition on Q'(1)\n"
                "  = leave q_slope at 1, at which it is none there, or shape another activation"
            )
        return _shape_homogeneous(activation, name, psi, zeta, network)
    search = _Search(
        lambda slope: _dks_conditions(activation, slope, rho),
        lambda numbers: _standardised(activation, numbers[0], numbers[1]),
        starts=tuple(itertools.product(SCALES, SHIFTS)),
    )
    affine = search.first(psi)
    if affine is None:
        reach = search.furthest(min(1.01, psi), psi)
        local, target = _with_q_slope(f"C'(1) = {psi:.4g}", f"zeta {zeta:g}", rho, q_slope)
        raise _out_of_reach("DKS", name, local, target, network, reach, network.slope, "zeta")
    return affine


@functools.lru_cache(maxsize=256)
def shape_by_curvature(activation: Any, name: str, tau: float, network: Network, q_slope: float = 1.0) -> Affine:
    """TAT for smooth activations: the maps for a network of C'(1) = 1 whose largest C''(1) is τ > 0.

    `q_slope` is Q'(1) of the whole network. Raises InputError where no maps are found, with the largest τ within reach,
    for an activation with kinks or without a curve, and for a `q_slope` other than 1 that the network cannot have.
    """
    activation = curved(activation, name)
    if kinks(activation):
        raise InputError(
            f"TAT bounds C''(1), which is infinite for {name}: its slope jumps at "
            f"{', '.join(f'{kink:g}' for kink in kinks(activation))}\n"
            "  = shape a smooth activation; leaky ReLU has a TAT of its own, by C(0)"
        )
    kappa, rho = network.local_curvature(tau), network.local_q_slope(q_slope)
    steepest = min(1.0, float(np.abs(activation.curve(np.linspace(-8.0, 8.0, 1601))[1]).max()))

    def affine(numbers: Vector) -> Affine | None:
        scale, shift, output_shift = numbers
        q = _q(activation, Affine(scale, shift, output_shift))
        canonical = Affine(scale, shift, output_shift, q**-0.5)
        return canonical if scale * canonical.output_scale * steepest < STEEPEST else None

    search = _Search(
        lambda curvature: _tat_conditions(activation, curvature, rho),
        affine,
        starts=tuple(itertools.product(SCALES, SHIFTS, SHIFTS)),
        odd_around=float(activation.curve(np.zeros(1))[0][0]),
    )
    maps = search.first(kappa)
    if maps is None:
        reach = search.furthest(min(1e-3, kappa), kappa)
        local, target = _with_q_slope(f"C''(1) = {kappa:.4g}", f"tau {tau:g}", rho, q_slope)
        raise _out_of_reach("TAT", name, local, target, network, reach, network.curvature, "tau")
    return maps


@functools.lru_cache(maxsize=256)
def rescale(activation: Any, name: str) -> Affine:
    """The output scale with E[φ̂(z)²] = 1 for standard normal z; InputError for an activation without a curve."""
    return Affine(output_scale=_q(curved(activation, name), UNCHANGED) ** -0.5)


def is_homogeneous(activation: Curved) -> bool:
    """Return whether φ is linear on both sides of a kink at 0, so that φ(kx) = k φ(x) for every k > 0."""
    if kinks(activation) != (0.0,):
        return False
    f = activation.curve(np.array([0.0, 1.0, 2.0, 7.0, -1.0, -2.0, -7.0]))[0]
    return bool(np.allclose(f, [0, f[1], 2 * f[1], 7 * f[1], f[4], 2 * f[4], 7 * f[4]], rtol=1e-12, atol=0))


@dataclass(frozen=True)
class _Search:
    """A search for numbers that meet `conditions(target)`; `affine` turns them into maps, or None where unwanted.

    The numbers are (input_scale, input_shift) or (input_scale, input_shift, output_shift). `odd_around` is φ(0), about
    which an odd function's output is mirrored where output_shift is one of the numbers.
    """

    conditions: Callable[[float], Conditions]
    affine: Callable[[Vector], Affine | None]
    starts: tuple[tuple[float, ...], ...]
    odd_around: float = 0.0

    def first(self, target: float) -> Affine | None:
        """Return the maps at the first solution, None if no start leads to one."""
        for start in (*self.starts, *self._random_starts()):
            solution = self._solve(target, start)
            affine = None if solution is None else self.affine(solution)
            if affine is not None:
                return affine
        return None

    def furthest(self, easy: float, target: float) -> float | None:
        """Return the largest target met between an easy one and one that is not met; None if neither is."""
        reached: float | None = None
        last: tuple[tuple[float, ...], ...] = ()
        middle = easy
        for _ in range(HALVINGS_OF_REACH):
            solved = (self._solve(middle, start) for start in (*last, *self.starts))
            solution = next(
                (candidate for candidate in solved if candidate is not None and self.affine(candidate) is not None),
                None,
            )
            if solution is not None:
                reached, easy, last = middle, middle, (solution,)
            elif reached is None:
                return None
            else:
                target = middle
            middle = math.sqrt(easy * target)
        return reached

    def _solve(self, target: float, start: Vector) -> tuple[float, ...] | None:
        from scipy.optimize import root

        conditions = self.conditions(target)
        with np.errstate(all="ignore"):
            solution = root(conditions, start, method="hybr", options={"xtol": 1e-14}).x
            if not self._met(conditions, solution):
                return None
            numbers = [abs(float(solution[0])), *map(float, solution[1:])]
            mirror = [numbers[0], -numbers[1], *(-2 * self.odd_around - shift for shift in numbers[2:])]
            return tuple(mirror if numbers[1] < 0 and self._met(conditions, mirror) else numbers)

    def _met(self, conditions: Conditions, numbers: Vector) -> bool:
        return bool(np.all(np.abs(conditions(numbers)) < TOLERANCE))

    def _random_starts(self) -> Iterator[tuple[float, ...]]:
        draw = np.random.default_rng(SEED)
        for _ in range(RANDOM_STARTS):
            scale = 10 ** draw.uniform(-2, 1)
            yield (float(scale), *(float(draw.uniform(-3, 3)) for _ in self.starts[0][1:]))


def _dks_conditions(activation: Curved, psi: float, rho: float) -> Conditions:
    def off(numbers: Vector) -> Vector:
        affine = _standardised(activation, numbers[0], numbers[1])
        if affine is None:
            return (math.nan, math.nan)
        maps = local_maps(activation, affine)
        return ((maps.q_slope - rho) / (psi - 1), (maps.c_slope_at_1 - psi) / (psi - 1))

    return off


def _tat_conditions(activation: Curved, kappa: float, rho: float) -> Conditions:
    def off(numbers: Vector) -> Vector:
        affine = Affine(*numbers)
        if not _usable(affine) or not _q(activation, affine) > 0:
            return (math.nan, math.nan, math.nan)
        maps = local_maps(activation, affine)
        curvature, q_slope = maps.c_curvature_at_1, maps.q_slope / maps.q
        return ((q_slope - rho) / kappa, (maps.c_slope_at_1 - 1) / kappa, (curvature - kappa) / kappa)

    return off


def _standardised(activation: Curved, scale: float, shift: float) -> Affine | None:
    """Return the maps with E[φ̂] = 0 and E[φ̂²] = 1, None where φ(scale · z + shift) does not vary."""
    affine = Affine(float(scale), float(shift))
    if not _usable(affine):
        return None
    z, weight = normal_nodes_of(activation, affine)
    f: Floats = activation.curve(affine.input_scale * z + affine.input_shift)[0]
    mean = float(weight @ f)
    variance = float(weight @ (f - mean) ** 2)
    return Affine(affine.input_scale, affine.input_shift, -mean, variance**-0.5) if variance > 1e-280 else None


def _q(activation: Curved, affine: Affine) -> float:
    z, weight = normal_nodes_of(activation, affine)
    return float(weight @ Shaped(activation, affine).curve(z)[0] ** 2)


def _usable(affine: Affine) -> bool:
    return 1e-12 < abs(affine.input_scale) < 1e12 and abs(affine.input_shift) < 1e12


def _shape_homogeneous(activation: Curved, name: str, psi: float, zeta: float, network: Network) -> Affine:
    """Solve DKS without the condition on Q': input_shift 1 or -1, and the smallest input_scale with C'(1) = ψ."""
    scales = np.geomspace(0.125, 1e6, 128)  # below, a normal does not reach the kink: φ̂ is linear or 0
    reach = 1.0
    for shift in (1.0, -1.0):
        slope_at = functools.partial(_slope, activation, shift)
        slopes = [slope_at(scale) for scale in scales]
        reach = max(reach, *slopes)
        for low, high, before, after in zip(scales, scales[1:], slopes, slopes[1:], strict=False):
            if min(before, after) < psi <= max(before, after):
                scale = _crossing(slope_at, psi, float(low), float(high), rising=before < after)
                affine = _standardised(activation, scale, shift)
                assert affine is not None
                return affine
    raise _out_of_reach("DKS", name, f"C'(1) = {psi:.4g}", f"zeta {zeta:g}", network, reach, network.slope, "zeta")


def _crossing(function: Callable[[float], float], level: float, low: float, high: float, *, rising: bool) -> float:
    sign = 1 if rising else -1
    return bisect(lambda x: sign * (function(x) - level), low, high)


def _slope(activation: Curved, shift: float, scale: float) -> float:
    """Return C'(1) of the standardised activation; 1 where it is constant."""
    affine = _standardised(activation, scale, shift)
    return 1.0 if affine is None else local_maps(activation, affine).c_slope_at_1


def _with_q_slope(local: str, target: str, rho: float, q_slope: float) -> tuple[str, str]:
    """Return a layer's condition and the network's target, each with that of Q'(1) where it is not 1."""
    return (local, target) if q_slope == 1 else (f"{local} and Q'(1) = {rho:.4g}", f"{target} and q_slope {q_slope:g}")


def _out_of_reach(
    method: str,
    name: str,
    local: str,
    target: str,
    network: Network,
    reach: float | None,
    whole: Callable[[float], float],
    field: str,
) -> InputError:
    largest = "" if reach is None else f"; the largest found is {reach:.4g}, which makes {field} {whole(reach):.4g}"
    nearer = ", or a q_slope nearer to 1" if "q_slope" in target else ""
    way_out = f"another {field} or activation" if reach is None else f"a smaller {field}, or more layers"
    require = "requires" if not nearer else "require"
    return InputError(
        f"{method} finds no maps around {name} with {local}, as {target} over {network} {require}{largest}\n"
        f"  = choose {way_out}{nearer}"
    )
