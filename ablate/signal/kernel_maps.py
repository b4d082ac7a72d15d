"""Kernel maps: the effect of an activation on the size and the correlation of wide layers' signals.

In a wide layer with independent zero-mean weights every hidden input is Gaussian. With z ~ N(0, 1), and u, v of unit
variance and correlation c, an activation φ maps the mean square q of the input, at q = 1, and the cosine c of two
inputs to those of its outputs by

    Q = E[φ(z)²]        Q'(1) = E[φ(z) φ'(z) z]        C(c) = E[φ(u) φ(v)] / Q
    C(0) = E[φ]² / Q    C'(0) = E[φ']² / Q    C'(1) = E[φ'²] / Q    C''(1) = E[φ''²] / Q

    Poole et al. 2016, arXiv:1606.05340; Martens et al. 2021, arXiv:2110.01765.

An activation is given by its `curve`: x -> (φ, φ', φ''), float64 arrays. Jumps of φ' are listed in `kinks`; φ'' leaves
them out, so that C''(1) is infinite whatever φ'' is. Jumps of φ'' alone are listed in `bends`. Integrals are cut at
both.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from ablate.errors import InputError
from ablate.signal.network_shaping import UNCHANGED, AffineMaps, Network, bisect

Floats: TypeAlias = npt.NDArray[np.float64]
Derivatives: TypeAlias = tuple[Floats, Floats, Floats]

REACH = 10.0  # expectations are taken over [-REACH, REACH]: a standard normal is beyond it with probability 1.5e-23
NODES = 16  # Gauss-Legendre nodes between two breakpoints
AROUND = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 13.0, 17.0, 22.0, 28.0, 36.0)
"""Distances, in the activation's input, at which integration intervals end: a smooth one varies near 0, on scale 1."""


@runtime_checkable
class Curved(Protocol):
    """An activation with derivatives. If φ' jumps, it has `kinks: tuple[float, ...]` too; if only φ'' does, `bends`."""

    def curve(self, x: Any) -> Derivatives:
        """Return (φ, φ', φ'') at the float64 array x, each of its shape."""


def kinks(activation: Curved) -> tuple[float, ...]:
    """The inputs at which φ' jumps."""
    return tuple(getattr(activation, "kinks", ()))


def bends(activation: Curved) -> tuple[float, ...]:
    """The inputs at which φ'' jumps and φ' does not."""
    return tuple(getattr(activation, "bends", ()))


def jumps(activation: Curved) -> tuple[float, ...]:
    """The inputs at which φ' or φ'' jumps, sorted."""
    return tuple(sorted({*kinks(activation), *bends(activation)}))


def curved(activation: Any, name: str) -> Curved:
    """The activation, checked to have a curve; InputError if it has none. `name` is the user's name of it."""
    if not isinstance(activation, Curved):
        raise InputError(
            f"{name} does not give its derivatives, which this method needs\n"
            "  = give its Config a method curve(x) -> (f, f', f''), each a NumPy array"
        )
    return activation


@dataclass(frozen=True, slots=True)
class Shaped:
    """An activation between two affine maps, itself an activation."""

    activation: Curved
    affine: AffineMaps

    @property
    def kinks(self) -> tuple[float, ...]:
        return self._before(kinks(self.activation))

    @property
    def bends(self) -> tuple[float, ...]:
        return self._before(bends(self.activation))

    def curve(self, x: Any) -> Derivatives:
        """(φ̂, φ̂', φ̂'') by the chain rule."""
        a = self.affine
        f, df, ddf = self.activation.curve(a.input_scale * x + a.input_shift)
        slope = a.output_scale * a.input_scale
        return a.output_scale * (f + a.output_shift), slope * df, slope * a.input_scale * ddf

    def _before(self, inputs: Iterable[float]) -> tuple[float, ...]:
        a = self.affine
        return tuple(sorted((u - a.input_shift) / a.input_scale for u in inputs))


@dataclass(frozen=True, slots=True)
class LocalMaps:
    """Numbers of the maps of one nonlinear layer at q = 1; `mean` is E[φ], the others as in the file's first lines."""

    mean: float
    q: float
    q_slope: float
    c_at_0: float
    c_slope_at_0: float
    c_slope_at_1: float
    c_curvature_at_1: float


def local_maps(activation: Curved, affine: AffineMaps = UNCHANGED) -> LocalMaps:
    """Q, Q'(1), C(0), C'(0), C'(1) and C''(1) of φ̂, within 1e-12 for activations that vary on scale 1."""
    z, weight = normal_nodes_of(activation, affine)
    f, df, ddf = Shaped(activation, affine).curve(z)
    mean, q = float(weight @ f), float(weight @ f**2)
    return LocalMaps(
        mean=mean,
        q=q,
        q_slope=float(weight @ (f * df * z)),
        c_at_0=mean**2 / q,
        c_slope_at_0=float(weight @ df) ** 2 / q,
        c_slope_at_1=float(weight @ df**2) / q,
        c_curvature_at_1=math.inf if kinks(activation) else float(weight @ ddf**2) / q,
    )


def correlation_map(activation: Curved, c: float, affine: AffineMaps = UNCHANGED) -> float:
    """Compute C(c) of φ̂ for a correlation c in [-1, 1], within 1e-10; ValueError outside.

    E[φ̂(u) φ̂(v)] with v = c u + √(1 - c²) y: for each u an integral over y, cut where v reaches a cut of u.
    """
    if not -1 <= c <= 1:
        raise ValueError(f"a correlation is within [-1, 1], not {c}")
    phi = Shaped(activation, affine)
    cuts = _cuts(activation, affine)
    spread = math.sqrt((1 - c) * (1 + c))
    mirrored = cuts if c == 0 else tuple(cut / c for cut in cuts)
    # As a function of u, the integral over y is φ̂(c u) blurred on the scale of `spread`: it is cut on that scale too.
    blurred = [(k + sign * step * spread) / c for k in jumps(phi) for step in AROUND for sign in (-1, 1) if c != 0]
    u, outer = normal_nodes((*cuts, *mirrored, *blurred))
    f_u = phi.curve(u)[0]
    q = float(outer @ f_u**2)
    if spread == 0:
        return float(outer @ (f_u * phi.curve(c * u)[0])) / q
    breaks = np.sort(np.clip((np.array(cuts)[None, :] - c * u[:, None]) / spread, -REACH, REACH), axis=1)
    y, inner = _nodes_between(_merge(breaks))
    f_v = phi.curve(c * u[:, None] + spread * y)[0]
    density = np.exp(-(y**2) / 2) / math.sqrt(2 * math.pi)
    return float(outer @ (f_u * (inner * density * f_v).sum(1))) / q


@dataclass(frozen=True, slots=True)
class CorrelationMap:
    """C on [0, 1] by Chebyshev polynomials in θ = arccos c, in which a kink leaves no singularity at c = 1."""

    coefficients: tuple[float, ...]

    def __call__(self, c: Floats | float) -> Floats:
        """C(c), within 1e-9."""
        theta = np.arccos(np.clip(c, 0.0, 1.0))
        return np.asarray(np.polynomial.chebyshev.chebval(4 * theta / math.pi - 1, self.coefficients))


MAP_NODES = 18  # with this many, C of GeLU, ReLU and their shaped forms is within 1e-10 of `correlation_map`
_MAPS: dict[tuple[bytes, tuple[float, ...]], CorrelationMap] = {}


def correlations_through(activation: Curved) -> CorrelationMap:
    """C of an activation, computed once per process, as layers share it."""
    key = (activation.curve(np.linspace(-REACH, REACH, 257))[0].tobytes(), jumps(activation))
    if key not in _MAPS:
        places = np.cos(math.pi * (np.arange(MAP_NODES) + 0.5) / MAP_NODES)
        values = [correlation_map(activation, math.cos((place + 1) * math.pi / 4)) for place in places.tolist()]
        fitted = np.polynomial.chebyshev.chebfit(places, values, MAP_NODES - 1)
        _MAPS[key] = CorrelationMap(tuple(map(float, fitted)))
    return _MAPS[key]


def normal_nodes_of(activation: Curved, affine: AffineMaps) -> tuple[Floats, Floats]:
    """Nodes z and weights w with w @ f(z) = E[f(z)] for an f made of φ̂ and its derivatives."""
    return normal_nodes(_cuts(activation, affine))


def normal_nodes(cuts: Iterable[float] = ()) -> tuple[Floats, Floats]:
    """Nodes z and weights w with w @ f(z) = E[f(z)], z ~ N(0, 1), for an f that is smooth between `cuts`."""
    inside = np.array([cut for cut in cuts if -REACH < cut < REACH])
    z, weight = _nodes_between(_merge(inside[None, :]))
    return z[0], weight[0] * np.exp(-(z[0] ** 2) / 2) / math.sqrt(2 * math.pi)


def _merge(breaks: Floats) -> Floats:
    """Merge each row's breaks with unit steps over the range of a normal, sorted: [rows, breaks + steps]."""
    steps = np.broadcast_to(np.arange(-REACH, REACH + 1), (len(breaks), int(2 * REACH) + 1))
    return np.sort(np.concatenate((breaks, steps), axis=1), axis=1)


def _nodes_between(breaks: Floats) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights over the intervals of each row of sorted breaks, [rows, nodes] each."""
    points, weights = _gauss_legendre()
    low, width = breaks[:, :-1, None], np.diff(breaks, axis=1)[:, :, None]
    return (low + width * points).reshape(len(breaks), -1), (width * weights).reshape(len(breaks), -1)


@functools.cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(NODES)
    return (points + 1) / 2, weights / 2


def _cuts(activation: Curved, affine: AffineMaps) -> tuple[float, ...]:
    """The cuts of z between which φ̂ is smooth and varies little."""
    near = {sign * step for step in AROUND for sign in (-1, 1)}
    return tuple((u - affine.input_shift) / affine.input_scale for u in sorted({*near, *jumps(activation)}))


# Shaping: the affine maps around an activation that give a deep network of it chosen kernel maps.
#
# φ̂(x) = output_scale · (φ(input_scale · x + input_shift) + output_shift), by one of two sets of conditions (the maps
# are those above, ψ and κ come from a target for the whole network, see `network_shaping`):
#
#     DKS    Q(1) = 1, Q'(1) = ρ, C(0) = 0, C'(1) = ψ        Martens et al. 2021, arXiv:2110.01765
#     TAT    Q(1) = 1, Q'(1) = ρ, C'(1) = 1, C''(1) = κ      Zhang et al. 2022, arXiv:2203.08120; smooth activations
#
# In the papers ρ is 1; here it may follow from a target for Q'(1) of the whole network, too.
#
# ReLU, and whatever else is linear on both sides of 0, does not distinguish input_scale from output_scale: under DKS
# its input_shift is 1 or -1, and Q'(1) is not constrained.
#
# **The numbers are not unique.** Newton's method (Powell's hybrid, MINPACK) starts from a fixed list, then from
# seeded random points, and the first solution is taken; of a solution and its mirror images, that with input_scale >
# 0, and input_shift > 0 for functions that are odd around 0. Solutions are cached per process, as layers share them.

Vector: TypeAlias = Sequence[float]
Conditions: TypeAlias = Callable[[Vector], Vector]

SCALES, SHIFTS = (1.0, 0.1), (0.0, 1.0, -1.0)  # the values of the fixed starts, in the order of their product
RANDOM_STARTS, SEED = 40, 123
HALVINGS_OF_REACH = 16  # bisection steps for the largest reachable target, which a refusal reports
TOLERANCE = 1e-9  # the tolerance of each condition, relative to the target's distance from a linear network's
STEEPEST = 2.0
"""TAT's solutions come in two kinds; the steep ones, output_scale · φ'(…) · input_scale at 2 and above, are refused."""


@functools.lru_cache(maxsize=256)
def shape_by_slope(activation: Any, name: str, zeta: float, network: Network, q_slope: float = 1.0) -> AffineMaps:
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
def shape_by_curvature(activation: Any, name: str, tau: float, network: Network, q_slope: float = 1.0) -> AffineMaps:
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

    def affine(numbers: Vector) -> AffineMaps | None:
        scale, shift, output_shift = numbers
        q = _q(activation, AffineMaps(scale, shift, output_shift))
        canonical = AffineMaps(scale, shift, output_shift, q**-0.5)
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
def rescale(activation: Any, name: str) -> AffineMaps:
    """The output scale with E[φ̂(z)²] = 1 for standard normal z; InputError for an activation without a curve."""
    return AffineMaps(output_scale=_q(curved(activation, name), UNCHANGED) ** -0.5)


def is_homogeneous(activation: Curved) -> bool:
    """True if φ is linear on both sides of a kink at 0, so that φ(kx) = k φ(x) for every k > 0."""
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
    affine: Callable[[Vector], AffineMaps | None]
    starts: tuple[tuple[float, ...], ...]
    odd_around: float = 0.0

    def first(self, target: float) -> AffineMaps | None:
        """The maps at the first solution, None if no start leads to one."""
        for start in (*self.starts, *self._random_starts()):
            solution = self._solve(target, start)
            affine = None if solution is None else self.affine(solution)
            if affine is not None:
                return affine
        return None

    def furthest(self, easy: float, target: float) -> float | None:
        """The largest target met between an easy one and one that is not met; None if neither is."""
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
        affine = AffineMaps(*numbers)
        if not _usable(affine) or not _q(activation, affine) > 0:
            return (math.nan, math.nan, math.nan)
        maps = local_maps(activation, affine)
        curvature, q_slope = maps.c_curvature_at_1, maps.q_slope / maps.q
        return ((q_slope - rho) / kappa, (maps.c_slope_at_1 - 1) / kappa, (curvature - kappa) / kappa)

    return off


def _standardised(activation: Curved, scale: float, shift: float) -> AffineMaps | None:
    """The maps with E[φ̂] = 0 and E[φ̂²] = 1, None where φ(scale · z + shift) does not vary."""
    affine = AffineMaps(float(scale), float(shift))
    if not _usable(affine):
        return None
    z, weight = normal_nodes_of(activation, affine)
    f: Floats = activation.curve(affine.input_scale * z + affine.input_shift)[0]
    mean = float(weight @ f)
    variance = float(weight @ (f - mean) ** 2)
    return AffineMaps(affine.input_scale, affine.input_shift, -mean, variance**-0.5) if variance > 1e-280 else None


def _q(activation: Curved, affine: AffineMaps) -> float:
    z, weight = normal_nodes_of(activation, affine)
    return float(weight @ Shaped(activation, affine).curve(z)[0] ** 2)


def _usable(affine: AffineMaps) -> bool:
    return 1e-12 < abs(affine.input_scale) < 1e12 and abs(affine.input_shift) < 1e12


def _shape_homogeneous(activation: Curved, name: str, psi: float, zeta: float, network: Network) -> AffineMaps:
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
    """C'(1) of the standardised activation; 1 where it is constant."""
    affine = _standardised(activation, scale, shift)
    return 1.0 if affine is None else local_maps(activation, affine).c_slope_at_1


def _with_q_slope(local: str, target: str, rho: float, q_slope: float) -> tuple[str, str]:
    """A layer's condition and the network's target, each with that of Q'(1) where it is not 1."""
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
