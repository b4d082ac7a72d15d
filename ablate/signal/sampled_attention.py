"""Sampled attention: what softmax attention does to token kernels where there is no closed form, as means over draws.

There is none that is near enough where scores are large, and none for relative positions of random weights. The scores
of one head are normal all the same, and can be drawn as they are:

    s_ij = q_i·k_j + u·k_j + (q_i + v)·r_{i-j}
    Cov(s_ij, s_i'j') = C_ii' K_jj' + P_ii' R_{i-j, i'-j'}

with C = scale² d_k (queries) + σ_u², P = scale² d_k (queries + σ_v²), K the kernel of keys and R that of r_n. With
roots C = c cᵀ and so on, and X, Y of independent normal entries, s = c X kᵀ + shift(p Y rᵀ), where shift brings column
n to key i - n. The other numbers are those of `attention_kernel.py`, without its E[N/Z] ≈ E[N]/E[Z]: exact for each A,
and means over draws, which are the same in every forecast. On the way back through r the gradient g_i·v_j of A_ij is
drawn, too.

Shaped attention takes off A⁰, the same at queries of 0, where u·k_j + v·r_{i-j} is left. Then A - c A⁰ of the same
draws stands for A where tokens are mixed, and keys get a gradient from both.

    Dai et al. 2019, arXiv:1901.02860, Sec. 3.3 (the scores); Kedia et al. 2024, arXiv:2403.09635, App. A.8 (normal
    scores).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from math import ceil, isfinite, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ablate.signal.attention_kernel import CLOSED, Array, RandomAttention, score_overflow, spread_over_keys

ROWS = 4096  # rows of A that are drawn at least, over all heads whose masks or biases are others: draws times tokens
LEAST = 16  # draws of A at least, over all heads
TOGETHER = 2**19  # entries of A that are drawn at once
CACHED = 2**15
"""Entries of A whose products are computed at once: a quarter of a megabyte, which stays in a core's cache."""
REMEMBERED = 2**18
"""Entries of A, of all draws of a head, that are remembered from one pass to the next: two megabytes."""


@dataclass(frozen=True, slots=True)
class RelativePositions:
    """Random u, v and r of one attention: `content` σ_u² and `place` σ_v² of an entry, and the kernel `keys` R of r_n.

    R is [N, N], for n = 0, …, T - 1, or from 1 - T on where N is 2T - 1. `scale` is that of these scores times √d_k,
    which caps of q_i·k_j do not reach.
    """

    content: float
    place: float
    keys: Array
    scale: float

    def vary(self, queries: Array) -> bool:
        """True if these scores differ from 0, for this kernel of queries."""
        return bool(self.scale) and bool(self.content or self.place or queries.any())


def random_attention(
    uniform: Array,
    queries: Array,
    keys: Array,
    values: Array,
    scale: float,
    positions: RelativePositions | None = None,
    centre: float = 0.0,
    head: int = 0,
    of: int = 1,
) -> RandomAttention | SampledAttention:
    """Attention in closed form where there is one, else from draws: of head number `head` among `of`.

    `scale` is that of the scores times √d_k, and `centre` c how much of attention at zero queries is taken off where
    positions make it random. Raises ScoresOverflow for scores whose variance is not finite.
    """
    scores = scale**2 * queries
    placed = positions is not None and positions.vary(queries)
    if not placed and not np.diag(scores).max() * np.diag(keys).max() > CLOSED:
        return RandomAttention(uniform, scores, keys, values)
    if not placed:
        return SampledAttention(uniform, queries, keys, values, scale, head=head, of=of)
    return SampledAttention(uniform, queries, keys, values, scale, positions, centre, head, of)


class _Moments(NamedTuple):
    """Means over draws: M = A - c A⁰, A_ij², M V Mᵀ, A K Aᵀ with positions, and `through`, [T, T]; entropies, [T].

    `through` multiplies the kernel of the gradient of outputs on its way to the queries but through positions, and
    `sizes` are tr M V Mᵀ of each draw, [S].
    """

    mean: Array
    squares: Array
    forward: Array
    keys: Array
    through: Array
    entropies: Array
    sizes: Array


@dataclass(frozen=True)
class SampledAttention:
    """Attention at zero scores `uniform` W, kernels of queries, `keys` K and `values` V, and relative positions.

    `of_queries` is not yet multiplied by `scale`², d_k times that of the scores. `centre` is c, of attention at
    queries of 0. `head` of `of` others sets the draws.
    Raises ScoresOverflow for scores whose variance is not finite.
    """

    uniform: Array
    of_queries: Array
    keys: Array
    values: Array
    scale: float
    positions: RelativePositions | None = None
    centre: float = 0.0
    head: int = 0
    of: int = 1

    varies = True

    def __post_init__(self) -> None:
        if not isfinite(float(self.score_variances.max())):
            raise score_overflow()

    @property
    def draws(self) -> int:
        """The number of draws of A that means are taken over."""
        return max(ceil(max(LEAST, ROWS / len(self.keys)) / self.of), 2)

    @cached_property
    def queries(self) -> Array:
        """C: the kernel of q and u, times scale² d_k."""
        return self.scale**2 * self.of_queries + self._of_u

    @property
    def _of_u(self) -> float:
        """σ_u² times scale² d_k."""
        return 0.0 if self.positions is None else self.positions.scale**2 * self.positions.content

    @cached_property
    def score_variances(self) -> Array:
        """Var(s_ij), [T, T]."""
        of_pairs = np.outer(np.diag(self.queries), np.diag(self.keys))
        if self.positions is None:
            return of_pairs
        return np.asarray(of_pairs + self.positions.keys[0, 0] * np.diag(self._placed)[:, None])

    @property
    def forward(self) -> Array:
        """E[M V Mᵀ], M = A - c A⁰."""
        return self._moments.forward

    @property
    def mean(self) -> Array:
        """E[M], M = A - c A⁰."""
        return self._moments.mean

    @property
    def squares(self) -> Array:
        """E[A_ij²]."""
        return self._moments.squares

    @property
    def mixed_keys(self) -> Array:
        """E[A K Aᵀ], with r_n among the keys, as much as they count for."""
        return self._moments.keys

    @property
    def entropies(self) -> Array:
        """E[H_i] of each query, [T], in nats."""
        return self._moments.entropies

    @property
    def size_variance(self) -> float:
        """The variance of tr(M V Mᵀ) from head to head."""
        return float(np.var(self._moments.sizes, ddof=1))

    def backward(self, gradient: Array) -> Array:
        """E[Mᵀ Γ M], the gradient of the values, for the kernel Γ of that of the outputs."""

        def of_values(a: Array, c: Array | None) -> Array:
            mixing = self._less_centre(a, c)
            return _turned(mixing) @ gradient @ mixing

        return self._mean(of_values)

    def queries_backward(self, gradient: Array) -> Array:
        """Compute the kernel of the gradient of the queries, divided by scale² d_k.

        Γ_ii' E[Σ_jj' A_ij A_i'j' V̂_jj' (K_jj' + R_{i-j, i'-j'})], V̂ about the means under A_i and A_i'.
        """
        arrived = gradient * self._moments.through
        if self.positions is not None:
            arrived = arrived + self._through_positions(gradient)
        return arrived

    def keys_backward(self, gradient: Array) -> Array:
        """Compute the kernel of the gradient of the keys: Σ_ii' Γ_ii' C_ii' E[A_ij A_i'j' V̂_jj'], at C as it stands."""

        def of_queries(a: Array, c: Array | None) -> Array:
            arrived = self._into_keys(a, a, gradient * self.queries)
            if c is None:
                return arrived
            crossed = self._into_keys(a, c, self.centre * self._of_u * gradient)
            of_centre = self._into_keys(c, c, self.centre**2 * self._of_u * gradient)
            return arrived - crossed - _turned(crossed) + of_centre

        return self._mean(of_queries)

    def _into_keys(self, a: Array, b: Array, shared: Array) -> Array:
        """Σ_ii' Γ_ii' A_ij B_i'j' V̂_jj', V̂ about the means under A_i and B_i', for the symmetric `shared` Γ."""
        near, reached = a @ self.values, shared @ b
        crossed = _turned(a) @ (near * reached)
        others = crossed if a is b else _turned(b) @ ((b @ self.values) * (shared @ a))
        means = _turned(a) @ (shared * (near @ _turned(b))) @ b
        return np.asarray(self.values * (_turned(a) @ reached) - crossed - _turned(others) + means)

    def dropped_queries(self, shares: Array) -> Array:
        """Σ_j S_ij E[A_ij² |k_j - Σ_m A_im k_m|²], r among the keys: the queries' part of dropped weights, [T]."""

        def of_keys(a: Array, _: Array | None) -> Array:
            near = a @ self.keys
            apart = np.diag(self.keys) - 2 * near + (near * a).sum(-1, keepdims=True)
            if self.positions is not None:
                placed, r = self._by_distance(a), self.positions.keys
                near = placed @ r
                square = (near * placed).sum(-1, keepdims=True)
                apart = apart + self._share_of_positions * (r[0, 0] - 2 * self._by_key(near) + square)
            return np.asarray((shares * a**2 * apart).sum(-1))

        return self._mean(of_keys)

    def dropped_keys(self, shares: Array) -> Array:
        """Σ_ij S_ij E[A_ij² (δ_jk - A_ik) (δ_jk' - A_ik')]: the keys' part of dropped weights, [T, T]."""
        return self._mean(lambda a, _: spread_over_keys(a, shares * a**2))

    def log_totals(self, at_zero: Array) -> Iterator[Array]:
        """Yield log Σ_m e^{b_im + s_im} of draws, [S, T], where `at_zero` [T] is that of the biases b alone."""
        for scores, _ in self._scores():
            largest = scores.max(-1, keepdims=True)
            yield at_zero + largest[..., 0] + np.log((self.uniform * np.exp(scores - largest)).sum(-1))

    @cached_property
    def _moments(self) -> _Moments:
        length = len(self.keys)
        sums = [np.zeros((length, length)) for _ in range(5)] + [np.zeros(length)]
        sizes = []
        for a, c in self._drawn():
            near, near_keys = a @ self.values, a @ self.keys
            forward, of_keys = near @ _turned(a), near_keys @ _turned(a)
            crossed = (near * near_keys) @ _turned(a)
            through = a @ (self.keys * self.values) @ _turned(a) - crossed - _turned(crossed) + of_keys * forward
            mixing, mixed = a, forward
            if c is not None:
                mixing = self._less_centre(a, c)
                mixed = mixing @ self.values @ _turned(mixing)
            if self.positions is not None:
                placed = self._by_distance(a)
                of_keys = of_keys + self._share_of_positions * (placed @ self.positions.keys @ _turned(placed))
            logs = np.log(a, out=np.zeros_like(a), where=a > 0)
            means = (mixing, a**2, mixed, of_keys, through, -(a * logs).sum(-1))
            for total, each in zip(sums, means, strict=True):
                total += each.sum(0)
            sizes.append(np.trace(mixed, axis1=1, axis2=2))
        mean, squares, forward, keys, through, entropies = (total / self.draws for total in sums)
        return _Moments(mean, squares, forward, keys, through, entropies, np.concatenate(sizes))

    def _mean(self, of: Callable[[Array, Array | None], Array]) -> Array:
        return np.asarray(reduce(np.add, (of(a, c).sum(0) for a, c in self._drawn())) / self.draws)

    def _less_centre(self, a: Array, c: Array | None) -> Array:
        return a if c is None else a - self.centre * c

    def _drawn(self) -> Iterable[tuple[Array, Array | None]]:
        """Draws of A and of A⁰, [some, T, T]; None for A⁰ where nothing of it is taken off."""
        return self._remembered if self.draws * len(self.keys) ** 2 <= REMEMBERED else self._draw()

    @cached_property
    def _remembered(self) -> tuple[tuple[Array, Array | None], ...]:
        return tuple(self._draw())

    def _draw(self) -> Iterator[tuple[Array, Array | None]]:
        some = max(1, CACHED // len(self.keys) ** 2)
        for scores, at_zero in self._scores():
            for first in range(0, len(scores), some):
                here = slice(first, first + some)
                yield self._softmax(scores[here]), self._softmax(at_zero[here]) if self.centre else None

    def _softmax(self, scores: Array) -> Array:
        shown = np.where(self.uniform > 0, scores, -np.inf)
        weights = self.uniform * np.exp(shown - shown.max(-1, keepdims=True))
        return np.asarray(weights / weights.sum(-1, keepdims=True))

    def _scores(self) -> Iterator[tuple[Array, Array]]:
        """Draws of s, [some, T, T], and the same at queries of 0."""
        queries, keys = _root(self.scale**2 * self.of_queries), _root(self.keys)
        if self.positions is None and self.draws * len(self.keys) ** 2 <= REMEMBERED:
            scores = queries @ _normals(self.head, self.draws, len(queries), len(keys)) @ keys.T
            yield scores, np.zeros_like(scores)
            return
        every = np.ones((len(keys), 1))  # u and v are the same for all queries
        if self.positions is not None:
            size, places = self.positions.scale, _root(self.positions.keys)
            placed, u, v = (
                size * _root(self.of_queries),
                sqrt(self._of_u) * every,
                size * sqrt(self.positions.place) * every,
            )
        for rng, some in self._chunks():
            scores = _normal(rng, some, queries, keys)
            if self.positions is None:
                yield scores, np.zeros_like(scores)
                continue
            at_zero = _normal(rng, some, u, keys) + self._by_key(_normal(rng, some, v, places))
            yield scores + at_zero + self._by_key(_normal(rng, some, placed, places)), at_zero

    def _chunks(self) -> Iterator[tuple[np.random.Generator, int]]:
        """The generator, and the number of draws to compute at once with it."""
        rng = np.random.default_rng(self.head)
        most = max(1, TOGETHER // len(self.keys) ** 2)
        for first in range(0, self.draws, most):
            yield rng, min(most, self.draws - first)

    def _through_positions(self, gradient: Array) -> Array:
        """The kernel of Σ_j A_ij (u_ij - ū_i) r_{i-j}, with its share, of drawn u_ij = g_i·v_j."""
        assert self.positions is not None
        rng, roots = np.random.default_rng(self.of + self.head), (_root(gradient), _root(self.values))
        keys = self.positions.keys

        def placed(a: Array, _: Array | None) -> Array:
            u = _normal(rng, len(a), *roots)
            each = self._by_distance(a * (u - (a * u).sum(-1, keepdims=True)))
            return np.asarray(each @ keys @ _turned(each))

        return self._share_of_positions * self._mean(placed)

    @cached_property
    def _placed(self) -> Array:
        """P: the kernel of q and v, times scale² d_k."""
        assert self.positions is not None
        return self.positions.scale**2 * (self.of_queries + self.positions.place)

    @property
    def _share_of_positions(self) -> float:
        """The weight of r_n beside k_j: caps make the scale of q_i·k_j another."""
        assert self.positions is not None
        return (self.positions.scale / self.scale) ** 2 if self.scale else 0.0

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        """The place of distance i - j in R, [T, T]; of a key ahead of the query, 0 where R has none."""
        assert self.positions is not None
        length = len(self.keys)
        apart = np.subtract.outer(np.arange(length), np.arange(length))
        return np.maximum(apart, 0) if len(self.positions.keys) == length else apart + length - 1

    def _by_key(self, by_distance: Array) -> Array:
        """Turn [..., T, N] of distances into [..., T, T] of keys."""
        columns = np.broadcast_to(self._columns, (*by_distance.shape[:-1], len(self.keys)))
        return np.take_along_axis(by_distance, columns, -1)

    def _by_distance(self, by_key: Array) -> Array:
        """Turn [..., T, T] of keys, 0 for those hidden, into [..., T, N] of distances."""
        assert self.positions is not None
        length, distances = len(self.keys), len(self.positions.keys)
        first = 0 if distances == length else 1 - length
        keys = np.arange(length)[:, None] - np.arange(first, first + distances)
        there = (keys >= 0) & (keys < length)
        columns = np.broadcast_to(np.where(there, keys, 0), (*by_key.shape[:-1], distances))
        return np.where(there, np.take_along_axis(by_key, columns, -1), 0.0)


def _normal(rng: np.random.Generator, some: int, rows: Array, columns: Array) -> Array:
    """Draw matrices of the covariance (r rᵀ)_ii' (c cᵀ)_jj'."""
    return np.asarray(rows @ rng.normal(size=(some, rows.shape[1], columns.shape[1])) @ columns.T)


@lru_cache(maxsize=32)
def _normals(seed: int, some: int, rows: int, columns: int) -> Array:
    """Independent normal entries, which are the same in every layer: they are drawn once."""
    return np.random.default_rng(seed).normal(size=(some, rows, columns))


def _root(kernel: Array) -> Array:
    """The symmetric root, which unlike others is the same on every machine, so that draws are."""
    values, vectors = np.linalg.eigh(kernel)
    return np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T)


def _turned(matrices: Array) -> Array:
    return np.swapaxes(matrices, -1, -2)


# Attention at the start: how large its scores are, and the entropy of its weights, on average over random weights.
#
# The scores of query i are normal with Cov(s_ij, s_ik) = C_ii K_jk (`attention_kernel.py`). Weights at a share √t of
# the scores are A_t, W at zero scores. The mean of the logarithm of their sum and of the scores under A follow from
# Gaussian integration by parts, of which nothing is approximate but E[A_t K A_tᵀ]:
#
#     D_i(t)            = C_ii (Σ_j E[A_t]_ij K_jj - E[A_t K A_tᵀ]_ii)
#     E[log Σ_j W_ij e^{s_ij}] = ½ ∫₀¹ D_i(t) dt,        E[Σ_j A_ij s_ij] = D_i(1)
#     E[H_i]            = -Σ_j E[A]_ij log W_ij + ½ ∫₀¹ D_i(t) dt - D_i(1)
#
# For n keys whose scores have the variance v and correlation r this is about log n - v (1 - r) / 2 where v is small.
# Where e^{v(1-r)} nears n, E[A K Aᵀ] is least exact and E[H] too large: by 0.3 nats of 0.8 for v = 3, r = 0.3, n = 24.
# Sampled attention has its entropy sampled. E[H] is what the probe `attention_entropy` measures, before dropout. What
# attention adds to A (a skip, a fixed matrix) is no part of it.
#
#     Zhai et al. 2023, arXiv:2303.06296, Sec. 3 (the entropy); Stein 1981, Annals of Statistics 9(6), Lemma 2 (the
#     integration by parts).

PLACES, SHARES = np.polynomial.legendre.leggauss(4)
"""The places between -1 and 1 where D(t) is taken, and their weights: exact for polynomials of degree 7."""


@dataclass(frozen=True)
class AttentionStart:
    """One attention before a step: `heads` are those whose masks or biases are others, `layer` is its layer.

    `layer` is None outside of a model.
    """

    heads: tuple[RandomAttention | SampledAttention, ...]
    layer: int | None = None

    @property
    def score_variance(self) -> float:
        """The mean of Var(s_ij) = C_ii K_jj over heads, queries, and the keys that they see, weighed by W.

        Random relative positions, whose scores are drawn as those of queries and keys are, are part of it.
        """
        means = [(head.uniform * head.score_variances).sum() / len(head.keys) for head in self.heads]
        return float(np.mean(means))

    @property
    def largest_variance(self) -> float:
        """The largest Var(s_ij) of any query, key and head."""
        return float(max(head.score_variances.max() for head in self.heads))

    @property
    def sampled(self) -> bool:
        """True if its numbers are means over draws, in some head."""
        return any(isinstance(head, SampledAttention) for head in self.heads)

    @property
    def entropy(self) -> float:
        """The mean of E[H_i] over heads and queries, in nats."""
        return float(np.mean([_entropies(head).mean() for head in self.heads]))

    @property
    def uniform_entropy(self) -> float:
        """The mean entropy of W: what it would be at zero scores, in nats."""
        return float(np.mean([_cross_entropy(head.uniform, head.uniform).mean() for head in self.heads]))


def joined(*parts: tuple[AttentionStart, ...]) -> tuple[AttentionStart, ...]:
    """The attentions that several signals went through, in their order, each once."""
    return tuple({id(each): each for part in parts for each in part}.values())


def _entropies(head: RandomAttention | SampledAttention) -> Array:
    """E[H_i] of each query, [T]."""
    if isinstance(head, SampledAttention):
        return head.entropies
    free = sum(share * _score_spread(head, (1 + place) / 2) for place, share in zip(PLACES, SHARES, strict=True)) / 4
    # E[N]/E[Z] for E[N/Z] can leave a query of few keys a little below 0
    return np.asarray(np.maximum(_cross_entropy(head.mean, head.uniform) + free - _score_spread(head, 1.0), 0.0))


def _score_spread(head: RandomAttention, share: float) -> Array:
    """D_i(t) at t = `share`, [T]."""
    scaled = RandomAttention(head.uniform, share * head.queries, head.keys, head.keys)
    return np.asarray(np.diag(head.queries) * (scaled.mean @ np.diag(head.keys) - np.diag(scaled.forward)))


def _cross_entropy(weights: Array, uniform: Array) -> Array:
    """-Σ_j A_ij log W_ij of each query, [T]; a key that is hidden counts for nothing."""
    logarithms = np.log(uniform, out=np.zeros_like(uniform), where=uniform > 0)
    return np.asarray(-(weights * logarithms).sum(-1))


# Routing: what a mixture of experts makes of token kernels, by which tokens its router sends to the same experts.
#
# With gains g_ie of token i for expert e, 0 for those not chosen, and experts f_e of independent weights and kernel
# F,
#
#     y_i = Σ_e g_ie f_e(x_i)        Σ_ij = G_ij F_ij,  G_ij = E[Σ_e g_ie g_je]
#     Γ at f_e is G ⊙ Γ summed over e        Γ at the router's logits is P ⊙ Γ ⊙ F, times d / E a logit
#     P_ij = E[Σ_em (∂g_ie/∂r_im) (∂g_je/∂r_jm)]
#
# Logits r are normal from token to token, of the router's kernel R [T, T], and independent from expert to expert. G
# and P have no closed form for the k largest: they are means over `ROUTING_DRAWS` draws of r, always the same ones.
#
#   Shazeer et al. 2017, arXiv:1701.06538, Eq. 3 to 5 (gates, without noise). For gains g = softmax or sigmoid of r, and
#   q what they are divided by: ∂g_e/∂r_m = g_e (δ_em - q_m) a_m.

ROUTING_DRAWS = 384  # draws of the logits of one sequence
ROUTING_SEED = 0


@dataclass(frozen=True, slots=True)
class Routing:
    """`gains` G and `slopes` P, [T, T] each."""

    gains: Array
    slopes: Array


def routing(logits: Array, experts: int, active: int, *, softmax: bool, normalised: bool) -> Routing:
    """Sample a router whose logits have the kernel `logits` [T, T], which sends each token to `active` experts.

    Logits that are not finite give gains that are none.
    """
    length = len(logits)
    if not np.isfinite(logits).all():
        return Routing(np.full((length, length), np.nan), np.full((length, length), np.nan))
    values, vectors = np.linalg.eigh(logits)
    root = vectors * np.sqrt(np.clip(values, 0, None))
    r = np.einsum(
        "ij,sje->sie", root, np.random.default_rng(ROUTING_SEED).normal(size=(ROUTING_DRAWS, length, experts))
    )
    chosen = r >= np.sort(r, axis=-1)[..., [experts - active]]  # as many as `active`: no two are equal
    if not logits.any():  # all are: the first ones of each token are taken, by all tokens
        chosen = np.broadcast_to(np.arange(experts) < active, r.shape)
    if softmax:
        scores = np.exp(r - r.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        inner, q = np.ones_like(scores), scores
    else:
        scores = np.exp(-np.logaddexp(0, -r))
        inner, q = 1 - scores, np.zeros_like(scores)
    gains = np.where(chosen, scores, 0.0)
    if normalised:
        q = gains = gains / gains.sum(-1, keepdims=True)
    outer = gains * inner  # g a, and 0 outside of the choice
    pairs = _sums_over_experts(gains, gains)
    own = _mean_over_draws(outer, outer) - _mean_over_draws(outer * q, outer) - _mean_over_draws(outer, outer * q)
    return Routing(pairs.mean(0), own + (pairs * _sums_over_experts(q * inner, q * inner)).mean(0))


def _sums_over_experts(a: Array, b: Array) -> Array:
    """Sums over experts of a_ie b_je, [samples, T, T]."""
    return np.asarray(a @ b.transpose(0, 2, 1))


def _mean_over_draws(a: Array, b: Array) -> Array:
    return np.asarray(_sums_over_experts(a, b).mean(0))
