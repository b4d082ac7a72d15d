"""Finite width: how far the mean square of one random network is from its mean over random weights, to first order.

    m̂ = m (1 + δ)        Var δ of a signal = follows² · Var δ of its root + what its own weights add

A matrix of independent normal entries with d outputs adds 2 P / d, where P = ‖Σ‖² / (tr Σ)² is 1 if all T tokens are
one and 1/T if they have nothing in common (Σ̂ is a Wishart matrix of d degrees of freedom); an orthogonal one with d'
inputs 2 P (1/d - 1/d'), or nothing. Tokens may be mixed behind it: P is that of what comes out. An activation of
slope s (of log E[φ²]) takes what came before times s², and adds what else φ² varies by over its width, in its part that
goes with u times Σ_ij √(Σ_ii Σ_jj) Σ_ij / (tr Σ)² (`gaussian_activations.py`), in the rest times P. A norm forgets the
size, and a sum weighs each path by its share of the mean square, of which two paths that meet by chance have a part.

The size m_t of one token, of P = 1, varies by more than the mean over tokens. What of it they do not share has the
variance D, and what bends with it is larger on average than at its mean:

    log mean m_t - log m = a      a' = f a + κ α² D / 2      κ = m''/m over log-size, less f: 0 for m and m + c, s (s-1)
                                  D' = f² α² D + u                for m^s; a sum has the mean κ of its paths by share

α is the share that is a token's own of what it takes from all tokens, 1 but behind attention. What is added behind such
a map, u, is of mean 1 and makes no difference. On the way back, the gradient of a token goes as m'/m through each map,
without what its weights added: see `theory/initial_state.py`.

    Li, Nica & Roy 2021, arXiv:2106.04013, and Hanin & Nica 2020, arXiv:1812.05994 (log-normal sizes, of variance
    proportional to depth over width).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations
from math import inf, isfinite

import numpy as np

from ablate.signal.gaussian_activations import ActivationKernel
from ablate.signal.kernel_maps import Floats


@dataclass(frozen=True, slots=True)
class Scatter:
    """The variation of the log of a mean square over draws of the weights, from its root on.

    `follows` is its slope over the log of the root's mean square, `variance` what came before the last activation,
    and `freedom` the sum of 1/d over the matrices since. Of one token, `own` is that variance, u, `noise` what all
    weights have added, each where it was added, `bends` κ, `raised` a of a root of D = 0, and `alone` α.
    """

    follows: float = 1.0
    variance: float = 0.0
    freedom: float = 0.0
    own: float = 0.0
    noise: float = 0.0
    bends: float = 0.0
    raised: float = 0.0
    alone: float = 1.0

    def total(self, kernel: Floats) -> float:
        """The variance that the weights between the root and this kernel add."""
        return self.variance + 2 * self.freedom * participation(kernel)

    @property
    def of_token(self) -> float:
        """The variance u that these weights add to the log of the mean square of one token."""
        return self.own + 2 * self.freedom

    @property
    def all_noise(self) -> float:
        """The variance that these weights add to one token, where each stands, forgotten since or not."""
        return self.noise + 2 * self.freedom

    def through_weights(self, outputs: float, lengths_of: float = inf) -> Scatter:
        """Go through a matrix of so many outputs, which keeps the lengths of signals of as many channels, if of any."""
        return replace(self, freedom=self.freedom + max(1 / outputs - 1 / lengths_of, 0.0))

    def activated(self, kernel: Floats, width: float, moments: ActivationKernel) -> Scatter:
        """Go through an activation of inputs of this kernel: what the last matrices add is part of E[φ²] already."""
        size, whole = np.sqrt(np.diag(kernel)), float(np.trace(kernel))
        one_sided = float(size @ (kernel / whole) @ size) / whole if whole > 0 and isfinite(whole) else 0.0
        added = moments.one_sided * one_sided + max(moments.excess, 0.0) * participation(kernel)
        slope, alone = moments.follows, (moments.one_sided + max(moments.excess, 0.0)) / width
        return Scatter(
            slope * self.follows,
            slope**2 * self.total(kernel) + added / width,
            own=slope**2 * self.of_token + alone,
            noise=self.all_noise + alone,
            bends=slope * ((slope - 1) * self.follows**2 + self.bends),
            raised=slope * (self.raised + (slope - 1) * self.own / 2),
            alone=self.alone,
        )

    def forgotten(self) -> Scatter:
        """Go through a norm, which forgets the size."""
        return Scatter(follows=0.0, noise=self.all_noise)

    def _more(self, variance: float) -> Scatter:
        return replace(self, variance=self.variance + variance, own=self.own + variance, noise=self.noise + variance)

    def mixed(self, kernel: Floats, matrix: Floats, mixed: Floats) -> Scatter:
        """Go through a mixing M of tokens of this kernel, to those of `mixed`; what comes from others is not alone."""
        if matrix.shape[0] != matrix.shape[1]:
            return replace(self, alone=0.0)
        whole = np.diag(mixed)
        there = (whole > 0) & np.isfinite(whole)
        own = np.diag(matrix)[there] ** 2 * np.diag(kernel)[there] / whole[there]
        return replace(self, alone=self.alone * float(np.minimum(own, 1.0).mean()) if there.any() else 0.0)

    def attending(self, kernel: Floats, varied: Floats, heads: int) -> Scatter:
        """Go through attention, whose weights differ from head to head: that gives the part `varied` of a kernel.

        Each head's part varies by about its own size, so that the mean over heads adds 2 (its share)² / heads.
        """
        whole = float(np.trace(kernel))
        share = abs(float(np.trace(varied))) / whole if whole > 0 and isfinite(whole) else 0.0
        return self._more(2 * share**2 / heads)

    def attending_sampled(self, kernel: Floats, variance: float, heads: int, draws: int) -> Scatter:
        """Go through attention whose weights were drawn: the trace behind one head has this `variance`.

        The mean over heads varies by its part 1 / heads, and the forecast, which is a mean over draws, by 1 / draws.
        """
        whole = float(np.trace(kernel))
        share = variance / whole / whole if whole > 0 and isfinite(whole) else 0.0  # whole² may overflow
        return self._more(share * (1 / heads + 1 / draws))

    def of(self, root: Scatter, kernel: Floats) -> Scatter:
        """Return the scatter behind a root that itself follows another one, and has this kernel."""
        return Scatter(
            self.follows * root.follows,
            self.total(kernel) + self.follows**2 * root.total(kernel),
            own=self.of_token + self.follows**2 * root.of_token,
            noise=self.all_noise + root.all_noise,
            bends=self.bends * root.follows**2 + self.follows * root.bends,
            raised=self.raised + self.follows * root.raised + self.bends * root.of_token / 2,
            alone=self.alone * root.alone,
        )

    def gated(self, kernel: Floats, gate: Scatter, gate_kernel: Floats, width: float) -> Scatter:
        """Multiply two signals of one root by entries, of weights of their own: 4 P / d of the product more."""
        both = self.total(kernel) + gate.total(gate_kernel) + 4 * participation(kernel * gate_kernel) / width
        return Scatter(
            self.follows + gate.follows,
            both,
            own=self.of_token + gate.of_token + 4 / width,
            noise=self.all_noise + gate.all_noise + 4 / width,
            bends=self.bends + gate.bends + 2 * self.follows * gate.follows,
            raised=self.raised + gate.raised,
            alone=_mean_by_weight([self.follows, gate.follows], [self.alone, gate.alone]),
        )


HERE = Scatter()  # at the root itself
FORGOTTEN = Scatter(follows=0.0)  # behind what has no size: an empty kernel, a factor, one-hot tokens


def added_scatter(
    paths: Sequence[tuple[Scatter, Floats]], crossing: Sequence[float], kernel: Floats, width: float
) -> Scatter:
    """Add up paths of one root, by their kernels, and the traces of what each has in common with the others.

    Two paths a and b, one of which has weights of its own, meet by chance: 4 Σ_ij Σa_ij Σb_ij / (d (tr Σ)²) more.
    """
    whole = float(np.trace(kernel))
    if not (whole > 0 and isfinite(whole)):
        return FORGOTTEN
    scatters = [scatter for scatter, _ in paths]
    parts = [float(np.trace(each)) / whole for _, each in paths]
    shares = [part + both / whole for part, both in zip(parts, crossing, strict=True)]
    variance = sum(share**2 * scatter.total(each) for share, (scatter, each) in zip(shares, paths, strict=True))
    own = sum(share**2 * scatter.of_token for share, scatter in zip(shares, scatters, strict=True))
    for (first, second), (part, rest) in zip(combinations(paths, 2), combinations(parts, 2), strict=True):
        if first[0].total(first[1]) or second[0].total(second[1]):
            variance += 4 * float(((first[1] / whole) * (second[1] / whole)).sum()) / width
            own += 4 * part * rest / width

    def mean(numbers: Iterable[float]) -> float:
        return sum(share * number for share, number in zip(shares, numbers, strict=True))

    return Scatter(
        mean(each.follows for each in scatters),
        variance,
        own=own,
        noise=own + mean(each.all_noise - each.of_token for each in scatters),
        bends=mean(each.bends for each in scatters),
        raised=mean(each.raised for each in scatters),
        alone=_mean_by_weight(
            [share * each.follows for share, each in zip(shares, scatters, strict=True)],
            [each.alone for each in scatters],
        ),
    )


def mean_scatter(scatters: Sequence[Scatter]) -> Scatter:
    return Scatter(*np.mean([astuple(each) for each in scatters], axis=0).tolist())


def _mean_by_weight(weights: Sequence[float], numbers: Sequence[float]) -> float:
    whole = sum(weights)
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True)) / whole if whole else 1.0


def participation(kernel: Floats) -> float:
    """Return P = ‖Σ‖² / (tr Σ)², between 1/T and 1; 0 for a kernel without a size.

    >>> participation(np.ones((4, 4))), participation(np.eye(4))
    (1.0, 0.25)
    """
    whole = float(np.trace(kernel))
    return float(((kernel / whole) ** 2).sum()) if whole > 0 and isfinite(whole) else 0.0
