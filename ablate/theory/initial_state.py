"""The initial state of a model, before a single step: its numbers, whether forecast or measured on a sampled model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ablate.signal.attention_start import AttentionStart
from ablate.signal.propagation import Array

QUANTITIES: Mapping[str, str] = {
    "size": "root mean square of the stream over channels and tokens",
    "cosine": "mean cosine of two tokens of one sequence",
    "gradient": "root mean square of the gradient over that behind the last layer",
}
"""What is shown of a stream, with its definition."""


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
        """Return the `QUANTITIES`, in their order."""
        return math.sqrt(self.mean_square), self.correlation, math.sqrt(self.gradient)

    def intervals(self) -> tuple[tuple[float, float], ...] | None:
        """Return the ends of the interval of 95 % about each of the `QUANTITIES`; None of what was measured.

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

    `repetition` is the share of pairs of tokens that are the same, with which the embedding begins. Streams behind
    layers that are not `computed` lie between those that are (`theory/strides.py`). `attention` is that of the
    computed layers, in their order, each with its layer; a measured model has none.
    `sampled` names the components of a forecast that have no closed form there: what they do is a mean over random
    numbers, which are the same in every forecast.
    `fresh` is the share of the stream behind each layer, from 1 on, that the layer has written, of a forecast.
    Where tokens are not read, `repetition` is NaN. Of a model of two stacks these are the numbers of the decoder, and
    `encoder` has those of the other one, whose gradient comes from all cross-attention; its own logits are NaN, and its
    gradients are relative to that behind its own last layer.
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
    """Return the ends of the interval about a mean cosine of so many tokens, which lies between -1 / (T - 1) and 1.

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
    """Return the mean of Σ_ij / √(Σ_ii Σ_jj) over two different tokens; NaN for one token, or for tokens of zeros.

    >>> mean_cosine(np.array([[4.0, 1.0], [1.0, 1.0]]))
    0.5
    """
    sizes = np.sqrt(np.diag(kernel))
    length = len(kernel)
    if length < 2 or not sizes.all():
        return math.nan
    cosines = kernel / np.outer(sizes, sizes)
    return float((cosines.sum() - length) / (length * (length - 1)))
