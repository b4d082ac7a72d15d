"""Sink: attention with one more key, whose score is a fixed number and whose value is 0.

    A_ij = exp(s_ij) / (e^b + Z_i) = A°_ij σ(log Z_i - b),  Z_i = Σ_m exp(s_im)

with A° attention without the sink. What it leaves to the keys is taken as a factor that is independent of A°, and log Z
as normal: its mean and covariances follow from E[Z_i] and E[Z_i Z_j] of random scores, as of lognormal numbers; where
attention is sampled, so is log Z. So

    Σ_ij = F_ij Σ°_ij,  F_ij = E[σ(l_i) σ(l_j)] ≈ D_i D_j + D'_i D'_j Cov(l_i, l_j),  D = E[σ(l)],  l = log Z - b

and the gradient of the outputs Γ becomes F ⊙ Γ. That of log Z, Γ ⊙ Σ° D'_i D'_j, goes on to queries and keys.
Where b is far above log Z the few large scores that reach it count for most, and the factor is no longer independent:
at b = 3 and 12 tokens the gradient comes out 12 % too small, at b = 1 3 %.

    OpenAI 2025, arXiv:2508.10925, Sec. 2.2 (the sink); random attention: `attention_kernel.py`.
"""

from __future__ import annotations

import numpy as np

from ablate.signal.attention_kernel import RandomAttention
from ablate.signal.attention_start import AttentionStart, joined
from ablate.signal.finite_width import FORGOTTEN, mean_of
from ablate.signal.mixing import Mixing
from ablate.signal.propagation import Array, Signal
from ablate.signal.sampled_attention import RelativePositions, SampledAttention, random_attention

NODES = 24
"""Points of the Gauss-Hermite quadrature over log Z."""


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
        scatter=mean_of([head.scatter for head in heads]),
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
    """Return the factor σ(log Z - b) of each token in one head, as a signal.

    `scale` is that of the scores times √d_k, and `groups` how many heads read each head of keys. Its gradient reaches
    queries and keys through log Z, of which Σ_j A_ij k_j is the derivative by a query.
    """
    random = random_attention(uniform, queries.kernel, keys.kernel, keys.kernel, scale, positions)
    head = _Head(random, at_zero, scale, logit)

    def backward(gradient: Array) -> Array:
        into_queries, into_keys = head.into_queries(gradient), head.into_keys(gradient)
        return np.asarray(queries.backward(into_queries) + keys.backward(groups * into_keys))

    return Signal(head.kernel, head.share, None, backward, scatter=FORGOTTEN)


class _Head:
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
        points, weights = np.polynomial.hermite_e.hermegauss(NODES)
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
