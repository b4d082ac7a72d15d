"""Random attention: what softmax attention does to token kernels on average over its query and key weights.

Queries and keys are wide and independent, so that the scores s_ij of query i and key j are normal, with

    Cov(s_ij, s_i'j') = C_ii' K_jj'            C = scale² d_k · (kernel of queries), K = kernel of keys

Weights are A_ij ∝ W_ij e^{s_ij}, where W [T, T] is attention at zero scores: rows that sum to 1, of which masks and
biases are part. With E[N/Z] ≈ E[N]/E[Z], exact where C K does not vary, two queries weigh a pair of keys by

    E[A_ij A_i'j'] = W̃_ij W̃_i'j' e^{C_ii' K_jj'} / Z_ii'        W̃_ij ∝ W_ij e^{C̄ K_jj / 2},  C̄ the mean of C_ii

so that, entry by entry of T × T matrices,

    E[A V Aᵀ]  = W̃ (V ⊙ e^{cK}) W̃ᵀ / Z         at c = C_ii'                       (values, forwards)
    E[Aᵀ Γ A]  = e^{cK} ⊙ W̃ᵀ (Γ / Z) W̃          likewise                           (values, backwards)

One query alone is not averaged over many keys: the first rows of a causal model are the least exact.

    Kedia et al. 2024, arXiv:2403.09635, App. A.8 and B (equal correlations, one pair of moments); Noci et al. 2022,
    arXiv:2206.03126, App. B (gradients through queries and keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial, isfinite
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.errors import InputError

Array: TypeAlias = NDArray[np.float64]

LARGEST = 16.0  # the variance of scores beyond which a softmax is nearly one-hot
CLOSED = 4.0
"""The largest variance of scores for which E[N/Z] is taken for E[N]/E[Z]: beyond, gradients through the scores are
off by factors, which many layers multiply. Attention whose scores are larger is sampled (`sampled_attention.py`)."""
SMALL = 1e-3
"""Exponents that differ by less than this are taken as equal, and e^{cK} is interpolated to this, relatively."""
MOST_NODES = 8  # the most values of c that are interpolated between


def at_zero_scores(biases: Sequence[Array], masks: Sequence[NDArray[np.bool_]], *, length: int, causal: bool) -> Array:
    """Return the softmax of the sum of biases, [T, T] or [H, T, T], over the keys that all masks show, [1 or H, T, T].

    Without a mask a query sees the past and itself where `causal`, all keys elsewhere.
    """
    exponents = _exponents(biases, masks, length, causal)
    return np.asarray(np.exp(exponents - _log_sum(exponents)))


def log_totals(biases: Sequence[Array], masks: Sequence[NDArray[np.bool_]], *, length: int, causal: bool) -> Array:
    """Return log Σ_m e^{bias_im} over the keys that masks show, [1 or H, T]: log Z at zero scores."""
    return np.asarray(_log_sum(_exponents(biases, masks, length, causal))[..., 0])


def _exponents(biases: Sequence[Array], masks: Sequence[NDArray[np.bool_]], length: int, causal: bool) -> Array:
    if masks:
        shown = np.logical_and.reduce(masks)
    else:
        shown = np.tri(length, dtype=bool) if causal else np.ones((length, length), dtype=bool)
    return np.where(shown, sum(biases, np.zeros((1, length, length))), -np.inf)


def _log_sum(exponents: Array) -> Array:
    largest = exponents.max(-1, keepdims=True)
    return np.asarray(largest + np.log(np.exp(exponents - largest).sum(-1, keepdims=True)))


class ScoresOverflow(InputError):
    """Scores are no longer finite."""


def score_overflow() -> ScoresOverflow:
    return ScoresOverflow(
        "attention whose scores overflow is not forecast: their variance is no longer finite\n"
        "  = put a norm in front of it, or scale what is added to the stream by a smaller gain or init"
    )


@dataclass(frozen=True)
class RandomAttention:
    """Attention at zero scores `uniform` W, and the kernels of `queries` C (times scale² d_k), `keys` K and `values` V.

    It is near enough for scores of a variance up to `CLOSED`. Raises ScoresOverflow for one that is not finite.
    """

    uniform: Array
    queries: Array
    keys: Array
    values: Array

    def __post_init__(self) -> None:
        if not isfinite(float(np.diag(self.queries).max() * np.diag(self.keys).max())):
            raise score_overflow()

    @cached_property
    def forward(self) -> Array:
        """E[A V Aᵀ]."""
        return self._mixed_kernel(self.values)

    def backward(self, gradient: Array) -> Array:
        """E[Aᵀ Γ A], the gradient of the values, for the kernel Γ of that of the outputs."""
        shared = gradient / self._totals
        return sum(
            (
                e * (self._weights.T @ (shared * basis) @ self._weights)
                for e, basis in zip(self._exponentials, self._basis, strict=True)
            ),
            np.zeros_like(self.values),
        )

    @property
    def varies(self) -> bool:
        """True if scores differ at all: else A is W, and E[A V Aᵀ] is W V Wᵀ."""
        return float(np.abs(self.queries).max() * np.ptp(self.keys)) >= SMALL

    @cached_property
    def squares(self) -> Array:
        """E[A_ij²]."""
        exponents = np.outer(np.diag(self.queries), np.diag(self.keys) - self._middle)
        return np.asarray(self._weights**2 * np.exp(exponents) / np.diag(self._totals)[:, None])

    @property
    def mean(self) -> Array:
        """E[A], taken as W: its entries are equal where keys are of one length."""
        return self._weights

    @property
    def score_variances(self) -> Array:
        """Var(s_ij), [T, T]."""
        return np.outer(np.diag(self.queries), np.diag(self.keys))

    @cached_property
    def mixed_keys(self) -> Array:
        """E[A K Aᵀ]."""
        return self._mixed_kernel(self.keys)

    def queries_backward(self, gradient: Array) -> Array:
        """Compute the kernel of the gradient of the queries, divided by scale² d_k.

        With u_ij = g_i · v_j and ū its mean over a row of A, the gradient of s_ij is A_ij (u_ij - ū_i):

            Γ_ii' Σ_jj' E[A_ij A_i'j'] K_jj' V̂_jj'        V̂ the kernel of values about their means under A_i and A_i'
        """
        crossed = self._interpolated(
            [
                (self._weights @ (self.keys * e) * near) @ self._weights.T
                for near, e in zip(self._mean_values, self._exponentials, strict=True)
            ]
        )
        crossed = crossed / self._totals
        means = self.mixed_keys * self.forward
        return _positive(gradient * (self._mixed_kernel(self.keys * self.values) - crossed - crossed.T + means))

    def keys_backward(self, gradient: Array) -> Array:
        """Σ_ii' Γ'_ii' E[A_ij A_i'j'] V̂_jj', Γ' = Γ ⊙ C: the kernel of the keys' gradient, for C as it stands."""
        weights = self._weights
        shared = gradient * self.queries
        crossed = np.zeros_like(self.values)
        for e, basis, near in zip(self._exponentials, self._basis, self._mean_values, strict=True):
            reached = (shared * basis / self._totals) @ weights
            crossed += e * (weights.T @ (near * reached))
        means = self.backward(shared * self.forward)
        return _positive(self.backward(shared) * self.values - crossed - crossed.T + means)

    def dropped_queries(self, shares: Array) -> Array:
        """Σ_j S_ij E[A_ij²] |k_j - Σ_m A_im k_m|², A its mean: the queries' part of dropped weights, [T]."""
        mixed = self.mean @ self.keys
        apart = np.diag(self.keys) - 2 * mixed + np.einsum("ij,ij->i", mixed, self.mean)[:, None]
        return np.asarray((shares * self.squares * apart).sum(1))

    def dropped_keys(self, shares: Array) -> Array:
        """Σ_ij S_ij E[A_ij²] (δ_jk - A_ik) (δ_jk' - A_ik'), A its mean: the keys' part, [T, T]."""
        return spread_over_keys(self.mean, shares * self.squares)

    @cached_property
    def _mean_values(self) -> list[Array]:
        """The mean of V_jj' over keys j weighed by W̃_ij e^{c K_jj'}, at each node, for query i and key j'."""
        return [(self._weights @ (self.values * e)) / (self._weights @ e) for e in self._exponentials]

    def _mixed_kernel(self, kernel: Array) -> Array:
        """E[A V Aᵀ] for any kernel V."""
        return self._interpolated([self._mixed(kernel * e) for e in self._exponentials]) / self._totals

    def _mixed(self, matrix: Array) -> Array:
        return np.asarray(self._weights @ matrix @ self._weights.T)

    @cached_property
    def _weights(self) -> Array:
        """W̃."""
        each = np.exp(np.diag(self.queries).mean() * (np.diag(self.keys) - np.diag(self.keys).max()) / 2)
        weights = self.uniform * each
        return np.asarray(weights / weights.sum(1, keepdims=True))

    @cached_property
    def _nodes(self) -> Array:
        """The values of c: Chebyshev points over the range of C, as many as e^{cK} needs to vary by over it."""
        low, high = float(self.queries.min()), float(self.queries.max())
        spread = float(np.ptp(self.keys))
        if max(abs(low), abs(high)) * spread < SMALL or high - low == 0:
            return np.array([(low + high) / 2])
        half = (high - low) * spread / 4  # half of what is interpolated over, from the middle of the keys
        wanted = next((n for n in range(2, MOST_NODES) if 2 * (half / 2) ** n / factorial(n) < SMALL), MOST_NODES)
        places = np.polynomial.chebyshev.chebpts1(wanted)
        return np.asarray((low + high) / 2 + places * (high - low) / 2)

    @cached_property
    def _exponentials(self) -> list[Array]:
        """e^{cK} at each node, up to a factor that is the same for all keys, and cancels."""
        return [np.exp(c * (self.keys - self._middle)) for c in self._nodes]

    @property
    def _middle(self) -> float:
        return float(self.keys.max() + self.keys.min()) / 2

    @cached_property
    def _basis(self) -> list[Array]:
        """Lagrange's polynomials of the nodes at C: what each node counts for, [T, T]."""
        bases = []
        for k, node in enumerate(self._nodes):
            others = np.delete(self._nodes, k)
            bases.append(np.prod([(self.queries - other) / (node - other) for other in others], axis=0))
        return [np.broadcast_to(basis, self.queries.shape) for basis in bases]

    def _interpolated(self, at_nodes: list[Array]) -> Array:
        return sum((b * m for b, m in zip(self._basis, at_nodes, strict=True)), np.zeros_like(self.queries))

    @cached_property
    def _totals(self) -> Array:
        """Z."""
        return self._interpolated([self._mixed(e) for e in self._exponentials])

    @property
    def log_covariances(self) -> Array:
        """Cov(log Z_i, log Z_i') of the sums Z_i over e^s, taken as lognormal: log (E[Z_i Z_i'] / (E[Z_i] E[Z_i']))."""
        return np.asarray(np.log(self._totals) + self.queries * self._middle)


def spread_over_keys(weights: Array, shares: Array) -> Array:
    """Compute Σ_ij S_ij (δ_jk - A_ik) (δ_jk' - A_ik'), [..., T, T]."""
    turned = np.swapaxes(weights, -1, -2)
    crossed = turned @ shares
    own = shares.sum(-2)[..., None] * np.eye(shares.shape[-1])
    means = turned @ (shares.sum(-1)[..., None] * weights)
    return np.asarray(own - crossed - np.swapaxes(crossed, -1, -2) + means)


def _positive(kernel: Array) -> Array:
    """Return a kernel without tokens whose mean square came out below 0: what is left of the difference of equals."""
    there = np.diag(kernel) > 0
    return np.where(there[:, None] & there, kernel, 0.0)
