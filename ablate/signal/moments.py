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
from math import asin, pi, sqrt


@dataclass(frozen=True, slots=True)
class Moments:
    """`mean` μ, `variance` σ² and `correlation` r between tokens; a gradient's mean is 0."""

    variance: float
    correlation: float
    mean: float = 0.0

    @property
    def covariance(self) -> float:
        """The covariance of one channel at two tokens: rσ²."""
        return self.correlation * self.variance

    @staticmethod
    def of(variance: float, covariance: float, mean: float = 0.0) -> Moments:
        """Make moments from a covariance; the correlation of a signal without variance is 0."""
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

    r (1 - (1-r²)/(2(d-1))), exact to order 1/d (Hotelling 1953, J. R. Stat. Soc. B 15). The paper has r (1 -
    1/d), which is what centring alone leaves of a covariance; dividing by the variance that is left gives it back. Two
    channels of one token then have the covariance -1/(d - 1).
    """
    r = x.correlation
    return Moments(1.0, r * (1 - (1 - r * r) / (2 * (width - 1))))


def layer_norm_backward(g: Moments, x: Moments, width: int) -> Moments:
    """(σ_g²/σ²) (d-2)/(d-3), at the correlation r_g (1 - (3/2)(1-r²)/d) to order 1/d.

    The paper has σ_g²/σ² at the same correlation. A token's own norm takes 2 of d directions from its gradient, and the
    mean of d over the sum of squares is d/(d-3); what two tokens lose is the less the same, the less alike they are. It
    is for normal tokens: where one norm follows another, sizes vary less, and 1/d is not to be taken each time.
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

    σ_g² e^v / (L² (1 + (2e^v - 1)²/L)). The paper has σ_g² (variance of a weight + 1/L²), without what each score takes
    from the others' gradients.
    """
    grown = math.exp(x.variance * (1 - x.correlation))
    return g.variance * grown / (length**2 * (1 + (2 * grown - 1) ** 2 / length))


def add_skip(x: Moments, branch: Moments, skip: float, gain: float) -> Moments:
    """λx + β·branch, taken as uncorrelated: λ²σ² + β²σ_b², and covariances likewise; also of gradients."""
    a, b = skip * skip, gain * gain
    return Moments.of(a * x.variance + b * branch.variance, a * x.covariance + b * branch.covariance)
