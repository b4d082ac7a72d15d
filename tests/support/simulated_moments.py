"""Simulations of every closed form of one component, over ranges that were chosen before they were run.

Kedia et al. 2024, arXiv:2403.09635, Table 21: the percentage errors of the formulas at the 50th, 90th and 99th
percentile. Their ranges (Table 22) are illegible in the text that we have, so these are ours, each drawn uniformly, or
by its logarithm (log), once for each setting; a component is simulated at `SETTINGS` of them.

    all but softmax   σ² and σ_g² in [0.1, 10] (log), r and r_g in [0.05, 0.95]
    linear            μ in [-10, 10], d_in and d_out in [50, 500] (log), weights' variance in [0.01, 100] / d_in (log)
    relu, gelu        μ = 0
    layer norm        μ in [-10, 10], d in [100, 1000] (log)
    dropout           μ in [-10, 10], p of 0, 0.1, …, 0.9
    softmax           μ = 0, σ² in [1e-4, 1] (log), r in [0, 0.95], L in [300, 3000] (log)
    attention         one head without values: σ² = 1, μ = 0, r and r_g in [0, 0.95], L in [300, 600], d in [100, 400]
                      (log), d_k of 32, 64 or 128, p in [0, 0.5], scores of variance [0.1, 1] (log)

An error is that of the formula at the moments that the drawn input has, relative to what is simulated; that of a mean
is relative to the standard deviation, as means are 0 here. Where a correlation is next to nothing a covariance has no
relative error, which is why r begins at 0.05 elsewhere than in attention, whose outputs share 1/L at the least.

What is random besides the input is drawn so often that simulations have little noise of their own: entry by entry maps
at 2^17 points of a quasi-random sequence, dropout under all outcomes of the masks, weights with their negatives (which
makes the mean of a linear map 0 to rounding) some 20 million at a time, and attention over `SEQUENCES` sequences. What
noise is left is a part of the errors: they are at most those of the formulas and of the simulation together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import yaml
from scipy.special import erf
from scipy.stats import norm, qmc

from ablate.signal.moments import (
    Moments,
    attention_mean,
    attention_mean_backward,
    dropout,
    dropout_backward,
    gelu,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    relu,
    relu_backward,
    softmax,
    softmax_backward,
)

FORWARD = ("mean", "variance", "covariance")
BACKWARD = ("grad_variance", "grad_covariance")
PERCENTILES = (50, 90, 99)
ROUNDED = 0.05
"""Table 21 has one digit behind the point, so that its 0.0 is anything below this."""

TABLE = """
linear:                {mean: [0.0, 0.4, 1.3], variance: [0.4, 1.4, 2.8], grad_variance: [0.2, 1.0, 2.2],
                        covariance: [0.4, 1.4, 2.8], grad_covariance: [0.2, 1.0, 2.2]}
relu:                  {mean: [0.3, 1.3, 2.3], variance: [0.5, 1.9, 3.4], grad_variance: [0.6, 1.5, 2.6],
                        covariance: [0.3, 1.6, 3.1], grad_covariance: [0.2, 1.1, 2.3]}
gelu:                  {mean: [0.1, 1.0, 2.4], variance: [0.2, 0.6, 1.3], grad_variance: [0.2, 0.6, 1.1],
                        covariance: [0.1, 0.5, 1.2], grad_covariance: [0.1, 0.4, 0.9]}
layer_norm:            {mean: [0, 0, 0], variance: [0, 0, 0], grad_variance: [0.4, 1.5, 3.2],
                        covariance: [0.1, 0.5, 1.0], grad_covariance: [0.2, 0.9, 2.2]}
dropout:               {mean: [0, 0.1, 0.5], variance: [0.1, 0.5, 1.5], grad_variance: [0.1, 0.7, 1.5],
                        covariance: [0, 0.4, 1.3], grad_covariance: [0.1, 0.5, 1.2]}
softmax:               {mean: [0, 0, 0], variance: [0.2, 0.9, 4.0], grad_variance: [0.1, 0.6, 4.5]}
single_head_attention: {mean: [0.2, 1.0, 2.5], variance: [1.4, 4.1, 7.8], grad_variance: [2.2, 13.3, 44.5],
                        covariance: [1.3, 3.9, 7.4], grad_covariance: [1.6, 4.5, 8.2]}
"""
"""Table 21, with the row that it names FFN as `linear`."""
PUBLISHED = yaml.safe_load(TABLE)

Random = np.random.Generator
Found = dict[str, tuple[float, float]]
"""For each column the formula's value and the simulated one, each over the simulated standard deviation for a mean."""


def uniform(random: Random, low: float, high: float) -> float:
    return float(random.uniform(low, high))


def log_uniform(random: Random, low: float, high: float) -> float:
    return math.exp(uniform(random, math.log(low), math.log(high)))


def spread(random: Random, mean: float = 0.0) -> Moments:
    return Moments(log_uniform(random, 0.1, 10), uniform(random, 0.05, 0.95), uniform(random, -mean, mean))


def seen(y: np.ndarray) -> Moments:
    """The moments of [sequences, tokens, channels], over all of it."""
    mean = float(y.mean())
    y, tokens = y - mean, y.shape[1]
    square = float((y**2).sum())
    shared = (float((y.sum(1) ** 2).sum()) - square) / (tokens - 1)
    return Moments.of(square / y.size, shared / y.size, mean)


def compared(forward: Moments, y: np.ndarray, backward: Moments, back: np.ndarray) -> Found:
    """The columns, from the formulas' moments and what was simulated."""
    y_seen, back_seen = seen(y), seen(back)
    size = math.sqrt(y_seen.variance)
    return {
        "mean": (1 + (forward.mean - y_seen.mean) / size, 1.0),
        "variance": (forward.variance, y_seen.variance),
        "covariance": (forward.covariance, y_seen.covariance),
        "grad_variance": (backward.variance, back_seen.variance),
        "grad_covariance": (backward.covariance, back_seen.covariance),
    }


def normal(random: Random, shape: tuple[int, int, int], x: Moments) -> np.ndarray:
    """[sequences, tokens, channels] of correlated tokens."""
    sequences, _, channels = shape
    common, own = random.normal(size=(sequences, 1, channels)), random.normal(size=shape)
    r = x.correlation
    return x.mean + math.sqrt(x.variance) * (math.sqrt(r) * common + math.sqrt(1 - r) * own)


def pairs(random: Random, *signals: Moments) -> list[np.ndarray]:
    """Pairs of tokens of each signal, [1, 2, points]."""
    points = qmc.MultivariateNormalQMC(np.zeros(2 * len(signals)), seed=random).random(2**17)
    drawn = []
    for each, u, v in zip(signals, points.T[::2], points.T[1::2], strict=True):
        r = each.correlation
        both = np.array([u, r * u + math.sqrt(1 - r * r) * v])
        drawn.append((each.mean + math.sqrt(each.variance) * both)[None])
    return drawn


def simulated_relu(random: Random) -> Found:
    x, g = spread(random), spread(random)
    u, v = pairs(random, x, g)
    return compared(relu(x), np.maximum(u, 0), relu_backward(g, x), v * (u > 0))


def simulated_gelu(random: Random) -> Found:
    x, g = spread(random), spread(random)
    u, v = pairs(random, x, g)
    y, slope = u / 2 * (1 + erf(u / math.sqrt(2))), norm.cdf(u) + u * norm.pdf(u)
    return compared(gelu(x), y, gelu_backward(g, x), v * slope)


def simulated_dropout(random: Random) -> Found:
    x, g, p = spread(random, mean=10.0), spread(random), int(random.integers(10)) / 10
    y, back = (dropped(u, p) for u in pairs(random, x, g))
    return compared(dropout(x, p), y, dropout_backward(g, p), back)


def dropped(u: np.ndarray, p: float) -> np.ndarray:
    """Pairs of tokens under two masks, each of which keeps 10(1-p) of 10 places, in all 100 combinations."""
    kept = (np.arange(10) < round(10 * (1 - p))) / (1 - p)
    masks = np.array([np.repeat(kept, 10), np.tile(kept, 10)])
    return (u[:, :, : 2**15, None] * masks[None, :, None]).reshape(1, 2, -1)


def products(y: np.ndarray) -> np.ndarray:
    """The mean square, and the mean product of two tokens."""
    return np.array([(y**2).mean(), (y[:, 0] * y[:, 1]).mean()])


def simulated_linear(random: Random) -> Found:
    """Many draws of weights, each with its negative, which has the same products and makes the mean exactly 0."""
    x, g = spread(random, mean=10.0), spread(random)
    d_in, d_out = (round(log_uniform(random, 50, 500)) for _ in range(2))
    variance = log_uniform(random, 1e-2, 1e2) / d_in
    u, v = normal(random, (32, 2, d_in), x), normal(random, (32, 2, d_out), g)
    draws = max(4, 20_000_000 // (d_in * d_out))
    y, back = np.zeros(2), np.zeros(2)
    for _ in range(draws):
        weight = math.sqrt(variance) * random.normal(size=(d_in, d_out))
        y += products(u @ weight) / draws
        back += products(v @ weight.T) / draws
    given, gradient = Moments.of(*(products(u) - x.mean**2), mean=x.mean), Moments.of(*products(v))
    forward, backward = linear(given, d_in, variance), linear_backward(gradient, d_out, variance)
    return {
        "mean": (1 + forward.mean / math.sqrt(y[0]), 1.0),  # the mean over a matrix and its negative is 0
        "variance": (forward.variance, y[0]),
        "covariance": (forward.covariance, y[1]),
        "grad_variance": (backward.variance, back[0]),
        "grad_covariance": (backward.covariance, back[1]),
    }


def simulated_layer_norm(random: Random) -> Found:
    x, g = spread(random, mean=10.0), spread(random)
    width = round(log_uniform(random, 100, 1000))
    shape = (500_000 // width, 2, width)
    u, v = normal(random, shape, x), normal(random, shape, g)
    size = u.std(-1, keepdims=True)
    y = (u - u.mean(-1, keepdims=True)) / size
    back = (v - v.mean(-1, keepdims=True) - y * (v * y).mean(-1, keepdims=True)) / size
    given, gradient = seen(u), seen(v)
    return compared(layer_norm(given, width), y, layer_norm_backward(gradient, given, width), back)


def simulated_softmax(random: Random) -> Found:
    x = Moments(log_uniform(random, 1e-4, 1), uniform(random, 0, 0.95))
    g, length = Moments(log_uniform(random, 0.1, 10), 0.0), round(log_uniform(random, 300, 3000))
    scores = normal(random, (2_000_000 // length, length, 1), x)[..., 0]
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    v = math.sqrt(g.variance) * random.normal(size=weights.shape)
    back = weights * (v - (weights * v).sum(-1, keepdims=True))
    found = softmax(x, length)
    return {
        "mean": (1 + (found.mean - weights.mean()) / weights.std(), 1.0),
        "variance": (found.variance, weights.var()),
        "grad_variance": (softmax_backward(g, x, length), (back**2).mean()),
    }


SEQUENCES = 24
BACK = attention_mean_backward
"""The formula of attention's gradient, in whose place the twin puts the published one."""


@dataclass(frozen=True)
class Head:
    """One head without value weights: what is in front of it and behind, forwards and backwards, [L, d] each."""

    x: np.ndarray
    y: np.ndarray
    g: np.ndarray
    back: np.ndarray

    @staticmethod
    def drawn(random: Random, x: Moments, g: Moments, shape: tuple[int, int, int], scores: float, p: float) -> Head:
        length, width, keys = shape
        u, v = (normal(random, (1, length, width), each)[0] for each in (x, g))
        u -= u.mean()
        weights = (scores / width**2) ** 0.25 * random.normal(size=(2, width, keys))
        q, k = u @ weights[0], u @ weights[1]
        clean = np.exp(q @ k.T / math.sqrt(keys))
        clean /= clean.sum(-1, keepdims=True)
        mask = (random.random(clean.shape) >= p) / (1 - p)
        of_weights = mask * (v @ u.T)
        of_scores = clean * (of_weights - (clean * of_weights).sum(-1, keepdims=True)) / math.sqrt(keys)
        back = (clean * mask).T @ v + of_scores @ k @ weights[0].T + of_scores.T @ q @ weights[1].T
        return Head(u, (clean * mask) @ u, v, back)


def simulated_attention(random: Random) -> Found:
    x = Moments(1.0, uniform(random, 0, 0.95))
    g = Moments(log_uniform(random, 0.1, 10), uniform(random, 0, 0.95))
    shape = (round(uniform(random, 300, 600)), round(log_uniform(random, 100, 400)), int(random.choice([32, 64, 128])))
    scores, p = log_uniform(random, 0.1, 1), uniform(random, 0, 0.5)
    totals: dict[str, np.ndarray] = {}
    for _ in range(SEQUENCES):
        head = Head.drawn(random, x, g, shape, scores, p)
        given, gradient = seen(head.x[None]), seen(head.g[None])
        forward = attention_mean(given, shape[0], shape[1], scores, p)
        backward = BACK(gradient, given, shape[0], shape[1], scores, p).whole
        for column, both in compared(forward, head.y[None], backward, head.back[None]).items():
            totals[column] = totals.get(column, 0.0) + np.array(both) / SEQUENCES
    return {column: (float(a), float(b)) for column, (a, b) in totals.items()}


SIMULATED: dict[str, Callable[[Random], Found]] = {
    "linear": simulated_linear,
    "relu": simulated_relu,
    "gelu": simulated_gelu,
    "layer_norm": simulated_layer_norm,
    "dropout": simulated_dropout,
    "softmax": simulated_softmax,
    "single_head_attention": simulated_attention,
}
SETTINGS = 60


def errors(component: str, settings: int) -> dict[str, np.ndarray]:
    """The percentage errors of a component's formulas, for each column of the table, by settings."""
    found = [SIMULATED[component](np.random.default_rng([settings, number])) for number in range(settings)]
    return {
        column: np.array([100 * abs(row[column][0] / row[column][1] - 1) for row in found])
        for column in PUBLISHED[component]
    }


def percentiles(component: str, settings: int) -> dict[str, list[float]]:
    return {
        column: [float(q) for q in np.percentile(e, PERCENTILES)] for column, e in errors(component, settings).items()
    }


def kept(found: dict[str, list[float]], component: str) -> list[str]:
    """The columns whose percentiles are all as small as published, to the digit that is printed."""
    return [
        column
        for column, limits in PUBLISHED[component].items()
        if all(q < limit + ROUNDED for q, limit in zip(found[column], limits, strict=True))
    ]
