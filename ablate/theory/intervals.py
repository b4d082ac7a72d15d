"""Intervals of a forecast: how far one network of the given width may be from it, and what width makes of its middle.

    log m̂_l ~ log m_l + a_l ± 2 √(V_l + ε²)        V_l = f_l² V_{l-1} + v_l

V_l is the variance of the log of a mean square from one draw of the weights to another, of order 1/d (see
`signal/finite_width.py`): a layer follows what is in front of it with the slope f_l and adds v_l. ε is what forecasts
of many blocks missed besides: attention in closed form, and tokens that repeat as often as on average. Of a gradient,
v_l is that of `MATRICES` matrices in the share of the gradient that did not come back along skips, and of cosines, of
as many in the share of the stream that is new. The interval is for one network, whose mean is taken over a batch.

The gradient of a token of size m goes back through a layer as m'/m, m' without what the layer's weights added, e^n, and
through the norm at the end as 1/m_L. With δ_l the part by which log m_l is off, it is e^(-δ_l - Σ_{k>l} n_k) behind
layer l. Its mean over tokens, with D_l, a_l and N_k = Var n_k of what tokens do not share, over that at the end:

    log ĝ_l - log g_l = min{(D_l - a_l + Σ_{k>l} N_k) - (D_L - a_L), 0}            ± 2 √(… + W_l + ε²)
    W_l = (F_l - 1)² V_l + Σ_{k>l} (F_k - 1)² v_k        F_l = f_{l+1} … f_L, of δ_L - δ_l - Σ_{k>l} n_k

It is above 0 where norms forget sizes, by a few parts in d for each layer. Forecasts in the limit are above samples
there rather than below them (Pre-LN of 12 layers and width 128: by 0.03, where this would add 0.06), as attention in
closed form is off by as much: it is left out. Where streams feed on themselves it is far below 0.

Where tokens differ much, few of them have most of the mean: of log-normal sizes its log has the variance
log(1 + V (e^U - 1) / U) in place of V, U = V + D, which is V for small U, and for a single token; and W_l likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import expm1, log1p, sqrt

import numpy as np

from ablate.block.sizes import Sizes
from ablate.signal.finite_width import Scatter, participation
from ablate.signal.propagation import Array, Signal
from ablate.theory.initial_state import Spread

MATRICES = 4
"""The matrices that one layer puts a signal through: values, projection, and two of an MLP."""
MEAN_SQUARE, CORRELATION, GRADIENT = 0.04, 0.025, 0.08
"""ε of the log of a mean square, of a mean cosine c over √(1 - c²), and of the log of a gradient's mean square."""


MOST = 8.0
"""The largest D that is reckoned with: beyond it, first orders in 1/d say nothing of sizes."""

OVERFLOWS = 500.0
"""A variance whose exponential is not reckoned with."""


@dataclass(frozen=True, slots=True)
class LayerScatter:
    """What a layer does to variances: its slope f, what it adds, v, and the share of its output that is new.

    Of what tokens do not share, `own` is what it adds to the size, u, and `noise` to the gradient, N;
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
        """Read it off the signal behind a layer, whose root has the kernel `before`; T of the tokens are its own."""
        scatter, kernel = behind.scatter, behind.kernel[:length, :length]
        fresh = 1 - _kept(behind.transfer, before, kernel)
        variance = scatter.total(kernel)
        own, noise = scatter.of_token - variance, scatter.all_noise * (1 - participation(kernel))
        bent = scatter.bends, scatter.raised, scatter.alone
        return LayerScatter(scatter.follows, variance, fresh, own, noise, *bent)


def gradient_variance(gradient: Array, arrived: Array, transfer: Array | None, sizes: Sizes) -> float:
    """Return what a layer adds to the variance of the log of a gradient: behind it `gradient`, in front `arrived`.

    [T, T] of both are those of the stream itself.
    """
    own = gradient[: sizes.seq_len, : sizes.seq_len]
    back = None if transfer is None else transfer.T
    fresh = 1 - _kept(back, own, arrived[: sizes.seq_len, : sizes.seq_len])
    return fresh**2 * MATRICES * 2 * participation(own) / sizes.d_model


def spreads(
    forward: Mapping[int, LayerScatter],
    backward: Mapping[int, float],
    cosines: Sequence[float],
    start: float,
    sizes: Sizes,
    varied: Sequence[float] = (),
) -> tuple[Spread, ...]:
    """Return the spread behind each layer, from 0 on; layers that were not computed lie between those that were.

    `start` is the variance of the log of the mean square in front of the first layer, and `varied` D behind each.
    """
    layers = len(cosines) - 1
    follows, variance, fresh = (between(_of(forward, name), layers) for name in ("follows", "variance", "fresh"))
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
            sqrt(_of_mean(square, apart) + MEAN_SQUARE**2),
            sqrt(
                2 * freedom * ((1 - cosine) * (cosine + 1 / sizes.seq_len)) ** 2
                + CORRELATION**2 * max(1 - cosine**2, 0)
            ),
            sqrt(gradient + GRADIENT**2) if layer < layers else 0.0,
        )
        for layer, (square, apart, freedom, cosine, gradient) in enumerate(
            zip(squares, varied, freedoms, cosines, back, strict=True)
        )
    )


def token_variances(forward: Mapping[int, LayerScatter], start: Scatter, kernel: Array, layers: int) -> list[float]:
    """Return D, the variance of the log of a token's mean square that others do not share, behind each layer.

    `start` is the scatter in front of the first layer, and `kernel` what it is of.
    """
    varied, names = [min(start.of_token - start.total(kernel), MOST)], ("follows", "alone", "own")
    for follows, alone, own in zip(*(between(_of(forward, name), layers) for name in names), strict=True):
        varied.append(float(min((follows * alone) ** 2 * varied[-1] + own, MOST)))
    return varied


def shifts(
    forward: Mapping[int, LayerScatter], start: Scatter, varied: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """Return what is added to the logs of a mean square and of a gradient's at this width, from layer 0 on.

    `start` is the scatter in front of the first layer, and `varied` are D behind each.
    """
    names = ("follows", "bends", "alone", "raised", "noise")
    follows, bends, alone, more, noises = (between(_of(forward, name), len(varied) - 1) for name in names)
    raised = [start.raised]
    for slope, bend, share, own, before in zip(follows, bends, alone, more, varied[:-1], strict=True):
        raised.append(float(slope * raised[-1] + bend * share**2 * before / 2 + own))
    later = [*np.cumsum(noises[::-1])[::-1], 0.0]
    raised = np.minimum(raised, varied).tolist()  # it is about half of D at most, but where that is at its `MOST`
    back = np.subtract(varied, raised) + later
    return tuple(zip(raised, np.minimum(back - back[-1], 0.0).tolist(), strict=True))


def fresh_shares(forward: Mapping[int, LayerScatter], layers: int) -> tuple[float, ...]:
    """Return the share of the stream behind each layer, from 1 on, that the layer has written."""
    return tuple(between(_of(forward, "fresh"), layers).tolist())


def between(known: Mapping[int, float], layers: int) -> Array:
    """Return the numbers of layers 1 to `layers`, of which some are known and the others lie between those."""
    at = sorted(known)
    return np.asarray(np.interp(np.arange(1, layers + 1), at, [known[layer] for layer in at]))


def _of_mean(shared: float, apart: float) -> float:
    """Return the variance of the log of a mean over tokens, of sizes that vary so much together, and each by D."""
    of_token = shared + apart
    return log1p(shared * expm1(of_token) / of_token) if 0 < of_token < OVERFLOWS else shared


def _of(forward: Mapping[int, LayerScatter], name: str) -> dict[int, float]:
    return {layer: getattr(each, name) for layer, each in forward.items()}


def _kept(transfer: Array | None, before: Array, after: Array) -> float:
    """Return the share of a mean square that came along linearly, tr(J Σ Jᵀ) / tr Σ', over the tokens of Σ'."""
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
