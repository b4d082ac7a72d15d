"""The next size of a ladder: the losses of two treatments there, its cost, and the chance that it decides.

Both laws are fitted as for `ladder`. The verdict is that of the t-test of n seeds, Welch's where they are not paired,
at the same level; the chance that it decides is over what the ladder leaves open: the true difference, and the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ablate.statistics.ladder import FARTHEST, Both, Method, both_of, bound_from, curves_of, drawn_noise, magnitude_of
from ablate.statistics.scaling_law import Curve, Kind, SizeLadder, hat_of, tangents_of
from ablate.statistics.spread import DRAWS, critical, satterthwaite, times

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSize:
    """A further size: the losses of `n` seeds each, the speed-up there, and the chance of a verdict.

    Bounds of `baseline` and `treatment` are for the mean loss of n seeds yet to run, those of the speed-up for the true
    one. `decided` is the chance that their t-test finds a difference at 1 - `level`, `better` that it finds the
    treatment's loss lower. `cost` are the training FLOPs of all 2n runs. `df` are those of the difference predicted.
    """

    compute: float
    treatment_compute: float
    cost: float
    baseline: float
    baseline_low: float
    baseline_high: float
    treatment: float
    treatment_low: float
    treatment_high: float
    speed_up: float
    low: float
    high: float
    decided: float
    better: float
    n: int
    df: float
    level: float
    method: Method


def next_size(
    baseline: SizeLadder,
    treatment: SizeLadder,
    *,
    compute: float,
    n: int,
    treatment_compute: float | None = None,
    paired: bool = True,
    kind: Kind = "power",
    level: float = 0.95,
) -> NextSize:
    """Predict a further size of this training compute, with n seeds of each treatment, and whether it would decide.

    `treatment_compute` is given where it differs. ValueError as `speed_ups`, for n < 2, and for compute not above 0.
    """
    other_compute = compute if treatment_compute is None else treatment_compute
    if n < 2:
        raise ValueError(f"a verdict needs two seeds or more, got {n}")
    if not (0 < compute < np.inf and 0 < other_compute < np.inf):
        raise ValueError(f"a size needs training compute above 0, got {compute} and {other_compute}")
    both = both_of(baseline, treatment, paired=paired, kind=kind, level=level)
    found = predict(both, np.log(compute), np.log(other_compute), n, level=level, random=np.random.default_rng(0))
    unscaled, k = np.exp if kind == "power" else np.asarray, magnitude_of(baseline, treatment)
    values, low, high = (
        [times(loss, k) for loss in unscaled(one).tolist()]
        for one in (found.losses, found.losses_low, found.losses_high)
    )
    return NextSize(
        compute=compute,
        treatment_compute=other_compute,
        cost=n * (compute + other_compute),
        baseline=values[0],
        baseline_low=low[0],
        baseline_high=high[0],
        treatment=values[1],
        treatment_low=low[1],
        treatment_high=high[1],
        speed_up=float(np.exp(found.log)),
        low=float(np.exp(found.low)),
        high=float(np.exp(found.high)),
        decided=float(found.decided),
        better=float(found.better),
        n=n,
        df=float(found.df),
        level=level,
        method="simulated_t",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Losses of both treatments [..., 2] at a further size, its log speed-up, and the chances of its verdict, [...]."""

    losses: Floats
    losses_low: Floats
    losses_high: Floats
    log: Floats
    low: Floats
    high: Floats
    df: Floats
    decided: Floats
    better: Floats


def predict(
    both: Both, x: float, other_x: float, n: int, *, level: float, random: np.random.Generator, draws: int = DRAWS
) -> Predicted:
    """Predict a further size at log compute x and other_x of as many pairs of ladders as there are in [...]."""
    curve, other_curve = curves_of(both)
    at, other_at = np.array([x]), np.array([other_x])
    losses = np.concatenate([curve.value(at), other_curve.value(other_at)], axis=-1)
    log = curve.reach(losses[..., 1:]) - other_at
    near = np.clip(log, -FARTHEST, FARTHEST)

    def tangents(of: Curve, place: Floats, wider: int) -> Floats:
        found = tangents_of(both.kind, place - of.centre, of.b, of.size)
        return found.reshape(*found.shape[:-2], *(1,) * wider, *found.shape[-2:])

    def sums(weights: tuple[Floats, Floats], wider: int, g: Floats = near) -> tuple[Floats, Floats]:
        """The sums that are both losses, the rest of the speed-up's equation, and the difference of losses.

        The law of the treatment is of its own means, which are those of the baseline less the paired differences.
        """
        hat = hat_of(tangents(curve, both.x, wider), both.n * weights[0])
        other_hat = hat_of(tangents(other_curve, both.other_x, wider), both.other_n * weights[0])
        first = tangents(curve, at, wider) @ hat
        second = tangents(other_curve, other_at, wider) @ other_hat
        reached = tangents(curve, other_at + g, wider) @ hat
        none = np.zeros_like(first)
        if both.paired:
            p, q = (first, second, reached - second, first - second), (none, -second, second, second)
        else:
            p, q = (first, none, reached, first), (none, second, -second, -second)
        return np.concatenate(p, axis=-2), np.concatenate(q, axis=-2)

    own = both.weights(both.variances, both.other_variances, both.covariances)
    error, df = both.own_error(*sums(own, 0))

    ladders = drawn_noise(both, random, draws)
    p, q = sums(both.weights(*ladders.covariance), 1)
    drawn_error, _ = both.error(p, q, *ladders.covariance)
    apart = ladders.sums(p, q)
    t = apart / drawn_error
    least = np.maximum(critical(t, level), stdtrit(df, (1 + level) / 2))

    # Losses yet to run have noise of their own, and the variance that the line gives them is itself drawn.
    noise, noise_drawn = both.noise_at(x, other_x), both.noise_at(x, other_x, ladders)
    yet = random.standard_normal((*both.means.shape[:-1], draws, 2)) * np.sqrt(noise.losses / n)[..., None, :]
    ahead = (apart[..., :2] - yet) / np.sqrt(drawn_error[..., :2] ** 2 + noise_drawn.losses / n)
    half = critical(ahead, level) * np.sqrt(error[..., :2] ** 2 + noise.losses / n)

    def kept(g: Floats) -> Floats:
        at_g, _ = both.own_error(*sums(own, 0, g))
        room: Floats = least[..., 2:3] - np.abs(curve.value(other_at + g) - losses[..., 1:]) / at_g[..., 2:3]
        return room

    step = error[..., 2:3] / curve.fall(other_at + near)
    true = (losses[..., 0] - losses[..., 1])[..., None] - t[..., 3] * error[..., 3, None]
    variance = noise.difference[..., None] ** 2 / noise_drawn.difference
    seen = true + random.standard_normal(true.shape) * np.sqrt(variance / n)
    # The variance that n seeds show: of their differences, or of either side where they are not paired (Welch's t).
    of_baseline = noise.losses[..., :1] / noise.losses.sum(axis=-1, keepdims=True)
    parts = [variance] if both.paired else [of_baseline * variance, (1 - of_baseline) * variance]
    drawn = [part * random.chisquare(n - 1, true.shape) / (n - 1) / n for part in parts]
    seen_error, seen_df = satterthwaite(np.stack(drawn, axis=-1), np.full(len(parts), n - 1.0))
    least_seen = stdtrit(seen_df, (1 + level) / 2)
    return Predicted(
        losses=losses,
        losses_low=losses - half,
        losses_high=losses + half,
        log=log[..., 0],
        low=bound_from(kept, near, -step)[..., 0],
        high=np.where(np.isfinite(log), bound_from(kept, near, step), np.inf)[..., 0],
        df=df[..., 3],
        decided=(np.abs(seen) > least_seen * seen_error).mean(axis=-1),
        better=(seen > least_seen * seen_error).mean(axis=-1),
    )
