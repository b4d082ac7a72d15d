"""Attention at the start: how large its scores are, and the entropy of its weights, on average over random weights.

The scores of query i are normal with Cov(s_ij, s_ik) = C_ii K_jk (`attention_kernel.py`). Weights at a share √t of the
scores are A_t, W at zero scores. The mean of the logarithm of their sum and of the scores under A follow from Gaussian
integration by parts, of which nothing is approximate but E[A_t K A_tᵀ]:

    D_i(t)            = C_ii (Σ_j E[A_t]_ij K_jj - E[A_t K A_tᵀ]_ii)
    E[log Σ_j W_ij e^{s_ij}] = ½ ∫₀¹ D_i(t) dt,        E[Σ_j A_ij s_ij] = D_i(1)
    E[H_i]            = -Σ_j E[A]_ij log W_ij + ½ ∫₀¹ D_i(t) dt - D_i(1)

For n keys whose scores have the variance v and correlation r this is about log n - v (1 - r) / 2 where v is small.
Where e^{v(1-r)} nears n, E[A K Aᵀ] is least exact and E[H] too large: by 0.3 nats of 0.8 for v = 3, r = 0.3 and n = 24.
Where attention is sampled (`sampled_attention.py`), so is its entropy. E[H] is what the probe `attention_entropy`
measures, before dropout. What attention adds to A (a skip, a fixed matrix) is no part of it.

    Zhai et al. 2023, arXiv:2303.06296, Sec. 3 (the entropy); Stein 1981, Annals of Statistics 9(6), Lemma 2 (the
    integration by parts).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ablate.signal.attention_kernel import Array, RandomAttention
from ablate.signal.sampled_attention import SampledAttention

PLACES, SHARES = np.polynomial.legendre.leggauss(4)
"""Where D(t) is taken between -1 and 1, and what each place counts for: exact for polynomials of degree 7."""


@dataclass(frozen=True)
class AttentionStart:
    """One attention before a step: `heads` are those whose masks or biases are others, `layer` is where it stands.

    It is None outside of a model.
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
        """Whether its numbers are means over draws, in some head."""
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
    """Join what several signals went through, in their order, each attention once."""
    return tuple({id(each): each for part in parts for each in part}.values())


def _entropies(head: RandomAttention | SampledAttention) -> Array:
    """Return E[H_i] of each query, [T]."""
    if isinstance(head, SampledAttention):
        return head.entropies
    free = sum(share * _spread(head, (1 + place) / 2) for place, share in zip(PLACES, SHARES, strict=True)) / 4
    # E[N]/E[Z] for E[N/Z] can leave a query of few keys a little below 0
    return np.asarray(np.maximum(_cross_entropy(head.mean, head.uniform) + free - _spread(head, 1.0), 0.0))


def _spread(head: RandomAttention, share: float) -> Array:
    """Return D_i(t) at t = `share`, [T]."""
    scaled = RandomAttention(head.uniform, share * head.queries, head.keys, head.keys)
    return np.asarray(np.diag(head.queries) * (scaled.mean @ np.diag(head.keys) - np.diag(scaled.forward)))


def _cross_entropy(weights: Array, uniform: Array) -> Array:
    """Return -Σ_j A_ij log W_ij of each query, [T]; a key that is hidden counts for nothing."""
    logarithms = np.log(uniform, out=np.zeros_like(uniform), where=uniform > 0)
    return np.asarray(-(weights * logarithms).sum(-1))
