"""Sublayers: the moments through an attention block and an MLP block as a whole, and backwards.

Both take a normalised signal, as a norm in front of them leaves it. With σ_v², σ_o² the variances of the value and
projection weights, σ_1², σ_2² those of the MLP's and h its width, each block is known by one number, its `strength`:

    attention   A = d² σ_v² σ_o²           variance out = A r / (1 - p) for many tokens
    mlp, ReLU   F = d h σ_1² σ_2² / 2      variance out = F / (1 - p)

    Kedia et al. 2024, arXiv:2403.09635, Table 2 and App. B and C; dropout p after each block and on the softmax.
"""

from __future__ import annotations

import math
from math import acos, asin, inf, pi, sqrt

from ablate.signal.moments import Moments

WIDE = 2**62
"""A width at which terms that fall with it vanish."""


def attention_mean(x: Moments, length: float, width: int, scores: float = 0.0, p: float = 0.0) -> Moments:
    """Σ_j A_ij x_j over L = `length` tokens, softmax A with a share p dropped, before any value weight.

    `scores` is d² σ_q² σ_k², the variance of the scores of a signal of variance 1; here it is s = scores σ⁴.

    variance σ²{r + [(1-r)²(L-1) s/d + e^{(1-r)s} (4(1-r)² s/d + (1-r)) / (1-p)] / L}
    covariance σ²{r + [2(1-r)² s/d + (1-r)] / L}
    """
    r, apart, each = x.correlation, 1 - x.correlation, _share(length)
    spread = scores * x.variance**2
    single = apart**2 * spread / width
    peaks = math.exp(apart * spread) * (4 * single + apart) / (1 - p)
    return Moments.of(
        x.variance * (r + single * (1 - each) + peaks * each), x.variance * (r + (2 * single + apart) * each)
    )


def attention_mean_backward(
    g: Moments, x: Moments, length: float, width: int, scores: float = 0.0, p: float = 0.0
) -> Moments:
    """Compute the gradient that reaches the x_j through values and, where there are `scores`, through the weights too.

    variance σ_g² (1 + (L-1) r_g (1-p)) / (L (1-p)),  covariance σ_g² (1 + (L-1) r_g) / L

    These are the paper's, at scores 0: all weights equal, and nothing through queries and keys. With s = scores σ⁴

    variance σ_g² {[e^{(1-r)s} (1 + s(1-r)(2-r)) / (1-p) + (L-1) r_g e^{r(1-r)s} (1 + s r(1-r))] / L + s(1-r)²/d}

    Two weights on one key have the mean product e^{r(1-r)s}/L², a weight the mean square e^{(1-r)s}/L²; gradients that
    tokens share go back through a key as σ_g² r_g s r(1-r), and the others as σ_g² s(1-r)/L, through a query as
    σ_g² (s(1-r)²/L + s(1-r)²/d), from token to token uncorrelated.
    """
    r, apart, each = x.correlation, 1 - x.correlation, _share(length)
    s = scores * x.variance**2
    own = math.exp(apart * s) * (1 + s * apart * (1 + apart)) / (1 - p)
    shared = g.correlation * math.exp(r * apart * s) * (1 + s * r * apart)
    return Moments.of(
        g.variance * (own * each + shared * (1 - each) + s * apart**2 / width),
        g.variance * (each + g.correlation * (1 - each)),
    )


def attention(
    x: Moments, strength: float, p: float, length: float = inf, width: int = WIDE, scores: float = 0.0
) -> Moments:
    """Value, mean over tokens, projection, dropout. For many tokens: A r σ²/(1-p), correlated by 1 - p."""
    y = attention_mean(x, length, width, scores, p)
    return Moments.of(strength * y.variance / (1 - p), strength * y.covariance)


def attention_backward(
    g: Moments, x: Moments, strength: float, p: float, length: float = inf, width: int = WIDE, scores: float = 0.0
) -> Moments:
    """Back through all of it. At scores 0 A σ_g² (1 + (L-1) r_g (1-p)) / (L (1-p)²), at length inf A r_g σ_g²/(1-p)."""
    y = attention_mean_backward(g, x, length, width, scores, p)
    return Moments.of(strength * y.variance / (1 - p), strength * y.covariance)


def _share(length: float) -> float:
    """1/L, 0 for inf."""
    return 0.0 if math.isinf(length) else 1 / length


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
