"""A law of loss against training compute, fitted to a ladder of sizes with a few seeds each.

    power        L = a·C^-b          a line of log L over log C, through the means of log L      Hestness et al. 2017
    saturating   L = E + a·C^-b      through the means of L, from four sizes on; 0 ≤ E           Hoffmann et al. 2022

Weights and errors are those of `spread`. For a fixed b the saturating law is linear in E and a, so it is fitted by
a scan over b, and least squares at each (variable projection, Golub & Pereyra 1973).

Intervals of the power law are estimate ± t*·error, with the simulated t* of `spread`. In the saturating law a, b
and E make up for one another, and estimates are far from normal. There the interval of b is of all values that a test
does not refuse, and likewise that of E: the others are fitted beside it, the rest of the means is summed along the
direction in which it would move the curve and the others could not, and divided by the error of that sum (a score test,
inverted). At the true value this is a t, however crooked the likelihood. a, the loss above E at one FLOP, has no
interval of its own: it goes where b goes.

E is `identified` where its interval does not reach 0. Where it does, the seeds do not refuse a power law, and b and E
are not to be read; the curve between the sizes measured may still be as good as any.

`curvature_p` tests the law: whether the means bend away from it, as a square of log C would that its parameters cannot
take up. Runs of one seed share most of their noise over sizes, by batches and held-out data, which the errors above
take for independent: a bend would seldom be seen. Where all sizes have three seeds or more in common, the same sum is
taken within each, and t over seeds tests it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ablate.statistics.paired import student_p
from ablate.statistics.spread import (
    DRAWS,
    critical,
    divided,
    logarithms,
    magnitude,
    noise_line,
    satterthwaite,
    simulated,
    spread,
    times,
)

Floats = NDArray[np.float64]

Kind: TypeAlias = Literal["power", "saturating"]

FEWEST_SHARED = 3  # the fewest seeds that all sizes share within which a law is tested

FEWEST_SIZES: dict[Kind, int] = {"power": 3, "saturating": 4}  # one more than the law has parameters

SCAN = np.geomspace(0.05, 30.0, 64)  # the exponents b that are scanned, times the width of log C

NARROWINGS = 36  # golden sections of the scan's best bracket: to 1e-8 of its width

TRIED = np.geomspace(1e-7, 1.0, 400)
"""The values that an interval by tests is searched among, as shares of the way from the estimate to its farthest."""

FARTHEST = 40.0  # an interval of b by tests is searched down to b/40 and up to 40·b

RIDGE = 1e-13  # added to the diagonal of a matrix of correlations, so that it has an inverse

STEPS = 4  # Gauss-Newton steps of a and b beside a given E, from a line through log(L - E), which is nearly there


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLadder:
    """One treatment over sizes: training compute of each in FLOPs, and the final losses of its seeds.

    `seeds` names the seed of each loss; none where losses of one place at two sizes have nothing in common.
    """

    compute: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]
    seeds: tuple[tuple[int | str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A fitted law, with intervals at confidence `level` of b (`exponent`), of a (`factor`) and of E (`irreducible`).

    `n` are the seeds of each size, `df` Satterthwaite's degrees of freedom of b. `method` of the intervals is
    `simulated_t`, or `score` for the saturating law, whose a has none. E is 0 in the power law. An interval of b from 0
    or to infinity has no bound there. `curvature_p` is of the means bending away from the law.
    """

    kind: Kind
    exponent: float
    exponent_low: float
    exponent_high: float
    factor: float
    factor_low: float | None
    factor_high: float | None
    irreducible: float
    irreducible_low: float
    irreducible_high: float
    identified: bool
    curvature_p: float
    n: tuple[int, ...]
    df: float
    level: float
    method: Literal["simulated_t", "score"]

    def loss(self, compute: float) -> float:
        """The loss of the law at a training compute in FLOPs."""
        return float(self.irreducible + self.factor * compute**-self.exponent)


def fit_law(ladder: SizeLadder, *, kind: Kind = "power", level: float = 0.95) -> Law:
    """Fit a law to the final losses of a ladder.

    ValueError for a ladder that `checked` refuses, and for loss that does not fall with compute.

    >>> ladder = SizeLadder(compute=(1e15, 1e16, 1e17), losses=((3.99, 4.01), (3.2, 3.21), (2.55, 2.57)))
    >>> fit_law(ladder).exponent.__round__(3)
    0.097
    """
    checked(ladder, kind, level)
    x, n = np.log(ladder.compute), np.array([len(losses) for losses in ladder.losses], dtype=np.float64)
    k = magnitude(*ladder.losses)
    values = [scaled(np.array(losses), kind, k) for losses in ladder.losses]
    means, variances = np.array([one.mean() for one in values]), np.array([one.var(ddof=1) for one in values])
    line = noise_line(variances, n - 1, x).variance(x)
    curve = fit_curve(kind, x, means, n / line)
    falls(curve)
    tests = _Tests(
        x=x,
        means=means,
        curve=curve,
        variances=variances,
        line=line,
        n=n,
        level=level,
        within=_within_seeds(ladder.seeds, values),
    )
    law = tests.power() if kind == "power" else tests.saturating()
    return replace(
        law,
        factor=times(law.factor, k),
        factor_low=None if law.factor_low is None else times(law.factor_low, k),
        factor_high=None if law.factor_high is None else times(law.factor_high, k),
        irreducible=times(law.irreducible, k),
        irreducible_low=times(law.irreducible_low, k),
        irreducible_high=times(law.irreducible_high, k),
    )


def checked(ladder: SizeLadder, kind: Kind, level: float) -> None:
    """Raise ValueError for an impossible level, and for a ladder that is none, too short, or without noise."""
    if not 0 < level < 1:
        raise ValueError(f"a level lies between 0 and 1, got {level}")
    if kind not in FEWEST_SIZES:
        raise ValueError(f"a law is one of {', '.join(FEWEST_SIZES)}, got {kind}")
    compute = ladder.compute
    if len(compute) != len(ladder.losses):
        raise ValueError(
            f"a ladder has the losses of each size, got {len(compute)} sizes and losses of {len(ladder.losses)}"
        )
    if len(compute) < FEWEST_SIZES[kind]:
        raise ValueError(f"a {kind} law needs {FEWEST_SIZES[kind]} sizes or more, got {len(compute)}")
    if not all(0 < c < np.inf for c in compute) or len(set(compute)) < len(compute):
        raise ValueError(f"the sizes of a ladder need different training compute above 0, got {compute}")
    for i, losses in enumerate(ladder.losses, start=1):
        if len(losses) < 2:
            raise ValueError(f"a size needs the losses of two seeds or more, and size {i} has {len(losses)}")
        if not all(0 < loss < np.inf for loss in losses):
            raise ValueError(f"losses need to be finite and above 0, and one of size {i} is not")
        if spread(np.array(losses)) == 0:
            raise ValueError(f"the losses of size {i} are the same at every seed, which says nothing of their noise")


def falls(curve: Curve) -> None:
    """Raise ValueError for a curve that does not fall."""
    if not (curve.b > 0 and (curve.kind == "power" or curve.size > 0)):  # a logarithm may have either sign
        raise ValueError("a law needs loss that falls with compute, and over these sizes it does not")


def scaled(losses: Floats, kind: Kind, k: int) -> Floats:
    """Losses over 2^k, on the scale on which the law is fitted: logarithms for the power law."""
    return logarithms(losses, k) if kind == "power" else divided(losses, k)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A fitted curve, or as many as there are in [...], on the scale of `scaled`.

        power        size - b·z             saturating   floor + size·exp(-b·z)             z = log C - centre

    `weights` [..., sizes] are those of the means, and `hat` [..., parameters, sizes] the change of the parameters with
    each mean.
    """

    kind: Kind
    centre: float
    size: Floats
    b: Floats
    floor: Floats
    weights: Floats
    hat: Floats

    def value(self, x: Floats) -> Floats:
        """The curve at log compute x [..., places]."""
        z, b, size = x - self.centre, self.b[..., None], self.size[..., None]
        return size - b * z if self.kind == "power" else self.floor[..., None] + size * np.exp(-b * z)

    def fall(self, x: Floats) -> Floats:
        """The fall of the curve with log compute at x."""
        if self.kind == "power":
            return np.broadcast_to(self.b[..., None], x.shape)
        return self.b[..., None] * (self.value(x) - self.floor[..., None])

    def coefficients(self, x: Floats) -> Floats:
        """The change of the curve at x with each mean, [..., places, sizes]."""
        return tangents_of(self.kind, x - self.centre, self.b, self.size) @ self.hat

    def reach(self, value: Floats) -> Floats:
        """The log compute at which the curve has a value [..., places]; infinite at the floor and below."""
        b, size = self.b[..., None], self.size[..., None]
        if self.kind == "power":
            return self.centre + (size - value) / b
        with np.errstate(invalid="ignore", divide="ignore"):
            left = (value - self.floor[..., None]) / size
            return self.centre + np.where(left > 0, -np.log(left) / b, np.inf)


def fit_curve(kind: Kind, x: Floats, means: Floats, weights: Floats) -> Curve:
    """Fit curves to means [..., sizes] at log compute x, by weighted least squares."""
    centre = float(x.mean())
    z = x - centre
    floor = np.zeros(means.shape[:-1])
    if kind == "power":
        b = np.zeros(means.shape[:-1])
        hat = hat_of(tangents_of(kind, z, b, b), weights)
        size, b = np.moveaxis((hat @ means[..., None])[..., 0], -1, 0)
    else:
        b = _scanned(z, means, weights)
        floor, size, _ = _least_squares(b, z, means, weights)
        hat = hat_of(tangents_of(kind, z, b, size), weights)
    return Curve(kind=kind, centre=centre, size=size, b=b, floor=floor, weights=weights, hat=hat)


def tangents_of(kind: Kind, z: Floats, b: Floats, size: Floats) -> Floats:
    """The derivatives of a curve by its parameters, [..., places, parameters]."""
    if kind == "power":
        return np.stack([np.ones(np.broadcast_shapes(z.shape, (*b.shape, 1))), -z + 0 * b[..., None]], axis=-1)
    e = np.exp(-b[..., None] * z)
    return np.stack([np.ones(e.shape), e, -size[..., None] * z * e], axis=-1)


def hat_of(tangents: Floats, weights: Floats) -> Floats:
    """The change of parameters with each mean, by weighted least squares, [..., parameters, sizes]."""
    weighted = (tangents * weights[..., None]).swapaxes(-1, -2)
    products = weighted @ tangents
    # Columns of very different length are common, and a law that is flat but at one size has two nearly alike.
    length = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1)) + 1e-300
    products = products / length[..., None] / length[..., None, :] + RIDGE * np.eye(length.shape[-1])
    return np.linalg.solve(products, weighted / length[..., None]) / length[..., None]


def _least_squares(b: Floats, z: Floats, means: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """E, the size and the weighted squares left of the saturating law with exponent b [...]; E ≥ 0."""
    e = np.exp(-b[..., None] * z)
    total = weights.sum(axis=-1)
    mean_e, mean_y = (weights * e).sum(axis=-1) / total, (weights * means).sum(axis=-1) / total
    apart = e - mean_e[..., None]
    size = (weights * apart * means).sum(axis=-1) / (weights * apart**2).sum(axis=-1)
    floor = mean_y - size * mean_e
    at_zero = (weights * e * means).sum(axis=-1) / (weights * e**2).sum(axis=-1)
    size, floor = np.where(floor < 0, at_zero, size), np.maximum(floor, 0.0)
    left = (weights * (means - floor[..., None] - size[..., None] * e) ** 2).sum(axis=-1)
    return floor, size, left


def _scanned(z: Floats, means: Floats, weights: Floats) -> Floats:
    """The exponent of the saturating law with the least squares: the best of a scan, narrowed down."""
    scan = SCAN / float(z.max() - z.min())
    left = _least_squares(scan, z, means[..., None, :], weights[..., None, :])[2]
    best = left.argmin(axis=-1)
    low, high = np.log(scan[np.maximum(best - 1, 0)]), np.log(scan[np.minimum(best + 1, scan.size - 1)])
    golden = (5**0.5 - 1) / 2

    def squares(log_b: Floats) -> Floats:
        return _least_squares(np.exp(log_b), z, means, weights)[2]

    for _ in range(NARROWINGS):
        lower, upper = high - golden * (high - low), low + golden * (high - low)
        below = squares(lower) < squares(upper)
        low, high = np.where(below, low, lower), np.where(below, upper, high)
    middle: Floats = np.exp((low + high) / 2)
    return middle


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tests:
    """Tests of a fitted curve, given its means [sizes], their variances, and the line of these.

    `within` are the values [seeds, sizes] of the seeds that all sizes share.
    """

    x: Floats
    means: Floats
    curve: Curve
    variances: Floats
    line: Floats
    n: Floats
    level: float
    within: Floats

    @property
    def z(self) -> Floats:
        return self.x - self.curve.centre

    @property
    def tangents(self) -> Floats:
        return tangents_of(self.curve.kind, self.z, self.curve.b, self.curve.size)

    def power(self) -> Law:
        def rows(weights: Floats) -> Floats:
            hat = hat_of(self.tangents, weights)
            return np.stack([hat[..., 1, :], hat[..., 0, :] + self.curve.centre * hat[..., 1, :]], axis=-2)

        error, df = self.error(rows(self.curve.weights))
        half = error * np.maximum(critical(self.t(rows), self.level), stdtrit(df, (1 + self.level) / 2))
        b, log_a = float(self.curve.b), float(self.curve.size + self.curve.b * self.curve.centre)
        return Law(
            kind="power",
            exponent=b,
            exponent_low=b - float(half[0]),
            exponent_high=b + float(half[0]),
            factor=float(np.exp(log_a)),
            factor_low=float(np.exp(log_a - half[1])),
            factor_high=float(np.exp(log_a + half[1])),
            irreducible=0.0,
            irreducible_low=0.0,
            irreducible_high=0.0,
            identified=True,
            curvature_p=self.curvature_p(),
            n=tuple(self.n.astype(int).tolist()),
            df=float(df[0]),
            level=self.level,
            method="simulated_t",
        )

    def saturating(self) -> Law:
        b, floor, lowest = float(self.curve.b), float(self.curve.floor), float(self.means.min())

        def rows(weights: Floats) -> Floats:
            tangents = self.tangents
            by_b = along(tangents[:, 2], tangents[:, :2], weights)
            return np.stack([by_b, along(tangents[:, 0], tangents[:, 1:], weights)], axis=-2)

        _, df = self.error(rows(self.curve.weights))
        least = np.maximum(critical(self.t(rows), self.level), stdtrit(df, (1 + self.level) / 2))
        wide = np.log(FARTHEST)
        b_low, b_high = (
            _last(
                b * np.exp(side * wide * TRIED), least[0] - np.abs(self.t_of_exponent(b * np.exp(side * wide * TRIED)))
            )
            for side in (-1, 1)
        )
        floor_low, floor_high = (
            _last(tried, least[1] - np.abs(self.t_of_floor(tried)))
            for tried in (floor * (1 - TRIED), floor + (lowest - floor) * (1 - 1e-6) * TRIED)
        )
        return Law(
            kind="saturating",
            exponent=b,
            exponent_low=0.0 if b_low is None else b_low,
            exponent_high=np.inf if b_high is None else b_high,
            factor=float(np.exp(np.log(self.curve.size) + b * self.curve.centre)),
            factor_low=None,
            factor_high=None,
            irreducible=floor,
            irreducible_low=0.0 if floor_low is None else floor_low,
            irreducible_high=lowest if floor_high is None else floor_high,
            identified=floor_low is not None,
            curvature_p=self.curvature_p(),
            n=tuple(self.n.astype(int).tolist()),
            df=float(df[0]),
            level=self.level,
            method="score",
        )

    def curvature_p(self) -> float:
        def rows(weights: Floats) -> Floats:
            return along(self.z**2, self.tangents, weights)[..., None, :]

        coefficients = rows(self.curve.weights)
        if len(self.within) >= FEWEST_SHARED:
            sums = (self.within - self.curve.value(self.x)) @ coefficients[0]
            if (sd := spread(sums)) > 0:
                return student_p(float(sums.mean()), sd / math.sqrt(sums.size), sums.size - 1.0)
        error, df = self.error(coefficients)
        t = np.abs(coefficients @ (self.means - self.curve.value(self.x)) / error)
        by_draws = (1 + (np.abs(self.t(rows)) >= t).sum()) / (1 + DRAWS)
        return max(float(by_draws), 2 * float(stdtr(df, -t)[0]))

    def t_of_exponent(self, b: Floats) -> Floats:
        """t of the rest that the saturating law leaves with exponents b [tried]."""
        tangents = tangents_of("saturating", self.z, b, np.ones(b.size))
        return self.t_along(tangents[..., 2], tangents[..., :2], self.means)

    def t_of_floor(self, floor: Floats) -> Floats:
        """t of the rest that the saturating law leaves with values E [tried], all below every mean."""
        above = self.means - floor[:, None]
        line = np.stack([np.ones(above.shape), np.broadcast_to(-self.z, above.shape)], axis=-1)
        log_size, b = np.moveaxis(
            (hat_of(line, self.curve.weights * above**2) @ np.log(above)[..., None])[..., 0], -1, 0
        )
        for _ in range(STEPS):
            e = np.exp(log_size[:, None] - b[:, None] * self.z)
            step = (hat_of(line * e[..., None], self.curve.weights) @ (above - e)[..., None])[..., 0]
            log_size, b = log_size + step[:, 0], b + step[:, 1]
        e = np.exp(log_size[:, None] - b[:, None] * self.z)
        return self.t_along(np.ones(e.shape), line * e[..., None], above - e)

    def t_along(self, direction: Floats, others: Floats, left: Floats) -> Floats:
        coefficients = along(direction, others, self.curve.weights)
        t: Floats = (coefficients * left).sum(axis=-1) / self.error(coefficients)[0]
        return t

    def error(self, coefficients: Floats) -> tuple[Floats, Floats]:
        return satterthwaite(coefficients**2 * self.variances / self.n, self.n - 1)

    def t(self, rows: Callable[[Floats], Floats]) -> Floats:
        """The simulated t [draws, statistics] of sums over the means, whose coefficients follow the weights."""
        noise = simulated(self.n, self.n, paired=False, random=np.random.default_rng(0), shape=(DRAWS,))
        means, _, variances, _, _ = noise.correlated(np.sqrt(self.line), np.sqrt(self.line), np.zeros(()))
        coefficients = rows(self.n / noise_line(variances, self.n - 1, self.x).variance(self.x))
        error = np.sqrt((coefficients**2 * (variances / self.n)[:, None]).sum(axis=-1))
        t: Floats = (coefficients * means[:, None]).sum(axis=-1) / error
        return t


def _within_seeds(seeds: Sequence[Sequence[int | str]], values: Sequence[Floats]) -> Floats:
    tables = [dict(zip(own, of_size.tolist(), strict=True)) for own, of_size in zip(seeds, values, strict=False)]
    shared = [seed for seed in tables[0] if all(seed in table for table in tables)] if tables else []
    return np.array([[table[seed] for table in tables] for seed in shared]).reshape(len(shared), len(tables))


def along(direction: Floats, others: Floats, weights: Floats) -> Floats:
    """The coefficients of means [..., sizes] that see a direction, and nothing of the others [..., sizes, j]."""
    apart = direction - (others @ (hat_of(others, weights) @ direction[..., None]))[..., 0]
    return weights * apart


def _last(tried: Floats, kept: Floats) -> float | None:
    """The end of a walk along `tried` before `kept` falls below 0; None where it does not."""
    refused = np.flatnonzero(kept < 0)
    if not refused.size:
        return None
    i = int(refused[0])
    if i == 0:
        return float(tried[0])
    share = kept[i - 1] / (kept[i - 1] - kept[i])
    return float(tried[i - 1] + share * (tried[i] - tried[i - 1]))
