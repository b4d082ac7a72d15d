"""Propagation: how alike tokens are behind each part of a random network, and how large the gradient is in front of it.

A signal x [T, d] in a wide network whose weights are drawn is known by its token kernel, and so is its gradient g:

    Σ_ij = E[x_i · x_j] / d                    Γ_ij = E[g_i · g_j] / d                 [T, T]

A `Signal` is such a kernel together with the way back: a part of a network takes one and gives another, and `backward`
of what comes last maps Γ at the end to Γ at the root. What two paths from one root give is correlated as far as they
are linear on average, by J = E[∂x/∂root] (`transfer`):

    y = Σ_a x_a       Σ_y = Σ_a Σ_a + Σ_{a≠b} J_a Σ J_bᵀ        Γ = Σ_a back_a(Γ_y) + Σ_{a≠b} J_aᵀ Γ_y J_b

so a fresh matrix of weights between them makes J zero, and an identity does not. To first order in 1/d, d the width.

    He et al. 2023, arXiv:2302.10322, App. H.2 (token kernels forwards); Schoenholz et al. 2017, arXiv:1611.01232, and
    Kedia et al. 2024, arXiv:2403.09635, App. A (gradients, independent of the weights that they meet on the way back).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from math import inf, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.errors import InputError
from ablate.signal.attention_kernel import RandomAttention
from ablate.signal.finite_width import FORGOTTEN, HERE, Scatter, added_scatter, mean_scatter
from ablate.signal.gaussian_activations import activation_kernel
from ablate.signal.kernel_maps import Curved
from ablate.signal.network_shaping import Mixing
from ablate.signal.sampled_attention import (
    AttentionStart,
    RelativePositions,
    SampledAttention,
    joined,
    random_attention,
)

Array: TypeAlias = NDArray[np.float64]
Backward: TypeAlias = Callable[[Array], Array]  # from the kernel of a gradient at a signal to that at its root


@dataclass(frozen=True, slots=True)
class Signal:
    """`kernel` Σ [T, T], the `mean` of its channels [T], and, from its root: `transfer` J and `backward`.

    J is [T, T], [T] for a diagonal one, or None for zero. `largest` is the largest singular value of the matrix that
    the signal is just behind, None elsewhere. `width` is the number of its channels, `scatter` how far its mean square
    is from its mean in one network of that width, and `attention` what it went through from its root on.
    """

    kernel: Array
    mean: Array
    transfer: Array | None
    backward: Backward = field(repr=False)
    largest: float | None = None
    width: float = inf
    scatter: Scatter = HERE
    attention: tuple[AttentionStart, ...] = field(default=(), repr=False)

    @staticmethod
    def root(kernel: Array, mean: Array | None = None, width: float = inf) -> Signal:
        """A signal that begins here."""
        length = len(kernel)
        zero = np.zeros(length) if mean is None else mean
        return Signal(kernel, zero, np.ones(length), lambda gradient: gradient, width=width)

    @property
    def mean_square(self) -> float:
        """E[x²], over channels and tokens."""
        return float(np.diag(self.kernel).mean())

    def times(self, gain: float) -> Signal:
        """Multiply by a number."""
        transfer, square = None if self.transfer is None else gain * self.transfer, gain * gain  # ** raises on overflow
        return self._with(
            square * self.kernel, gain * self.mean, transfer, lambda gradient: self.backward(square * gradient)
        )

    def through_weights(
        self, forward: float, backward: float, largest: float | None = None, *, orthogonal: bool = False
    ) -> Signal:
        """Multiply by a fresh matrix of mean 0 whose entries have the variance w: d_in w Σ, and d_out w Γ.

        `forward` is d_in w and `backward` d_out w. The `largest` singular value is that of independent entries unless
        given, √w (√d_in + √d_out) (Bai & Yin 1993, for wide matrices). One that is `orthogonal` keeps lengths.
        """
        outputs = self.width * backward / forward if forward else self.width
        return Signal(
            forward * self.kernel,
            np.zeros_like(self.mean),
            None,
            lambda gradient: self.backward(backward * gradient),
            sqrt(forward) + sqrt(backward) if largest is None else largest,
            outputs,
            self.scatter.through_weights(outputs, self.width if orthogonal else inf),
            self.attention,
        )

    def by_spectral_norm(self) -> Signal:
        """Divide by the largest singular value of the matrix just before; InputError if it is 0, or not known."""
        if not self.largest:
            what = "starts at 0" if self.largest == 0 else "is no single random matrix"
            raise InputError(f"a weight that {what} is not divided by its norm in a forecast\n  = use a dense weight")
        return self.times(1 / self.largest)

    def normalised(self, eps: float, *, centred: bool, outside: bool = False) -> Signal:
        """Scale each token to mean square 1 over its channels, where `centred` about their mean: Σ_ij / (s_i s_j).

        s_i = √(Σ_ii + ε), or √Σ_ii + ε where `outside`, without the square of the mean that is taken off; back Γ_ij /
        (s_i s_j). The gradient's loss along the token itself and along the mean is one part in d.
        """
        kernel = self.kernel - np.outer(self.mean, self.mean) if centred else self.kernel
        squares = np.diag(kernel)
        scale = 1 / (np.sqrt(squares) + eps if outside else np.sqrt(squares + eps))
        both = np.outer(scale, scale)
        mean = np.zeros_like(self.mean) if centred else scale * self.mean
        return self._with(
            kernel * both,
            mean,
            transferred(scale, self.transfer),
            lambda gradient: self.backward(both * gradient),
            self.scatter.forgotten(),
        )

    def activated(self, activation: Curved) -> Signal:
        """Apply an activation, entry by entry: E[φ(u_i) φ(u_j)], and Γ ⊙ E[φ'(u_i) φ'(u_j)]; J is E[φ'] J."""
        moments = activation_kernel(activation, self.kernel)
        return self._with(
            moments.values,
            moments.mean,
            transferred(moments.slope, self.transfer),
            lambda gradient: self.backward(moments.slopes * gradient),
            self.scatter.activated(self.kernel, self.width, moments),
        )

    def dropped(self, p: float) -> Signal:
        """Drop a share p of the entries and divide the rest by 1 - p: Σ_ii / (1 - p), and likewise back."""
        more = np.where(np.eye(len(self.kernel), dtype=bool), 1 / (1 - p), 1.0)
        return replace(self, kernel=more * self.kernel, backward=lambda gradient: self.backward(more * gradient))

    def mixed(self, matrix: Array) -> Signal:
        """Mix tokens by a fixed matrix M [T, T]: M Σ Mᵀ, and Mᵀ Γ M."""
        return self._with(
            matrix @ self.kernel @ matrix.T,
            matrix @ self.mean,
            transferred(matrix, self.transfer),
            lambda gradient: self.backward(matrix.T @ gradient @ matrix),
        )

    def gated(self, gate: Signal) -> Signal:
        """Multiply by another signal of the same root, entry by entry: Σ ⊙ Σ_gate, of independent weights."""
        transfers = [transferred(gate.mean, self.transfer), transferred(self.mean, gate.transfer)]
        return self._with(
            self.kernel * gate.kernel,
            self.mean * gate.mean,
            _added(transfers),
            lambda gradient: self.backward(gate.kernel * gradient) + gate.backward(self.kernel * gradient),
            self.scatter.gated(self.kernel, gate.scatter, gate.kernel, self.width),
            joined(self.attention, gate.attention),
        )

    def with_gradient_times(self, times: float) -> Signal:
        """Multiply Γ alone by a number: the share of channels that is read, or how many channels each stands for."""
        return replace(self, backward=lambda gradient: self.backward(times * gradient))

    def turned(self, angles: Sequence[float], still: float) -> Signal:
        """Turn pairs of channels by their angle times the token's place, but for the share `still`: Σ ⊙ R.

        R_ij is the mean over channels of cos((i - j) θ), and 1 of those that stand still.
        """
        places = np.arange(len(self.kernel))
        apart = np.abs(places[:, None] - places)
        means = still + (1 - still) * np.cos(np.outer(places, angles)).mean(1)
        turned = means[apart]
        return self._with(self.kernel * turned, 0 * self.mean, None, lambda gradient: self.backward(gradient * turned))

    def attending(
        self,
        queries: Signal,
        keys: Signal,
        uniform: Array,
        scale: float,
        mixing: Mixing,
        p: float = 0.0,
        groups: int = 1,
        heads: int = 1,
        positions: RelativePositions | None = None,
    ) -> Signal:
        """Mix these values by M = α I + β A - γ C, with A random attention and C = `uniform` the same at zero scores.

        `uniform` is [H, T, T], for each head whose masks or biases are others, `scale` that of the scores times √d_k, p
        the dropped share of A, `groups` how many heads read each head of keys and values, `heads` how many there are.
        With random relative `positions` C is what they make of queries of 0. Values, queries and keys have one root,
        and weights of their own. With M̄ = E[M] the output has the mean over heads of M̄ V M̄ᵀ + β² (E[A V Aᵀ] -
        E[A] V E[A]ᵀ). The gradient goes back likewise through the values, and through the scores to queries and keys.
        Keys and values of another sequence, of S tokens, have `uniform` [H, T, S], and no skip.
        """
        centre = mixing.centre / mixing.gain if mixing.gain else 0.0
        kernels = (queries.kernel, keys.kernel, self.kernel)
        attentions = [
            random_attention(weights, *kernels, scale, positions, centre, n, len(uniform))
            for n, weights in enumerate(uniform)
        ]
        each = [_Head(self.kernel, random, scale, mixing, p) for random in attentions]
        kernel = _mean([head.forward() for head in each])

        def backward(gradient: Array) -> Array:
            gradient = (gradient + gradient.T) / 2  # rounding makes it asymmetric, and scores would amplify that
            arrived = self.backward(groups * _mean([head.into_values(gradient) for head in each]))
            if not each[0].scored:
                return arrived
            into_queries = _mean([head.into_queries(gradient) for head in each])
            into_keys = groups * _mean([head.into_keys(gradient) for head in each])
            return np.asarray(arrived + queries.backward(into_queries) + keys.backward(into_keys))

        mixed = _mean([head.mean for head in each])
        if draws := sum(head.random.draws for head in each if isinstance(head.random, SampledAttention)):
            variance = float(np.mean([head.size_variance for head in each]))
            scatter = self.scatter.attending_sampled(kernel, variance, heads, draws)
        else:
            scatter = self.scatter.attending(kernel, _mean([head.varied for head in each]), heads)
        scatter = scatter.mixed(self.kernel, mixed, kernel)
        start = AttentionStart(tuple(head.random for head in each))
        attention = joined(self.attention, queries.attention, keys.attention, (start,))
        transfer = transferred(mixed, self.transfer)
        together = self._with(kernel, mixed @ self.mean, transfer, backward, scatter, attention)
        return replace(together, width=groups * self.width)

    def forked(self, paths: Callable[[Signal], Iterable[Signal]]) -> Signal:
        """Add up several paths from here, such as a skip and a branch."""
        terms = list(paths(Signal.root(self.kernel, self.mean, self.width)))
        linear = [place for place, term in enumerate(terms) if term.transfer is not None]
        crossing = [term.transfer for term in terms if term.transfer is not None]
        kernel = sum((term.kernel for term in terms), np.zeros_like(self.kernel))
        crossed = [0.0] * len(terms)
        for place, other in permutations(range(len(crossing)), 2):
            both = _between(crossing[place], self.kernel, crossing[other])
            kernel = kernel + both
            crossed[linear[place]] += float(np.trace(both))

        def backward(gradient: Array) -> Array:
            arrived = sum((term.backward(gradient) for term in terms), np.zeros_like(gradient))
            for first, second in permutations(crossing, 2):
                arrived = arrived + _between(_transposed(first), gradient, _transposed(second))
            return self.backward(arrived)

        transfer = _added(crossing)
        inside = added_scatter([(term.scatter, term.kernel) for term in terms], crossed, kernel, self.width)
        return Signal(
            kernel,
            sum((term.mean for term in terms), np.zeros_like(self.mean)),
            transferred(transfer, self.transfer),
            backward,
            width=terms[0].width if terms else self.width,
            scatter=inside.of(self.scatter, self.kernel),
            attention=joined(self.attention, *(term.attention for term in terms)),
        )

    @property
    def variance(self) -> float:
        """The variance over channels and tokens together: E[x²] - E[x]²."""
        return self.mean_square - float(self.mean.mean()) ** 2

    def _with(
        self,
        kernel: Array,
        mean: Array,
        transfer: Array | None,
        backward: Backward,
        scatter: Scatter | None = None,
        attention: tuple[AttentionStart, ...] | None = None,
    ) -> Signal:
        """A signal of as many channels, which varies and went through attention as this one did unless given."""
        scatter = self.scatter if scatter is None else scatter
        attention = self.attention if attention is None else attention
        return Signal(kernel, mean, transfer, backward, width=self.width, scatter=scatter, attention=attention)


class _Head:
    def __init__(
        self, values: Array, random: RandomAttention | SampledAttention, scale: float, mixing: Mixing, p: float
    ):
        self.values, self.scale, self.p = values, scale, p
        self.rows = np.ones(len(random.uniform)) if mixing.rows is None else mixing.rows
        self.gain = mixing.gain
        self.random = random
        self.attention = self.rows[:, None] * self.random.mean
        self.mean = mixing.skip * np.eye(*random.uniform.shape) + self.gain * self.attention
        if not (isinstance(random, SampledAttention) and random.centre):  # else it is part of the draws
            self.mean = self.mean - mixing.centre * random.uniform
        self.both = self.gain**2 * np.outer(self.rows, self.rows)
        self.scored = bool(self.gain) and scale != 0

    def forward(self) -> Array:
        kernel = self.mean @ self.values @ self.mean.T + self.varied
        if self.p:
            kernel = kernel + np.diag(self.dropped @ np.diag(self.values))
        return np.asarray(kernel)

    @cached_property
    def varied(self) -> Array:
        """β² (E[A V Aᵀ] - E[A] V E[A]ᵀ): the variation of A from head to head."""
        if not self.random.varies:
            return np.zeros_like(self.both)
        return self.both * (self.random.forward - self.random.mean @ self.values @ self.random.mean.T)

    def into_values(self, gradient: Array) -> Array:
        arrived = self.mean.T @ gradient @ self.mean
        if self.random.varies:
            apart = self.random.backward(self.both * gradient)
            arrived = arrived + apart - self.random.mean.T @ (self.both * gradient) @ self.random.mean
        if self.p:
            arrived = arrived + np.diag(self.dropped.T @ np.diag(gradient))
        return np.asarray(arrived)

    def into_queries(self, gradient: Array) -> Array:
        arrived = self.random.queries_backward(self.both * gradient)
        if self.p:
            arrived = arrived + np.diag(self.random.dropped_queries(self.dropped_values(gradient)))
        return self.scale**2 * arrived

    def into_keys(self, gradient: Array) -> Array:
        arrived = self.random.keys_backward(self.both * gradient)
        if self.p:
            shares = np.diag(self.random.queries)[:, None] * self.dropped_values(gradient)
            arrived = arrived + self.random.dropped_keys(shares)
        return np.asarray(arrived)

    def dropped_values(self, gradient: Array) -> Array:
        """Γ_ii times the change of (g_i · v_j)² by dropping a weight, over E[A_ij²], [T, S].

        The gradient of the score s_ik is Σ_j m_j A_ij (g_i · v_j) (δ_jk - A_ik), of which the m_j are independent.
        """
        each = np.diag(self.both) * np.diag(gradient) * self.p / (1 - self.p)
        return np.asarray(each[:, None] * np.diag(self.values))

    @property
    def size_variance(self) -> float:
        """The variance of the trace of the mixed values, from head to head; 0 in closed form, which leaves it out."""
        if not isinstance(self.random, SampledAttention):
            return 0.0
        return float(self.both.diagonal().mean()) ** 2 * self.random.size_variance

    @property
    def dropped(self) -> Array:
        """The variance that dropping a share of the weights adds: E[A_ij²] p / (1 - p), times the gain and the row."""
        return np.asarray(np.diag(self.both)[:, None] * self.random.squares * self.p / (1 - self.p))


def _mean(arrays: Sequence[Array]) -> Array:
    return np.asarray(sum(arrays[1:], arrays[0]) / len(arrays))


def transferred(matrix: Array | None, transfer: Array | None) -> Array | None:
    """M J of matrices, each of which may be a diagonal, as a vector; None stands for zero."""
    if transfer is None or matrix is None:
        return None
    if matrix.ndim == 1:
        return matrix * transfer if transfer.ndim == 1 else matrix[:, None] * transfer
    return matrix * transfer if transfer.ndim == 1 else np.asarray(matrix @ transfer)


def _between(first: Array, kernel: Array, second: Array) -> Array:
    """F K Sᵀ of matrices of which F and S may be diagonals."""
    left = first[:, None] * kernel if first.ndim == 1 else first @ kernel
    return np.asarray(left * second if second.ndim == 1 else left @ second.T)


def _transposed(matrix: Array) -> Array:
    return matrix if matrix.ndim == 1 else matrix.T


def _added(matrices: Iterable[Array | None]) -> Array | None:
    """The sum of matrices, some of which may be diagonals; None if there are none."""
    there = [matrix for matrix in matrices if matrix is not None]
    if not there or all(matrix.ndim == 1 for matrix in there):
        return sum(there, np.zeros_like(there[0])) if there else None
    return sum((np.diag(matrix) if matrix.ndim == 1 else matrix for matrix in there), np.zeros((len(there[0]),) * 2))


# Sink: attention with one more key, whose score is a fixed number and whose value is 0.
#
#     A_ij = exp(s_ij) / (e^b + Z_i) = A°_ij σ(log Z_i - b),  Z_i = Σ_m exp(s_im)
#
# with A° attention without the sink. What it leaves to the keys is taken as a factor that is independent of A°, and
# log Z as normal: its mean and covariances follow from E[Z_i] and E[Z_i Z_j] of random scores, as of lognormal
# numbers; where attention is sampled, so is log Z. So
#
#     Σ_ij = F_ij Σ°_ij,  F_ij = E[σ(l_i) σ(l_j)] ≈ D_i D_j + D'_i D'_j Cov(l_i, l_j),  D = E[σ(l)],  l = log Z - b
#
# and the gradient of the outputs Γ becomes F ⊙ Γ. That of log Z, Γ ⊙ Σ° D'_i D'_j, goes on to queries and keys. Where
# b is far above log Z the few large scores that reach it count for most, and the factor is no longer independent: at
# b = 3 and 12 tokens the gradient comes out 12 % too small, at b = 1 3 %.
#
#     OpenAI 2025, arXiv:2508.10925, Sec. 2.2 (the sink); random attention: `attention_kernel.py`.

SINK_NODES = 24  # points of the Gauss-Hermite quadrature over log Z


def attending_with_sink(
    values: Signal,
    queries: Signal,
    keys: Signal,
    uniform: Array,
    at_zero: Array,
    scale: float,
    logit: float,
    mixing: Mixing,
    p: float = 0.0,
    groups: int = 1,
    of_all: int = 1,
    positions: RelativePositions | None = None,
) -> Signal:
    """Mix values by attention with a sink of that `logit` b, as `Signal.attending` does without one.

    `at_zero` is log Z at zero scores, [H, T], for each head of `uniform`, which stand for `of_all` heads; `mixing` has
    no skip and no centre.
    """
    heads = [
        values.attending(queries, keys, each[None], scale, mixing, p, groups, of_all, positions).gated(
            left_by_sink(queries, keys, each, log_total, scale, logit, groups, positions)
        )
        for each, log_total in zip(uniform, at_zero, strict=True)
    ]
    transfers = [head.transfer for head in heads if head.transfer is not None]
    start = AttentionStart(tuple(random for head in heads for random in head.attention[-1].heads))
    return Signal(
        np.mean([head.kernel for head in heads], 0),
        np.mean([head.mean for head in heads], 0),
        np.mean(transfers, 0) if transfers else None,
        lambda gradient: np.asarray(np.mean([head.backward(gradient) for head in heads], 0)),
        width=heads[0].width,
        scatter=mean_scatter([head.scatter for head in heads]),
        attention=joined(values.attention, queries.attention, keys.attention, (start,)),
    )


def left_by_sink(
    queries: Signal,
    keys: Signal,
    uniform: Array,
    at_zero: Array,
    scale: float,
    logit: float,
    groups: int = 1,
    positions: RelativePositions | None = None,
) -> Signal:
    """The factor σ(log Z - b) of each token in one head, as a signal.

    `scale` is that of the scores times √d_k, and `groups` how many heads read each head of keys. Its gradient reaches
    queries and keys through log Z, of which Σ_j A_ij k_j is the derivative by a query.
    """
    random = random_attention(uniform, queries.kernel, keys.kernel, keys.kernel, scale, positions)
    head = _SinkHead(random, at_zero, scale, logit)

    def backward(gradient: Array) -> Array:
        into_queries, into_keys = head.into_queries(gradient), head.into_keys(gradient)
        return np.asarray(queries.backward(into_queries) + keys.backward(groups * into_keys))

    return Signal(head.kernel, head.share, None, backward, scatter=FORGOTTEN)


class _SinkHead:
    """One head: the mean `share` D of its factor, its kernel F, and the mean slope D' by log Z."""

    def __init__(self, random: RandomAttention | SampledAttention, at_zero: Array, scale: float, logit: float):
        self.scale, self.random = scale, random
        if isinstance(random, SampledAttention):
            self._drawn(random, at_zero, logit)
        else:
            self._lognormal(random, at_zero, logit)

    def _drawn(self, random: SampledAttention, at_zero: Array, logit: float) -> None:
        left = np.concatenate([1 / (1 + np.exp(logit - totals)) for totals in random.log_totals(at_zero)])
        slopes = left * (1 - left)
        self.share = left.mean(0)
        self.kernel, self.slopes = left.T @ left / len(left), slopes.T @ slopes / len(left)

    def _lognormal(self, random: RandomAttention, at_zero: Array, logit: float) -> None:
        covariances = random.log_covariances
        variances = np.clip(np.diag(covariances), 0, None)
        total = (random.uniform * np.exp(random.score_variances / 2)).sum(1)
        mean = at_zero + np.log(total) - variances / 2 - logit
        points, weights = np.polynomial.hermite_e.hermegauss(SINK_NODES)
        weights = weights / weights.sum()
        left = 1 / (1 + np.exp(-(mean[:, None] + np.sqrt(variances)[:, None] * points)))
        self.share, slope = left @ weights, (left * (1 - left)) @ weights
        self.slopes = np.outer(slope, slope)
        self.kernel = np.outer(self.share, self.share) + self.slopes * covariances
        np.fill_diagonal(self.kernel, left**2 @ weights)

    def into_queries(self, gradient: Array) -> Array:
        return np.asarray(self.scale**2 * self.slopes * gradient * self.random.mixed_keys)

    def into_keys(self, gradient: Array) -> Array:
        return self.random.backward(self.slopes * gradient * self.random.queries)


# Signals side by side: as more channels, as more tokens, or added up, with what they have in common.
#
# Signals x_a of one root of kernel K, of which x_a is J_a · root on average, have the joint kernel
#
#     Σ_aa = Σ_a        Σ_ab = J_a K J_bᵀ        and Γ at the root is Σ_a back_a(Γ_aa) + Σ_{a≠b} J_aᵀ Γ_ab J_b
#
# so that a weighted sum of them is a mixing of the tokens of one longer sequence, x_1 … x_n one behind the other.


def concatenated(signals: Sequence[Signal], widths: Sequence[int]) -> Signal:
    """Concatenate channels, as many of each signal as its width says: Σ is the mean of theirs by width.

    A channel of any of them has the gradient kernel Γ. Independent weights that read them all read them apart: their
    common part does not count, and J is 0 behind such weights, and here.
    """
    shares = [width / sum(widths) for width in widths]
    kernel = sum((share * x.kernel for share, x in zip(shares, signals, strict=True)), np.zeros_like(signals[0].kernel))
    mean = sum((share * x.mean for share, x in zip(shares, signals, strict=True)), np.zeros_like(signals[0].mean))

    def backward(gradient: Array) -> Array:
        return sum((x.backward(gradient) for x in signals[1:]), signals[0].backward(gradient))

    parts = [(x.scatter, share * x.kernel) for share, x in zip(shares, signals, strict=True)]
    return Signal(
        kernel,
        mean,
        None,
        backward,
        width=sum(widths),
        scatter=added_scatter(parts, [0.0] * len(parts), kernel, inf),
        attention=joined(*(x.attention for x in signals)),
    )


def stacked(signals: Sequence[Signal], root: Array) -> Signal:
    """Put the tokens of signals of one root, of kernel `root` [R, R], one behind the other: Σ is [n T, n T]."""
    length, across = len(signals[0].mean), len(root)
    maps = [_full(x.transfer, length, across) for x in signals]
    transfer = np.concatenate(maps)
    kernel = transfer @ root @ transfer.T
    places = [slice(place * length, (place + 1) * length) for place in range(len(signals))]
    for at, x in zip(places, signals, strict=True):
        kernel[at, at] = x.kernel

    def backward(gradient: Array) -> Array:
        apart = gradient.copy()
        arrived = np.zeros((across, across))
        for at, x in zip(places, signals, strict=True):
            apart[at, at] = 0
            arrived = arrived + x.backward(gradient[at, at])
        return np.asarray(arrived + transfer.T @ apart @ transfer)

    parts = [(x.scatter, x.kernel) for x in signals]
    scatter = added_scatter(parts, [0.0] * len(parts), kernel, inf)
    mean = np.concatenate([x.mean for x in signals])
    attention = joined(*(x.attention for x in signals))
    return Signal(kernel, mean, transfer, backward, width=signals[0].width, scatter=scatter, attention=attention)


def part_of(whole: Signal, place: int, length: int) -> Signal:
    """The signal at a place of those that were stacked, each of `length` tokens."""
    rows = np.zeros((length, len(whole.mean)))
    rows[:, place * length : (place + 1) * length] = np.eye(length)
    return whole.mixed(rows)


def _full(transfer: Array | None, length: int, across: int) -> Array:
    """J as a matrix [T, R]; a diagonal one is that of the first T tokens of the root."""
    full = np.zeros((length, across))
    if transfer is not None and transfer.ndim == 1:
        full[:, :length] = np.diag(transfer)
    elif transfer is not None:
        full[:, : transfer.shape[1]] = transfer
    return full
