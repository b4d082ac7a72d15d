"""Fixed points: where the correlation of tokens comes to rest in a deep Post-LN model, and how fast.

With C₁ and C₂ the mean squares that attention of equal tokens and the MLP (ReLU) give of a stream of mean square 1, and
dropout p, one layer maps the correlation r of tokens to F(r):

    m(r) = (1 - p) (r + (√(1 - r²) - r acos r) / π)                                   what the MLP gives
    s    = (r + C₁ r (1 - p)) / (1 + C₁ r),     F(r) = (s + C₂ m(s)) / (1 + C₂)       attention, then MLP, with skips

`resting_correlation` is r = F(r), and `approach` F'(r): the share of the distance to it that a layer leaves, so that it
falls as F'(r)^l. Without dropout it is 1, rank collapse. The paper weighs outputs alone, and attention by C₁, as of
tokens that are equal:

    (C₁ + C₂) r = C₁ (1 - p) + C₂ m(r)                     (C₁ + C₂) ρ = C₁ (1 - p) + C₂ (1 - p) (1/2 + asin(r) / π) ρ

for tokens and for their gradients: `published_correlation`, `published_gradient_correlation`. All are of many tokens.

    Kedia et al. 2024, arXiv:2403.09635, App. F (its m(r) is a parabola near this one); Table 2 for C₁ and C₂.
"""

from __future__ import annotations

from collections.abc import Callable
from math import asin, pi

import numpy as np
from scipy.optimize import brentq

from ablate.errors import InputError
from ablate.signal import moments
from ablate.signal.moments import Moments, add_skip, mlp

STEP = 1e-6  # the step over which the slope of F is taken, to the side where it is known


def resting_correlation(attention: float, mlp: float, p: float) -> float:
    """Return the least r = F(r), to which tokens that are less alike come; InputError as `_check` says.

    >>> resting_correlation(2.2, 0.4, 0.0)
    1.0
    >>> round(resting_correlation(2.2, 0.4, 0.1), 3)
    0.866
    """
    _check(attention, mlp, p)
    return _first_root(lambda r: layer_correlation(r, attention, mlp, p) - r)


def approach(attention: float, mlp: float, p: float) -> float:
    """F'(r) where tokens come to rest: each layer leaves this share of their distance from there."""
    r = resting_correlation(attention, mlp, p)
    below = layer_correlation(r - STEP, attention, mlp, p)
    return (layer_correlation(r, attention, mlp, p) - below) / STEP


def layer_correlation(r: float, attention: float, mlp: float, p: float) -> float:
    """F(r): the correlation of tokens behind a layer, for that in front of it."""
    attended = add_skip(Moments(1.0, r), moments.attention(Moments(1.0, r), attention * (1 - p), p), 1.0, 1.0)
    x = Moments(1.0, attended.correlation)
    return add_skip(x, moments.mlp(x, mlp * (1 - p), p), 1.0, 1.0).correlation


def published_correlation(attention: float, mlp: float, p: float) -> float:
    """Return r of App. F: 0.88 at Xavier's C₁ = 2.2 and C₂ = 0.4, and p = 0.1.

    >>> round(published_correlation(2.2, 0.4, 0.1), 3)
    0.886
    """
    _check(attention, mlp, p)
    both = attention + mlp
    return _first_root(lambda r: (attention * (1 - p) + mlp * _through_mlp(r, p)) / both - r)


def published_gradient_correlation(attention: float, mlp: float, p: float) -> float:
    """Return ρ of App. F, in closed form for its r: 0.87 there.

    >>> round(published_gradient_correlation(2.2, 0.4, 0.1), 3)
    0.863
    """
    r = published_correlation(attention, mlp, p)
    return attention * (1 - p) / (attention + mlp - mlp * (1 - p) * (1 / 2 + asin(r) / pi))


def _through_mlp(r: float, p: float) -> float:
    """m(r)."""
    return mlp(Moments(1.0, r), 1.0, p).correlation


def _first_root(rest: Callable[[float], float]) -> float:
    """The first zero, on the way to 1, of a function that is above 0 at 0; 1 if there is none before."""
    places = np.linspace(0, 1, 201)[:-1]
    for low, high in zip(places, [*places[1:], 1 - 1e-9], strict=True):
        if rest(high) < 0:
            return float(brentq(rest, low, high, xtol=1e-14))
    return 1.0


def _check(attention: float, mlp: float, p: float) -> None:
    """Raise InputError unless both strengths are above 0 and p is from 0 to below 1."""
    if not (attention > 0 and mlp > 0 and 0 <= p < 1):
        raise InputError(
            f"attention of strength {attention:g} and an MLP of {mlp:g} with dropout {p:g} have no such fixed point\n"
            "  = choose strengths above 0, and a dropout from 0 to below 1"
        )
