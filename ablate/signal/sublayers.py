"""Sublayers: the moments through an attention block and an MLP block as a whole, and backwards.

Both take a normalised signal, as a norm in front of them leaves it. With σ_v², σ_o² the variances of the value and
projection weights, σ_1², σ_2² those of the MLP's and h its width, each block is known by one number, its `strength`:

    attention   A = d² σ_v² σ_o²           variance out = A r / (1 - p) for many tokens
    mlp, ReLU   F = d h σ_1² σ_2² / 2      variance out = F / (1 - p)

    Kedia et al. 2024, arXiv:2403.09635, Table 2 and App. B and C; dropout p after each block and on the softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import acos, asin, inf, pi, sqrt

from ablate.signal.moments import Moments, dropout_backward

WIDE = 2**62
"""A width at which terms that fall with it vanish."""


def attention_mean(x: Moments, length: float, width: int, scores: float = 0.0, p: float = 0.0) -> Moments:
    """Σ_j A_ij x_j over L = `length` tokens, softmax A with a share p dropped, before any value weight, for μ = 0.

    `scores` is d² σ_q² σ_k², the variance of the scores of a signal of variance 1; here it is s = scores σ⁴. With A_i
    and A_i' the weights of one query, or of two,

        w = E[Σ_j A_ij²] = e^{(1-r)s} / (e^{(1-r)s} + L - 1)       v = E[Σ_j A_ij A_i'j], with rs for s

        variance     σ² {r + (1-r)w + wp/(1-p) + (1-r)² s/d (1 - w + 4w/(1-p))}
        covariance   σ² {r + (1-r)v + (1-r)² s/d (2v + r(1+v))}

    The paper's, App. A.8, are these to first order in 1/L, without two terms: what dropout makes of the share r of each
    token, wrp/(1-p), and the r(1+v) of the covariance: query i tilts its mean by (1-r)u_i, with |u_i|²/d = s/d and
    u_i · u_i'/d = rs/d, alike for queries that are alike.
    """
    r, apart = x.correlation, 1 - x.correlation
    s = scores * x.variance**2
    tilt = apart**2 * s / width
    w, v = on_one_key(apart * s, length), on_one_key(apart * r * s, length)
    return Moments.of(
        x.variance * (r + apart * w + w * p / (1 - p) + tilt * (1 - w + 4 * w / (1 - p))),
        x.variance * (r + apart * v + tilt * (2 * v + r * (1 + v))),
    )


@dataclass(frozen=True, slots=True)
class AttentionGradients:
    """What reaches the tokens of an attention's input `by_values`, `by_queries` and `by_keys`, and the `whole` of it.

    The three are taken as uncorrelated, but for values and keys, which share 2 ρ r(1-r) s/d of the variance.
    """

    by_values: Moments
    by_queries: Moments
    by_keys: Moments
    whole: Moments


def attention_mean_backward(
    g: Moments, x: Moments, length: float, width: int, scores: float = 0.0, p: float = 0.0
) -> AttentionGradients:
    """Compute the gradient that reaches the x_j through values and, where there are `scores`, through the weights too.

    With s, w and v of `attention_mean`, ρ the gradient's correlation, and σ_g² = 1:

        by values    variance w/(1-p) + (L-1)ρv                covariance (1-w)/(L-1) + ρ(1-v)
        by queries   s (1-r) {(1-r)(w(1-w) + 1/d) + w(1-w)p/(1-p)}        s ρ (1-r)² (v(1-v) + 1/d)
        by keys      s {(1-r)(w(1-w) + (L-1)ρr v(1-v)) + w(1-w)p/(1-p)}   -s (1-r) {w(1-w)/(L-1) + ρr v(1-v)}

    At scores 0, where w = v = 1/L, they are the paper's, (1 + (L-1)ρ(1-p)) / (L(1-p)) and (1 + (L-1)ρ)/L, which has
    nothing through queries and keys. The rest is `attention_kernel.RandomAttention` at equal correlations, with the 1/d
    that values and keys of one token have in common.
    """
    r, apart, rho = x.correlation, 1 - x.correlation, g.correlation
    s = scores * x.variance**2
    w, v = on_one_key(apart * s, length), on_one_key(apart * r * s, length)
    both_w, both_v, dropped = w * (1 - w), v * (1 - v), w * (1 - w) * p / (1 - p)
    shared = _others(v, apart * r * s, length)
    by_values = (w / (1 - p) + rho * shared, _each_other(1 - w, length) + rho * (1 - v))
    by_queries = (
        s * apart * (apart * (both_w + 1 / width) + dropped),
        s * rho * apart**2 * (both_v + 1 / width),
    )
    by_keys = (
        s * (apart * (both_w + rho * r * shared * (1 - v)) + dropped),
        -s * apart * (_each_other(both_w, length) + rho * r * both_v),
    )
    common = 2 * rho * r * apart * s / width
    parts = [by_values, by_queries, by_keys]
    whole = (sum(part[0] for part in parts) + common, sum(part[1] for part in parts))
    return AttentionGradients(*(Moments.of(g.variance * a, g.variance * b) for a, b in (*parts, whole)))


def on_one_key(exponent: float, length: float) -> float:
    """E[Σ_j A_ij A_i'j] = e^c / (e^c + L - 1), 0 for inf."""
    return 1 / (1 + (length - 1) * math.exp(-exponent))


def _others(share: float, exponent: float, length: float) -> float:
    """(L - 1) times the share of one key, e^c for inf."""
    return math.exp(exponent) if math.isinf(length) else (length - 1) * share


def _each_other(share: float, length: float) -> float:
    """The share of each of the other L - 1 keys, 0 for inf."""
    return share / (length - 1)


def attention(
    x: Moments, strength: float, p: float, length: float = inf, width: int = WIDE, scores: float = 0.0
) -> Moments:
    """Value, mean over tokens, projection, dropout. For many tokens: A r σ²/(1-p), correlated by 1 - p."""
    y = attention_mean(x, length, width, scores, p)
    return Moments.of(strength * y.variance / (1 - p), strength * y.covariance)


def attention_backward(
    g: Moments, x: Moments, strength: float, p: float, length: float = inf, width: int = WIDE, scores: float = 0.0
) -> Moments:
    """Back through all of it: the dropout, which leaves covariances as they are, A, and the mean over tokens.

    At scores 0 A σ_g² (1 + (L-1) r_g (1-p)²) / (L (1-p)²), at length inf A r_g σ_g². The paper has 1-p for (1-p)², and
    A r_g σ_g²/(1-p): there dropout makes the share that tokens have in common larger, too.
    """
    y = attention_mean_backward(dropout_backward(g, p), x, length, width, scores, p).whole
    return Moments(strength * y.variance, y.correlation)


def mlp(x: Moments, strength: float, p: float) -> Moments:
    """Up, ReLU, down, dropout, for μ = 0: variance Fσ²/(1-p); correlation (1-p)(r + (√(1-r²) - r acos r)/π).

    The second weight sums E[y²] of the ReLU's output, mean and all, so no π is in the variance.
    """
    r = x.correlation
    return Moments(strength * x.variance / (1 - p), (1 - p) * (r + (sqrt(1 - r * r) - r * acos(r)) / pi))


def mlp_backward(g: Moments, x: Moments, strength: float, p: float) -> Moments:
    """Fσ_g²/(1-p); covariance 2F r_g σ_g² (1/4 + asin(r)/(2π))."""
    return Moments.of(
        strength * g.variance / (1 - p), 2 * strength * g.covariance * (1 / 4 + asin(x.correlation) / (2 * pi))
    )
