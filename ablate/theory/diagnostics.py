"""Diagnostics of a forecast: its dangers, a score of them, laws of depth, sensitivity, and the kurtosis at a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from math import inf, isfinite, isnan, log, log1p, nan, sqrt
from statistics import fmean, median
from typing import Literal, TypeAlias

import numpy as np

from ablate.errors import InputError
from ablate.signal.attention_kernel import LARGEST, ScoresOverflow
from ablate.signal.finite_width import participation
from ablate.signal.propagation import Array
from ablate.theory.initial_state import InitialModel

# Dangers: what in a forecast is a reason not to train the model as it is, each with its number and its layer.

COLLAPSED = 0.99
"""A mean cosine from which the tokens of a sequence are nearly one: attention has nothing left to tell apart."""
GRADIENTS = 100.0
"""The largest ratio of root mean squares of the gradient, between the ends of the model, that is no danger."""
SIZES = 1000.0  # the same of the stream
SILENT = 1e-9
"""The largest share of the stream that a layer may have written where it counts as having written nothing."""
OVERFLOW = "numbers are no longer finite"
OF_REFUSALS: Mapping[type[InputError], str] = {ScoresOverflow: OVERFLOW}
"""The kinds of danger because of which a model is not forecast."""


@dataclass(frozen=True, slots=True)
class Danger:
    """A reason not to train a model as it is: its `kind`, and a sentence with the model's numbers."""

    kind: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def dangers(forecast: InitialModel) -> tuple[Danger, ...]:
    """The dangers in a forecast, in the order in which a signal meets them; none if there is none."""
    return tuple(_dangers(forecast))


def danger_of_refusal(error: InputError) -> Danger | None:
    """The danger because of which a model is not forecast; None if that is no danger of the model.

    >>> danger_of_refusal(ScoresOverflow("attention overflows\\n  = give queries a norm")).kind
    'numbers are no longer finite'
    """
    kind = OF_REFUSALS.get(type(error))
    return None if kind is None else Danger(kind, error.mistakes[0].message)


def collapse_layer(forecast: InitialModel) -> int | None:
    """The first layer behind which tokens are nearly one, from which on they stay so; None if there is none."""
    collapsed = [stream.correlation > COLLAPSED for stream in forecast.streams]
    if not collapsed[-1]:
        return None
    return len(collapsed) - next(n for n, each in enumerate([*reversed(collapsed), False]) if not each)


def silence(forecast: InitialModel) -> tuple[str, ...]:
    """A sentence where no layer writes anything to the stream before a step; none where one does.

    It is no danger: such a model may train well, but a forecast cannot tell it from others of its skips.
    """
    if not forecast.fresh or max(forecast.fresh) > SILENT or not all(isfinite(share) for share in forecast.fresh):
        return ()
    return (
        "no layer adds anything to the stream before the first step, as every branch starts at 0: this start says "
        "nothing of the block",
    )


def _dangers(forecast: InitialModel) -> Iterator[Danger]:
    numbers = [(stream.layer, stream.mean_square, stream.gradient) for stream in forecast.streams]
    if overflown := [layer for layer, *values in numbers if not all(map(isfinite, values))]:
        yield Danger(OVERFLOW, f"{OVERFLOW} at layer {overflown[0]}: the stream or its gradient overflows")
        return
    layer = collapse_layer(forecast)
    if layer is not None:
        where = f"from layer {layer} on" if layer else "from the embedding on"
        yield Danger(
            "rank collapse",
            f"rank collapse: {where} the tokens of a sequence are nearly one (mean cosine above {COLLAPSED:g}; "
            f"{forecast.streams[-1].correlation:.4f} at the end)",
        )
    growth = sqrt(forecast.growth)
    if growth < 1 / SIZES or growth > SIZES:
        kind = f"the stream {'grows' if growth > 1 else 'shrinks'}"
        by = f"by a factor of {_factor(growth)} through the layers" if growth else "to zero through the layers"
        yield Danger(kind, f"{kind} {by}")
    if (reached := sqrt(forecast.gradient_ratio)) > GRADIENTS:
        kind, how = "exploding gradient", f"{_factor(reached)} times as large in front of the first layer as behind"
        yield Danger(kind, f"{kind}: {how} the last")
    elif reached < 1 / GRADIENTS:
        kind, how = "vanishing gradient", "zero in front of the first layer, and not behind"
        if reached:
            how = f"{_factor(reached)} times smaller in front of the first layer than behind"
        yield Danger(kind, f"{kind}: {how} the last")
    if sharp := [attention for attention in forecast.attention if attention.largest_variance > LARGEST]:
        kind = "attention nearly one-hot"
        first, largest = sharp[0].layer, sqrt(max(attention.largest_variance for attention in sharp))
        where = "" if first is None else f", first in layer {first}"
        yield Danger(
            kind, f"{kind}{where}: its scores have a standard deviation of up to {largest:.3g}, above {sqrt(LARGEST):g}"
        )


def _factor(ratio: float) -> str:
    """A ratio > 0, or its inverse if it is below 1, in three digits.

    >>> _factor(0.001), _factor(12345.0)
    ('1,000', '12,300')
    """
    larger = max(ratio, 1 / ratio)
    return f"{larger:.3g}" if larger < 1000 or larger >= 1e6 else f"{float(f'{larger:.3g}'):,.0f}"


# Danger score: one number of a forecast that is the larger, the likelier a model is to fail.
#
#     danger = -ln(1 - c) + |ln √(g_0/g_L)| + |ln √(q_L/q_0)| + ½ ln(1 + z) + ½ ln(1 + s)        in e-folds, ≥ 0
#
#     collapse    c  the mean cosine of two tokens behind the last layer; the term is 0 below 0
#     gradient    g  the mean square of the gradient in front of the first layer, over that behind the last
#     growth      q  the mean square of the stream behind the last layer, over that in front of the first
#     logits      z  the mean square of the logits
#     scores      s  the variance of the scores of attention, in the layer where it is largest: of what its softmax is
#                    taken of, without masks and biases
#
# Each term is the logarithm of how many times one of the numbers is away from where nothing is lost: tokens that are
# not alike, gradients and streams of one size at both ends, logits and scores that are small. They count the same,
# which is the plainest choice and no law; `spaces/danger.yaml` is the experiment that judges it. All are of the
# initial state: no rate, clipping or text enters.
#
#     collapse: Dong et al. 2021, arXiv:2103.03404, and He et al. 2023, arXiv:2302.10322, Fig. 1; gradient and growth:
#     Kedia et al. 2024, arXiv:2403.09635, Sec. 3; scores: Zhai et al. 2023, arXiv:2303.06296, Sec. 3.

LEAST_APART = 1e-6  # the least 1 - c: how far apart tokens are beyond this is rounding, of float32 at the latest
SCORE_DEFINITION = (
    "danger score: -ln(1 - cosine at the end) + |ln of the gradient's ratio| + |ln of growth| + ½ ln(1 + logits²) "
    "+ ½ ln(1 + largest variance of scores); 1 - cosine counts as at least 1e-6, and scores are what the softmax of "
    "attention is taken of, without masks and biases; larger: likelier to fail; it orders models, and is no probability"
)


@dataclass(frozen=True, slots=True)
class DangerScore:
    """The terms of a score, each in e-folds and ≥ 0, infinite for a forecast that overflows."""

    collapse: float
    gradient: float
    growth: float
    logits: float
    scores: float

    @property
    def total(self) -> float:
        return float(sum(astuple(self)))

    @property
    def largest(self) -> str:
        """The name of the largest term, the first of equal ones."""
        terms = {name: float(getattr(self, name)) for name in SCORE_TERMS}
        return max(terms, key=terms.__getitem__)


SCORE_TERMS = tuple(DangerScore.__dataclass_fields__)


def danger_score(forecast: InitialModel) -> DangerScore:
    """Score a forecast. Logits that are not forecast, and attention that there is not, add nothing.

    One token has no cosine, and no collapse. Whatever is not finite, or a gradient or stream of zeros, is infinite.
    """
    cosine = forecast.streams[-1].correlation
    alone = len(forecast.streams[-1].kernel) == 1
    variances = [attention.score_variance for attention in forecast.attention]
    return DangerScore(
        collapse=0.0 if alone else inf if isnan(cosine) else log(1 / max(LEAST_APART, 1 - max(cosine, 0.0))),
        gradient=_distance(forecast.gradient_ratio),
        growth=_distance(forecast.growth),
        logits=0.0 if isnan(forecast.logits) else log1p(forecast.logits) / 2,
        scores=log1p(max(variances, default=0.0)) / 2,
    )


def _distance(square: float) -> float:
    """|ln √q|, infinite for 0 and for what is not finite."""
    return abs(log(square)) / 2 if isfinite(square) and square > 0 else inf


# Depth laws: how a positive quantity goes with depth, as a power, as an exponential, not at all, or by neither.
#
#     flat           max / min below `FLAT`
#     power          v = a (x + s)^c              1 for linear growth, -1 for a hyperbola; s ≥ 0 is fitted, too
#     exponential    v = a e^{c x}                c is the rate a layer
#
# The power and the exponential are fitted to log v by least squares. The nearer one is the law, or neither, if it
# leaves more than a tenth of the variance of log v. A power has a number more to fit, s, which favours it where
# depths are few. Depth x is the layer in a model, or the number of layers of several models.
#
#     Kedia et al. 2024, arXiv:2403.09635, Table 3 and Fig. 1 to 4 (O(1), O(N), O(c^N)).

LawKind: TypeAlias = Literal["flat", "power", "exponential", "neither"]

FLAT = 1.5  # a quantity that varies by less than this factor is flat
LEAST_R2 = 0.9  # curves that leave more than 1 minus this of the variance of log v are no law of it
FEWEST_DEPTHS = 4  # the fewest depths that a law is fitted to
SHIFTS = 400  # the number of values of s that are tried, evenly spread by their logarithms, besides 0


@dataclass(frozen=True, slots=True)
class DepthLaw:
    """The kind of law, its `exponent` c, its `shift` s (0 but for a power), and r² of log v of the nearer curve.

    r² is 1 for a flat one, and c is 0 there and for neither.
    """

    kind: LawKind
    exponent: float
    shift: float
    r2: float

    def __str__(self) -> str:
        """The law as a formula of the layer.

        >>> str(DepthLaw("power", 1.0, 0.5, 0.999)), str(DepthLaw("exponential", -0.077, 0.0, 1.0))
        ('(layer + 0.5)^1', 'e^(-0.077 layer)')
        """
        if self.kind in ("flat", "neither"):
            return self.kind
        if self.kind == "exponential":
            return f"e^({self.exponent:.3g} layer)"
        return f"(layer + {self.shift:.2g})^{self.exponent:.3g}" if self.shift else f"layer^{self.exponent:.3g}"


def depth_law(depths: Sequence[float], values: Sequence[float]) -> DepthLaw | None:
    """Fit the law of values at depths ≥ 0; None for fewer than `FEWEST_DEPTHS`, or if a value is 0 or not finite."""
    x, v = np.asarray(depths, dtype=float), np.asarray(values, dtype=float)
    if len(x) < FEWEST_DEPTHS or not (np.isfinite(v).all() and (v > 0).all()):
        return None
    if v.max() < FLAT * v.min():
        return DepthLaw("flat", 0.0, 0.0, 1.0)
    y = np.log(v)
    rate, missed = _line(x, y)
    exponential = DepthLaw("exponential", rate, 0.0, _r2(missed, y))
    shifts = np.geomspace(1e-2, x.max(), SHIFTS)
    powers = [(*_line(np.log(x + s), y), float(s)) for s in ((0.0, *shifts) if x.min() > 0 else shifts)]
    exponent, missed, shift = min(powers, key=lambda power: power[1])
    power = DepthLaw("power", exponent, shift, _r2(missed, y))
    nearer = power if power.r2 > exponential.r2 else exponential
    return nearer if nearer.r2 >= LEAST_R2 else DepthLaw("neither", 0.0, 0.0, nearer.r2)


def _line(x: Array, y: Array) -> tuple[float, float]:
    """The slope of the line of least squares, and the sum of squares that it misses."""
    apart = x - x.mean()
    slope = float(apart @ y / (apart @ apart))
    return slope, float(((y - y.mean() - slope * apart) ** 2).sum())


def _r2(missed: float, y: Array) -> float:
    return 1 - missed / float(((y - y.mean()) ** 2).sum())


# Sensitivity: by how much the output changes if the stream, or the weights of a layer, are changed a little.
#
#     stream    S_l = (g_l q_l) / (g_L q_L)      q the mean square of the stream, g that of its gradient, behind layer l
#     weights   w_l = 1 - tr(J_l Σ_{l-1} J_lᵀ) / tr Σ_l          J_l = E[∂x_l/∂x_{l-1}]: `InitialModel.fresh`
#     model     N · median_l w_l                                  the mean instead, after Davis et al.
#
# A change of the stream behind layer l that is independent from entry to entry, ε² of its mean square, changes that
# behind the last by S_l ε² of its own. Weights of layer l drawn anew change the stream behind it by 2 w_l of its mean
# square: w_l is the share that the layer has written. Beside a skip of 1, a branch of mean square β² has written β² /
# q_l, which is the paper's; of N layers together it is O(1) in Pre-LN, and k N^{1-α} where β² = k / N^α.
#
#     Kedia et al. 2024, arXiv:2403.09635, Sec. 4.6 (sensitivity, its median over layers); Davis et al. 2021, ICML
#     (Catformer); gradients of weights that are independent of the way back, as in `models.py`.


def stream_sensitivities(forecast: InitialModel) -> tuple[float, ...]:
    """S_0 to S_L, of which the last is 1; NaN where the stream or its gradient ends as zeros."""
    last = forecast.streams[-1].gradient * forecast.streams[-1].mean_square
    return tuple(stream.gradient * stream.mean_square / last if last else nan for stream in forecast.streams)


def model_sensitivity(weights: Sequence[float]) -> tuple[float, float]:
    """N times the median of w_l over N layers, and N times their mean.

    >>> model_sensitivity([0.5, 0.1, 0.1])
    (0.30000000000000004, 0.7)
    """
    return len(weights) * median(weights), len(weights) * fmean(weights)


# Kurtosis bound: what a token kernel says of how much larger a few neurons may be than the rest.
#
# For X [n tokens, d neurons] with the kernel Σ = X Xᵀ / d [n, n], and the kurtosis of the probe of that name, Kurt(X)
# = mean_j m_j² / (mean_j m_j)² of the mean squares m_j = (1/n) Σ_α X_αj²:
#
#     any X                                      1 ≤ Kurt(X) ≤ d ‖Σ‖_F² / (tr Σ)²
#     independent normal neurons of kernel Σ     Kurt = E[m²] / E[m]² = 1 + 2 ‖Σ‖_F² / (tr Σ)² ≤ 3
#     of them, tokens of one cosine ρ            Kurt = 1 + 2 ρ² + 2 (1 - ρ²) / n
#
# The first holds during training, too: the squares on the diagonal of XᵀX are some of those of all its entries, whose
# sum is that of X Xᵀ. The second is where a wide network starts. Both are larger the more alike tokens are, up
# to d and 3 where rank has collapsed. Σ is of the tokens over which Kurt is taken; that of one sequence, for one.
#
#     He et al. 2024, arXiv:2405.19279, Eq. 1 and 4, and Prop. J.1 (for large n; the exact one is Eq. 16 there).


def normal_kurtosis(kernel: Array) -> float:
    """1 + 2 ‖Σ‖_F² / (tr Σ)², the kurtosis of many independent normal neurons; InputError for zeros.

    >>> normal_kurtosis(np.ones((4, 4))), normal_kurtosis(np.eye(4))
    (3.0, 1.5)
    """
    if not float(np.trace(kernel)) > 0:
        raise InputError("tokens of zeros have no kurtosis\n  = the stream is 0 there, or not finite: look at its size")
    return 1 + 2 * participation(kernel)
