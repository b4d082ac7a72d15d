"""The initial state of a model, before a single step: its numbers, whether forecast or measured on a sampled model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import expm1, log1p, sqrt

import numpy as np

from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.block.normal_form import fingerprint
from ablate.block.sizes import Sizes
from ablate.output.words import percent
from ablate.signal.finite_width import Scatter, participation
from ablate.signal.propagation import Array, Signal
from ablate.signal.sampled_attention import AttentionStart

QUANTITIES: Mapping[str, str] = {
    "size": "root mean square of the stream over channels and tokens",
    "cosine": "mean cosine of two tokens of one sequence",
    "gradient": "root mean square of the gradient over that behind the last layer",
}
"""The quantities that are shown of a stream, with their definitions."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of one network about a forecast, at one layer.

    `mean_square` and `gradient` are of the logs of mean squares, `correlation` is of a mean cosine.
    """

    mean_square: float
    correlation: float
    gradient: float


@dataclass(frozen=True, slots=True)
class InitialStream:
    """The residual stream behind `layer` (0: in front of the first), and the gradient of the loss there.

    `mean_square` is E[x²] over channels and tokens, `correlation` the mean cosine of two tokens of a sequence,
    `gradient` the mean square of the gradient over that behind the last layer, and `gradient_correlation` the mean
    cosine of the gradients at two tokens. `kernel` is Σ [T, T], and `spread` how far one network may be from these
    numbers, None where they were measured.
    """

    layer: int
    mean_square: float
    correlation: float
    gradient: float
    gradient_correlation: float
    kernel: Array
    spread: Spread | None = None

    def shown(self) -> tuple[float, float, float]:
        """The `QUANTITIES`, in their order."""
        return math.sqrt(self.mean_square), self.correlation, math.sqrt(self.gradient)

    def intervals(self) -> tuple[tuple[float, float], ...] | None:
        """The ends of the interval of 95 % about each of the `QUANTITIES`; None of what was measured.

        size and gradient   √m e^(-s) to √m e^s, of a mean square m whose logarithm has the standard deviation s
        cosine              `cosine_ends`
        """
        if self.spread is None:
            return None
        size, cosine, gradient = self.shown()
        of_size, of_gradient = np.exp(self.spread.mean_square), np.exp(self.spread.gradient)
        return (
            (float(size / of_size), float(size * of_size)),
            cosine_ends(cosine, self.spread.correlation, len(self.kernel)),
            (float(gradient / of_gradient), float(gradient * of_gradient)),
        )


@dataclass(frozen=True, slots=True)
class InitialModel:
    """A model before a single step: the stream behind each layer, from 0, and the mean square of the logits.

    `repetition` is the share of pairs of tokens that are the same, NaN where tokens are not read. Streams behind layers
    that are not `computed` lie between those that are (`theory/through_layers.py`). `attention` is that of the computed
    layers, in their order, each with its layer; a measured model has none. `sampled` names the components of a forecast
    whose numbers are means over random numbers, the same in every forecast. `fresh` is the share of the stream behind
    each layer, from 1 on, that the layer has written, of a forecast. Of a model of two stacks these are the numbers of
    the decoder; `encoder` has those of the other one, whose gradient comes from all cross-attention, relative to that
    behind its own last layer, and whose logits are NaN.
    """

    streams: tuple[InitialStream, ...]
    logits: float
    repetition: float
    computed: frozenset[int]
    attention: tuple[AttentionStart, ...] = ()
    sampled: tuple[str, ...] = ()
    fresh: tuple[float, ...] = ()
    encoder: InitialModel | None = None

    @property
    def gradient_ratio(self) -> float:
        """The mean square of the gradient in front of the first layer over that behind the last."""
        return self.streams[0].gradient

    @property
    def growth(self) -> float:
        """The mean square behind the last layer over that in front of the first; NaN if that is 0."""
        first, last = self.streams[0].mean_square, self.streams[-1].mean_square
        return last / first if first else math.nan


def cosine_ends(cosine: float, sd: float, tokens: int) -> tuple[float, float]:
    """The ends of the interval about a mean cosine of so many tokens, which lies between -1 / (T - 1) and 1.

    They are 4 sd apart, and as far from the cosine in ln((c + 1 / (T - 1)) / (1 - c)): near 0 the upper end is the
    farther one, near 1 the lower.

    >>> [f"{end:.3f}" for c in (0.05, 0.5, 0.99) for end in cosine_ends(c, 0.01, 128)]
    ['0.033', '0.073', '0.480', '0.520', '0.958', '0.998']
    """
    least = -1 / max(tokens - 1, 1)
    share, width = (cosine - least) / (1 - least), 4 * sd / (1 - least)
    if not (0 < share < 1 and width > 0):
        return cosine, cosine
    if width >= 1:
        return least, 1.0
    odds = share / (1 - share)
    tilted = width * (odds + 1 / odds) / 2  # with u the factor of the odds, (1 - w) u² - 2 tilted u - (1 + w) = 0
    factor = (tilted + math.sqrt(tilted**2 + 1 - width**2)) / (1 - width)
    low, high = odds / factor, odds * factor
    return (low + least) / (1 + low), (high + least) / (1 + high)


def mean_cosine(kernel: Array) -> float:
    """The mean of Σ_ij / √(Σ_ii Σ_jj) over two different tokens; NaN for one token, or for tokens of zeros.

    >>> mean_cosine(np.array([[4.0, 1.0], [1.0, 1.0]]))
    0.5
    """
    sizes = np.sqrt(np.diag(kernel))
    length = len(kernel)
    if length < 2 or not sizes.all():
        return math.nan
    cosines = kernel / np.outer(sizes, sizes)
    return float((cosines.sum() - length) / (length * (length - 1)))


# Intervals of a forecast: how far one network of the given width may be from it, and what width makes of its middle.
#
#     log m̂_l ~ log m_l + a_l ± 2 √(V_l + ε²)        V_l = f_l² V_{l-1} + v_l
#
# V_l is the variance of the log of a mean square from one draw of the weights to another, of order 1/d (see
# `signal/finite_width.py`): a layer follows what is in front of it with the slope f_l and adds v_l. ε is what
# forecasts of many blocks missed besides: attention in closed form, and tokens that repeat as often as on average. Of
# a gradient, v_l is that of `MATRICES` matrices in the share of the gradient that did not come back along skips, and
# of cosines, of as many in the share of the stream that is new. The interval is for one network, whose mean is taken
# over a batch.
#
# The gradient of a token of size m goes back through a layer as m'/m, m' without what the layer's weights added, e^n,
# and through the norm at the end as 1/m_L. With δ_l the part by which log m_l is off, it is e^(-δ_l - Σ_{k>l} n_k)
# behind layer l. Its mean over tokens, with D_l, a_l and N_k = Var n_k of what tokens do not share, over that at the
# end:
#
#     log ĝ_l - log g_l = min{(D_l - a_l + Σ_{k>l} N_k) - (D_L - a_L), 0}            ± 2 √(… + W_l + ε²)
#     W_l = (F_l - 1)² V_l + Σ_{k>l} (F_k - 1)² v_k        F_l = f_{l+1} … f_L, of δ_L - δ_l - Σ_{k>l} n_k
#
# It is above 0 where norms forget sizes, by a few parts in d for each layer. Forecasts in the limit are above samples
# there rather than below them (Pre-LN of 12 layers and width 128: by 0.03, where this would add 0.06), as attention
# in closed form is off by as much: it is left out. Where streams feed on themselves it is far below 0.
#
# Where tokens differ much, few of them have most of the mean: of log-normal sizes its log has the variance log(1 + V
# (e^U - 1) / U) in place of V, U = V + D, which is V for small U, and for a single token; and W_l likewise.

MATRICES = 4  # the matrices that one layer puts a signal through: values, projection, and two of an MLP
MISSED_MEAN_SQUARE, MISSED_COSINE, MISSED_GRADIENT = 0.04, 0.025, 0.08
"""ε of the log of a mean square, of a mean cosine c over √(1 - c²), and of the log of a gradient's mean square."""


MOST_VARIANCE = 8.0  # the largest D that is reckoned with: beyond it, first orders in 1/d say nothing of sizes

OVERFLOWING_VARIANCE = 500.0  # a variance whose exponential is not reckoned with


@dataclass(frozen=True, slots=True)
class LayerScatter:
    """A layer's effect on variances: its slope f, the variance v that it adds, and the new share of its output.

    Of the part that tokens do not share, `own` is what it adds to the size, u, and `noise` to the gradient, N;
    `bends` κ, `raised` and `alone`, α, are those of its scatter.
    """

    follows: float
    variance: float
    fresh: float
    own: float = 0.0
    noise: float = 0.0
    bends: float = 0.0
    raised: float = 0.0
    alone: float = 1.0

    @staticmethod
    def of(before: Array, behind: Signal, length: int) -> LayerScatter:
        """From the signal behind a layer, whose root has the kernel `before`; T of the tokens are its own."""
        scatter, kernel = behind.scatter, behind.kernel[:length, :length]
        fresh = 1 - _linear_share(behind.transfer, before, kernel)
        variance = scatter.total(kernel)
        own, noise = scatter.of_token - variance, scatter.all_noise * (1 - participation(kernel))
        bent = scatter.bends, scatter.raised, scatter.alone
        return LayerScatter(scatter.follows, variance, fresh, own, noise, *bent)


def gradient_variance(gradient: Array, arrived: Array, transfer: Array | None, sizes: Sizes) -> float:
    """A layer's addition to the variance of the log of a gradient: behind it `gradient`, in front `arrived`.

    [T, T] of both are those of the stream itself.
    """
    own = gradient[: sizes.seq_len, : sizes.seq_len]
    back = None if transfer is None else transfer.T
    fresh = 1 - _linear_share(back, own, arrived[: sizes.seq_len, : sizes.seq_len])
    return fresh**2 * MATRICES * 2 * participation(own) / sizes.d_model


def spreads(
    forward: Mapping[int, LayerScatter],
    backward: Mapping[int, float],
    cosines: Sequence[float],
    start: float,
    sizes: Sizes,
    varied: Sequence[float] = (),
) -> tuple[Spread, ...]:
    """The spread behind each layer, from 0 on; layers that were not computed lie between those that were.

    `start` is the variance of the log of the mean square in front of the first layer, and `varied` D behind each.
    """
    layers = len(cosines) - 1
    follows, variance, fresh = (between(_by_layer(forward, name), layers) for name in ("follows", "variance", "fresh"))
    gradients = between(backward, layers)
    squares, freedoms = [start], [1 / sizes.d_model]
    for slope, more, new in zip(follows, variance, fresh, strict=True):
        squares.append(slope**2 * squares[-1] + more)
        freedoms.append((1 - new) ** 2 * freedoms[-1] + new**2 * MATRICES / sizes.d_model)
    varied = varied or [0.0] * (layers + 1)
    back = [*np.cumsum(gradients[::-1])[::-1], 0.0]
    reached, later = 1.0, 0.0  # F_l and the sum of W_l
    for layer in range(layers - 1, -1, -1):
        later += (reached - 1) ** 2 * variance[layer]
        reached *= follows[layer]
        back[layer] += _of_mean((reached - 1) ** 2 * squares[layer] + later, varied[-1])
    return tuple(
        Spread(
            sqrt(_of_mean(square, apart) + MISSED_MEAN_SQUARE**2),
            sqrt(
                2 * freedom * ((1 - cosine) * (cosine + 1 / sizes.seq_len)) ** 2
                + MISSED_COSINE**2 * max(1 - cosine**2, 0)
            ),
            sqrt(gradient + MISSED_GRADIENT**2) if layer < layers else 0.0,
        )
        for layer, (square, apart, freedom, cosine, gradient) in enumerate(
            zip(squares, varied, freedoms, cosines, back, strict=True)
        )
    )


def token_variances(forward: Mapping[int, LayerScatter], start: Scatter, kernel: Array, layers: int) -> list[float]:
    """D, the variance of the log of a token's mean square that others do not share, behind each layer.

    `start` is the scatter in front of the first layer, and `kernel` that of its signal.
    """
    varied, names = [min(start.of_token - start.total(kernel), MOST_VARIANCE)], ("follows", "alone", "own")
    for follows, alone, own in zip(*(between(_by_layer(forward, name), layers) for name in names), strict=True):
        varied.append(float(min((follows * alone) ** 2 * varied[-1] + own, MOST_VARIANCE)))
    return varied


def shifts(
    forward: Mapping[int, LayerScatter], start: Scatter, varied: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """The additions to the logs of a mean square and of a gradient's at this width, from layer 0 on.

    `start` is the scatter in front of the first layer, and `varied` are D behind each.
    """
    names = ("follows", "bends", "alone", "raised", "noise")
    follows, bends, alone, more, noises = (between(_by_layer(forward, name), len(varied) - 1) for name in names)
    raised = [start.raised]
    for slope, bend, share, own, before in zip(follows, bends, alone, more, varied[:-1], strict=True):
        raised.append(float(slope * raised[-1] + bend * share**2 * before / 2 + own))
    later = [*np.cumsum(noises[::-1])[::-1], 0.0]
    raised = np.minimum(
        raised, varied
    ).tolist()  # it is about half of D at most, but where that is at its `MOST_VARIANCE`
    back = np.subtract(varied, raised) + later
    return tuple(zip(raised, np.minimum(back - back[-1], 0.0).tolist(), strict=True))


def fresh_shares(forward: Mapping[int, LayerScatter], layers: int) -> tuple[float, ...]:
    """The share of the stream behind each layer, from 1 on, that the layer has written."""
    return tuple(between(_by_layer(forward, "fresh"), layers).tolist())


def between(known: Mapping[int, float], layers: int) -> Array:
    """The numbers of layers 1 to `layers`, of which some are known and the others lie between those."""
    at = sorted(known)
    return np.asarray(np.interp(np.arange(1, layers + 1), at, [known[layer] for layer in at]))


def _of_mean(shared: float, apart: float) -> float:
    """The variance of the log of a mean over tokens, of sizes that vary so much together, and each by D."""
    of_token = shared + apart
    return log1p(shared * expm1(of_token) / of_token) if 0 < of_token < OVERFLOWING_VARIANCE else shared


def _by_layer(forward: Mapping[int, LayerScatter], name: str) -> dict[int, float]:
    return {layer: getattr(each, name) for layer, each in forward.items()}


def _linear_share(transfer: Array | None, before: Array, after: Array) -> float:
    """The share of a mean square that came along linearly, tr(J Σ Jᵀ) / tr Σ', over the tokens of Σ'."""
    whole, length = float(np.trace(after)), len(after)
    if transfer is None or not whole > 0:
        return 0.0
    before = before[:length, :length]
    if transfer.ndim == 1:
        kept = transfer[:length, None] * before * transfer[:length]
    else:
        own = transfer[:length, :length]
        kept = own @ before @ own.T
    return min(max(float(np.trace(kept)) / whole, 0.0), 1.0)


# Named blocks of which clearly fewer starts lie within the intervals of their forecast than the 95 % of their design.
#
# Each was sampled by `tests/benchmarks/forecast_coverage.py`, whose rows are in `results/bench`; of other named blocks
# at least 85 % of layers lie within, in each quantity.


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The share of layers of sampled starts that lay within the interval of a quantity, at these sizes."""

    quantity: str
    share: float
    starts: int
    width: int
    layers: int

    def __str__(self) -> str:
        return (
            f"its interval of the {self.quantity} is too narrow: of {self.starts} starts sampled at width "
            f"{self.width:,} and {self.layers} layers {percent(self.share)} of layers lay within"
        )


SHORTFALLS: Mapping[str, tuple[Shortfall, ...]] = {
    "c599a9f7dad6": (Shortfall("gradient", 0.73, 16, 512, 4),),  # post_ln_cross, the decoder
    "1ebe31faf3b8": (Shortfall("cosine", 0.81, 16, 1024, 4),),  # dslm_pre_ln
}
"""By the fingerprint of the block."""


def shortfalls_of(block: Block, catalogue: Catalogue) -> tuple[Shortfall, ...]:
    """The shortfalls of a block, whatever its name; none of one that was not sampled."""
    return SHORTFALLS.get(fingerprint(block, catalogue), ())
