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
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from ablate.errors import InputError
from ablate.signal.affine import UNCHANGED, Affine

Floats: TypeAlias = npt.NDArray[np.float64]
Derivatives: TypeAlias = tuple[Floats, Floats, Floats]

REACH = 10.0
"""Expectations are taken over [-REACH, REACH]: a standard normal is beyond it with probability 1.5e-23."""
NODES = 16
"""Gauss-Legendre nodes between two breakpoints."""
AROUND = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 13.0, 17.0, 22.0, 28.0, 36.0)
"""Distances, in the activation's input, at which integration intervals end: a smooth one varies near 0, on scale 1."""


@runtime_checkable
class Curved(Protocol):
    """An activation with derivatives. If φ' jumps, it has `kinks: tuple[float, ...]` too; if only φ'' does, `bends`."""

    def curve(self, x: Any) -> Derivatives:
        """Return (φ, φ', φ'') at the float64 array x, each of its shape."""


def kinks(activation: Curved) -> tuple[float, ...]:
    """Return the inputs at which φ' jumps."""
    return tuple(getattr(activation, "kinks", ()))


def bends(activation: Curved) -> tuple[float, ...]:
    """Return the inputs at which φ'' jumps and φ' does not."""
    return tuple(getattr(activation, "bends", ()))


def jumps(activation: Curved) -> tuple[float, ...]:
    """Return the inputs at which φ' or φ'' jumps, sorted."""
    return tuple(sorted({*kinks(activation), *bends(activation)}))


def curved(activation: Any, name: str) -> Curved:
    """Return the activation, checked to have a curve; InputError if it has none. `name` is the user's name of it."""
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
    affine: Affine

    @property
    def kinks(self) -> tuple[float, ...]:
        """The inputs that the input map takes to the kinks of the activation."""
        return self._before(kinks(self.activation))

    @property
    def bends(self) -> tuple[float, ...]:
        """The inputs that the input map takes to the bends of the activation."""
        return self._before(bends(self.activation))

    def curve(self, x: Any) -> Derivatives:
        """Return (φ̂, φ̂', φ̂'') by the chain rule."""
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


def local_maps(activation: Curved, affine: Affine = UNCHANGED) -> LocalMaps:
    """Compute Q, Q'(1), C(0), C'(0), C'(1) and C''(1) of φ̂, within 1e-12 for activations that vary on scale 1."""
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


def correlation_map(activation: Curved, c: float, affine: Affine = UNCHANGED) -> float:
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
    """C for any number of correlations within [0, 1], by Chebyshev polynomials in θ = arccos c.

    In θ the map has no singularity at c = 1, where in c a kink leaves one of (1 - c)^(3/2).
    """

    coefficients: tuple[float, ...]

    def __call__(self, c: Floats | float) -> Floats:
        """Return C(c), within 1e-9."""
        theta = np.arccos(np.clip(c, 0.0, 1.0))
        return np.asarray(np.polynomial.chebyshev.chebval(4 * theta / math.pi - 1, self.coefficients))


MAP_NODES = 18
"""With this many, C of GeLU, ReLU and their shaped forms is within 1e-10 of `correlation_map`."""
_MAPS: dict[tuple[bytes, tuple[float, ...]], CorrelationMap] = {}


def correlations_through(activation: Curved) -> CorrelationMap:
    """Return C of an activation, computed once per process, as layers share it."""
    key = (activation.curve(np.linspace(-REACH, REACH, 257))[0].tobytes(), jumps(activation))
    if key not in _MAPS:
        places = np.cos(math.pi * (np.arange(MAP_NODES) + 0.5) / MAP_NODES)
        values = [correlation_map(activation, math.cos((place + 1) * math.pi / 4)) for place in places.tolist()]
        fitted = np.polynomial.chebyshev.chebfit(places, values, MAP_NODES - 1)
        _MAPS[key] = CorrelationMap(tuple(map(float, fitted)))
    return _MAPS[key]


def normal_nodes_of(activation: Curved, affine: Affine) -> tuple[Floats, Floats]:
    """Return nodes z and weights w with w @ f(z) = E[f(z)] for an f made of φ̂ and its derivatives."""
    return normal_nodes(_cuts(activation, affine))


def normal_nodes(cuts: Iterable[float] = ()) -> tuple[Floats, Floats]:
    """Return nodes z and weights w with w @ f(z) = E[f(z)], z ~ N(0, 1), for an f that is smooth between `cuts`."""
    inside = np.array([cut for cut in cuts if -REACH < cut < REACH])
    z, weight = _nodes_between(_merge(inside[None, :]))
    return z[0], weight[0] * np.exp(-(z[0] ** 2) / 2) / math.sqrt(2 * math.pi)


def _merge(breaks: Floats) -> Floats:
    """Merge each row's breaks with unit steps over the range of a normal, sorted: [rows, breaks + steps]."""
    steps = np.broadcast_to(np.arange(-REACH, REACH + 1), (len(breaks), int(2 * REACH) + 1))
    return np.sort(np.concatenate((breaks, steps), axis=1), axis=1)


def _nodes_between(breaks: Floats) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights over the intervals of each row of sorted breaks, [rows, nodes] each."""
    points, weights = _gauss_legendre()
    low, width = breaks[:, :-1, None], np.diff(breaks, axis=1)[:, :, None]
    return (low + width * points).reshape(len(breaks), -1), (width * weights).reshape(len(breaks), -1)


@functools.cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    """Return NODES nodes and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(NODES)
    return (points + 1) / 2, weights / 2


def _cuts(activation: Curved, affine: Affine) -> tuple[float, ...]:
    """Return the cuts of z between which φ̂ is smooth and varies little."""
    near = {sign * step for step in AROUND for sign in (-1, 1)}
    return tuple((u - affine.input_shift) / affine.input_scale for u in sorted({*near, *jumps(activation)}))
