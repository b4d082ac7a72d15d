"""Intervals of a forecast: how far one network of the given width may be from it.

    log m̂_l ~ log m_l ± 2 √(V_l + ε²)        V_l = f_l² V_{l-1} + v_l

V_l is the variance of the log of a mean square from one draw of the weights to another, of order 1/d (see
`signal/finite_width.py`): a layer follows what is in front of it with the slope f_l and adds v_l. ε is what forecasts
of many blocks missed besides: attention in closed form, and tokens that repeat as often as on average. Of a gradient,
v_l is that of `MATRICES` matrices in the share of the gradient that did not come back along skips, and of cosines, of
as many in the share of the stream that is new. The interval is for one network, whose mean is taken over a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ablate.block.sizes import Sizes
from ablate.signal.finite_width import participation
from ablate.signal.propagation import Array, Signal
from ablate.theory.initial_state import Spread

MATRICES = 4
"""The matrices that one layer puts a signal through: values, projection, and two of an MLP."""
MEAN_SQUARE, CORRELATION, GRADIENT = 0.04, 0.025, 0.08
"""ε of the log of a mean square, of a mean cosine c over √(1 - c²), and of the log of a gradient's mean square."""


@dataclass(frozen=True, slots=True)
class LayerScatter:
    """What a layer does to variances: its slope f, what it adds, v, and the share of its output that is new."""

    follows: float
    variance: float
    fresh: float

    @staticmethod
    def of(before: Array, behind: Signal, length: int) -> LayerScatter:
        """Read it off the signal behind a layer, whose root has the kernel `before`; T of the tokens are its own."""
        scatter, kernel = behind.scatter, behind.kernel[:length, :length]
        fresh = 1 - _kept(behind.transfer, before, kernel)
        return LayerScatter(scatter.follows, scatter.total(kernel), fresh)


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
) -> tuple[Spread, ...]:
    """Return the spread behind each layer, from 0 on; layers that were not computed lie between those that were.

    `start` is the variance of the log of the mean square in front of the first layer.
    """
    layers = len(cosines) - 1
    follows, variance, fresh = (between(_of(forward, name), layers) for name in ("follows", "variance", "fresh"))
    gradients = between(backward, layers)
    squares, freedoms = [start], [1 / sizes.d_model]
    for slope, more, new in zip(follows, variance, fresh, strict=True):
        squares.append(slope**2 * squares[-1] + more)
        freedoms.append((1 - new) ** 2 * freedoms[-1] + new**2 * MATRICES / sizes.d_model)
    back = [*np.cumsum(gradients[::-1])[::-1], 0.0]
    return tuple(
        Spread(
            sqrt(square + MEAN_SQUARE**2),
            sqrt(
                2 * freedom * ((1 - cosine) * (cosine + 1 / sizes.seq_len)) ** 2
                + CORRELATION**2 * max(1 - cosine**2, 0)
            ),
            sqrt(gradient + GRADIENT**2) if layer < layers else 0.0,
        )
        for layer, (square, freedom, cosine, gradient) in enumerate(zip(squares, freedoms, cosines, back, strict=True))
    )


def fresh_shares(forward: Mapping[int, LayerScatter], layers: int) -> tuple[float, ...]:
    """Return the share of the stream behind each layer, from 1 on, that the layer has written."""
    return tuple(between(_of(forward, "fresh"), layers).tolist())


def between(known: Mapping[int, float], layers: int) -> Array:
    """Return the numbers of layers 1 to `layers`, of which some are known and the others lie between those."""
    at = sorted(known)
    return np.asarray(np.interp(np.arange(1, layers + 1), at, [known[layer] for layer in at]))


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
