"""Moments: mean, variance and correlation between tokens through each component of a transformer, and backwards.

A signal is X [tokens, channels]: every entry of mean μ and variance σ², channels independent, and the same channel of
two tokens correlated by r. Its covariance is rσ². A gradient is a signal of mean 0. Maps of gradients go from a
component's output to its input, and take the moments of that input where they depend on them.

Two channels of one token may be correlated, too (Table 19). Activations and dropout map that correlation as they map
the one of two tokens; behind fresh weights (embedding, linear, attention, MLP) it is 0, and behind layer norm -1/(d-1).

    Kedia et al. 2024, arXiv:2403.09635, Tables 1 and 15 to 20; derivations in App. A. All numbers are float64.

Exact for normal inputs and independent normal weights of mean 0; of softmax to order 1/L, of layer norm to order 1/d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import acos, asin, inf, pi, sqrt


@dataclass(frozen=True, slots=True)
class Moments:
    """`mean` μ, `variance` σ² and `correlation` r between tokens; a gradient's mean is 0."""

    variance: float
    correlation: float
    mean: float = 0.0

    @property
    def covariance(self) -> float:
        """rσ², of one channel at two tokens."""
        return self.correlation * self.variance

    @staticmethod
    def of(variance: float, covariance: float, mean: float = 0.0) -> Moments:
        return Moments(variance, covariance / variance if variance else 0.0, mean)


def zipf_correlation(vocabulary: int) -> float:
    """r of a table of embeddings over tokens that follow Zipf's law: π² / (6 ln² V), App. A.1.

    >>> round(zipf_correlation(32_000), 4)
    0.0153
    """
    return pi**2 / (6 * math.log(vocabulary) ** 2)


def repetition(counts: tuple[int, ...]) -> float:
    """r of a table over one sequence in which token i stands `counts[i]` times: Σ N_i (N_i - 1) / (L (L - 1)).

    >>> repetition((2, 1, 1))
    0.16666666666666666
    """
    length = sum(counts)
    return sum(n * (n - 1) for n in counts) / (length * (length - 1))


def embeddings(table_variance: float, correlations: tuple[float, ...]) -> Moments:
    """The sum of one embedding from each table (tokens, positions, …): Kσ_e², and the mean of the tables' r."""
    return Moments(len(correlations) * table_variance, sum(correlations) / len(correlations))


def linear(x: Moments, d_in: int, weight_variance: float) -> Moments:
    """y = x W with W [d_in, d_out]: σ² = d_in w (σ² + μ²), covariance d_in w (rσ² + μ²)."""
    each = d_in * weight_variance
    return Moments.of(each * (x.variance + x.mean**2), each * (x.covariance + x.mean**2))


def linear_backward(g: Moments, d_out: int, weight_variance: float) -> Moments:
    """d_out w σ_g², at the same correlation."""
    return Moments(d_out * weight_variance * g.variance, g.correlation)


def dropout(x: Moments, p: float) -> Moments:
    """A share p dropped, the rest divided by 1 - p: (σ² + pμ²) / (1 - p), at the same covariance."""
    return Moments.of((x.variance + p * x.mean**2) / (1 - p), x.covariance, x.mean)


def dropout_backward(g: Moments, p: float) -> Moments:
    """σ_g² / (1 - p), at the same covariance."""
    return Moments.of(g.variance / (1 - p), g.covariance)


def relu(x: Moments) -> Moments:
    """max(0, x) for μ = 0: mean σ/√(2π), variance σ²(π - 1)/(2π)."""
    r = x.correlation
    covariance = (1 / 4 + asin(r) / (2 * pi)) * r - (1 - sqrt(1 - r * r)) / (2 * pi)
    return Moments.of(x.variance * (pi - 1) / (2 * pi), x.variance * covariance, sqrt(x.variance / (2 * pi)))


def relu_backward(g: Moments, x: Moments) -> Moments:
    """σ_g²/2; covariance r_g σ_g² (1/4 + asin(r)/(2π))."""
    return Moments.of(g.variance / 2, g.covariance * (1 / 4 + asin(x.correlation) / (2 * pi)))


def gelu(x: Moments) -> Moments:
    """x Φ(x) for μ = 0, with Φ the normal distribution function."""
    s, r = x.variance, x.correlation
    a = s / (1 + s)
    mean = s / sqrt(2 * pi * (1 + s))
    variance = s / (2 * pi) * (pi / 2 - a + asin(a) + 2 * s / ((1 + s) * sqrt(1 + 2 * s)))
    root = sqrt((1 + s) ** 2 - (r * s) ** 2)
    mixed = 2 * s * (s * (1 - r * r) + 1 + r * r) / ((1 + s) * root)
    return Moments.of(variance, s / (4 * pi) * (pi * r + 2 * r * asin(r * a) + mixed - 2 * a), mean)


def gelu_backward(g: Moments, x: Moments) -> Moments:
    """σ_g² E[φ'(x)²]; covariance r_g σ_g² E[φ'(x) φ'(x')]."""
    s, r = x.variance, x.correlation
    a, c = s / (1 + s), r * s
    variance = 1 / 4 + asin(a) / (2 * pi) + s * (5 * s + 3) / (2 * pi * (1 + s) * (2 * s + 1) ** 1.5)
    mixed = c * ((2 * s + 3) * (1 + s) - 2 * c * c) / (2 * pi * (1 + s) * ((1 + s) ** 2 - c * c) ** 1.5)
    return Moments.of(g.variance * variance, g.covariance * (1 / 4 + asin(r * a) / (2 * pi) + mixed))


def layer_norm(x: Moments, width: int) -> Moments:
    """Each token at mean 0 and variance 1 over its channels; the covariance is the mean of a sample's correlation.

    r (1 - (1-r²)/(2(d-1))), exact to order 1/d (Hotelling 1953, J. R. Stat. Soc. B 15). The paper has r (1 - 1/d),
    which is of centring alone; dividing by the variance that is left gives it back. Two channels of one token then have
    the covariance -1/(d - 1).
    """
    r = x.correlation
    return Moments(1.0, r * (1 - (1 - r * r) / (2 * (width - 1))))


def layer_norm_backward(g: Moments, x: Moments, width: int) -> Moments:
    """(σ_g²/σ²) (d-2)/(d-3), at the correlation r_g (1 - (3/2)(1-r²)/d) to order 1/d; the paper has σ_g²/σ² at r_g.

    A token's own norm takes 2 of d directions from its gradient, and the mean of d over the sum of squares is d/(d-3);
    two tokens lose the less in common, the less alike they are. It is for normal tokens: where one norm follows
    another, sizes vary less, and 1/d is not to be taken each time.
    """
    r = x.correlation
    each = (width - 2) / (width - 3)
    return Moments(each * g.variance / x.variance, g.correlation * (1 - 1.5 * (1 - r * r) / width))


def softmax(x: Moments, length: int) -> Moments:
    """Each weight over `length` scores x, which are normal: mean 1/L, and with v = σ²(1-r)

    variance (e^v / (1 + (2e^v - 1)(e^v - 1)/L) - 1) / L², exact to order 1/L (both moments of the ratio e^{x_i} / Σ_j
    e^{x_j} about its mean sum). The paper's (e^q - 1) e^{2q} / S² with q = vL/(L-1) and S = (L-1) e^v + 1 is the same
    for many scores, (e^v - 1)/L². The weights of one query sum to 1, so two of them are correlated by -1/(L-1).
    """
    grown = math.exp(x.variance * (1 - x.correlation))
    square = grown / (1 + (2 * grown - 1) * (grown - 1) / length)
    return Moments((square - 1) / length**2, -1 / (length - 1), 1 / length)


def softmax_backward(g: Moments, x: Moments, length: int) -> float:
    """The variance of the gradient of the scores, σ_g² E[A_i² (1 - 2A_i + Σ_j A_j²)], exact to order 1/L.

    σ_g² e^v / (L² (1 + (2e^v - 1)²/L)). The paper has σ_g² (variance of a weight + 1/L²), without the
    part that each score takes from the others' gradients.
    """
    grown = math.exp(x.variance * (1 - x.correlation))
    return g.variance * grown / (length**2 * (1 + (2 * grown - 1) ** 2 / length))


def add_skip(x: Moments, branch: Moments, skip: float, gain: float) -> Moments:
    """λx + β·branch, taken as uncorrelated: λ²σ² + β²σ_b², and covariances likewise; also of gradients."""
    a, b = skip * skip, gain * gain
    return Moments.of(a * x.variance + b * branch.variance, a * x.covariance + b * branch.covariance)


# Sublayers: the moments through an attention block and an MLP block as a whole, and backwards.
#
# Both take a normalised signal, as a norm in front of them leaves it. With σ_v², σ_o² the variances of the value and
# projection weights, σ_1², σ_2² those of the MLP's and h its width, each block is known by one number, its
# `strength`:
#
#     attention   A = d² σ_v² σ_o²           variance out = A r / (1 - p) for many tokens
#     mlp, ReLU   F = d h σ_1² σ_2² / 2      variance out = F / (1 - p)
#
#     Kedia et al. 2024, arXiv:2403.09635, Table 2 and App. B and C; dropout p after each block and on the softmax.

WIDE = 2**62  # a width at which terms that fall with it vanish


def attention_mean(x: Moments, length: float, width: int, scores: float = 0.0, p: float = 0.0) -> Moments:
    """Σ_j A_ij x_j over L = `length` tokens, softmax A with a share p dropped, before any value weight, for μ = 0.

    `scores` is d² σ_q² σ_k², the variance of the scores of a signal of variance 1; here it is s = scores σ⁴. With A_i
    and A_i' the weights of one query, or of two,

        w = E[Σ_j A_ij²] = e^{(1-r)s} / (e^{(1-r)s} + L - 1)       v = E[Σ_j A_ij A_i'j], with rs for s

        variance     σ² {r + (1-r)w + wp/(1-p) + (1-r)² s/d (1 - w + 4w/(1-p))}
        covariance   σ² {r + (1-r)v + (1-r)² s/d (2v + r(1+v))}

    The paper's, App. A.8, are these to first order in 1/L, without wrp/(1-p), dropout of the share r of each token, and
    the covariance's r(1+v): query i tilts its mean by (1-r)u_i, with |u_i|²/d = s/d and u_i · u_i'/d = rs/d.
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
    """The gradients of an attention's input `by_values`, `by_queries` and `by_keys`, and the `whole` of it.

    The three are taken as uncorrelated, but for values and keys, which share 2 ρ r(1-r) s/d of the variance.
    """

    by_values: Moments
    by_queries: Moments
    by_keys: Moments
    whole: Moments


def attention_mean_backward(
    g: Moments, x: Moments, length: float, width: int, scores: float = 0.0, p: float = 0.0
) -> AttentionGradients:
    """The gradient of the x_j through values and, where there are `scores`, through the weights too.

    With s, w and v of `attention_mean`, ρ the gradient's correlation, and σ_g² = 1:

        by values    variance w/(1-p) + (L-1)ρv                covariance (1-w)/(L-1) + ρ(1-v)
        by queries   s (1-r) {(1-r)(w(1-w) + 1/d) + w(1-w)p/(1-p)}        s ρ (1-r)² (v(1-v) + 1/d)
        by keys      s {(1-r)(w(1-w) + (L-1)ρr v(1-v)) + w(1-w)p/(1-p)}   -s (1-r) {w(1-w)/(L-1) + ρr v(1-v)}

    At scores 0, where w = v = 1/L, they are the paper's, (1 + (L-1)ρ(1-p)) / (L(1-p)) and (1 + (L-1)ρ)/L, which has
    nothing through queries and keys. The rest is `attention_kernel.RandomAttention` at equal correlations, with the 1/d
    that values and keys of one token share.
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


# DeepScaleLM: the correlation between tokens, layer by layer, that weights are scaled by so that variances stay 1.
#
# r ← r_0 (1-p),  s ← 1;   for each layer n:
#     r_n = r                                                     the input of the layer's attention
#     r ← (λ² r s + β² (1-p)) / (λ² s + β²),   s ← λ² s + β²      after attention, whose output is correlated by 1-p
#     r ← (λ² r s + β² g(r)) / (λ² s + β²),    s ← λ² s + β²      after the MLP
#     g(r) = (1-p) (r + (√(1-r²) - r acos r)/π)
#
# Kedia et al. 2024, arXiv:2403.09635, Sec. 3.5 and App. M. (Fig. 15 there appends r after the layer, which is one
# layer too late: Table 2 wants the correlation that enters attention.)


def layer_correlations(n_layers: int, correlation: float, p: float, skip: float, gain: float) -> tuple[float, ...]:
    """Compute r_1, …, r_N, the correlation that enters the attention of each layer.

    `correlation` is r_0, that of the embeddings before their dropout; p the dropout; every residual is λx + β·branch.
    """
    entering = []
    x = Moments(1.0, correlation * (1 - p))
    for _ in range(n_layers):
        entering.append(x.correlation)
        x = add_skip(x, Moments(1.0, 1 - p), skip, gain)
        x = add_skip(x, Moments(1.0, mlp(x, 1.0, p).correlation), skip, gain)
    return tuple(entering)


def deep_scale_std(correlation: float, p: float, d_in: int) -> float:
    """The sd of value and projection weights that gives attention variance 1: σ_v² = σ_o² = √((1-p)/r) / d."""
    return float((((1 - p) / correlation) ** 0.5 / d_in) ** 0.5)
