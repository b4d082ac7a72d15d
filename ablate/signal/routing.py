"""Routing: what a mixture of experts makes of token kernels, by which tokens its router sends to the same experts.

With gains g_ie of token i for expert e, 0 for those not chosen, and experts f_e of independent weights and kernel F,

    y_i = Σ_e g_ie f_e(x_i)        Σ_ij = G_ij F_ij,  G_ij = E[Σ_e g_ie g_je]
    Γ at f_e is G ⊙ Γ summed over e        Γ at the router's logits is P ⊙ Γ ⊙ F, times d / E a logit
    P_ij = E[Σ_em (∂g_ie/∂r_im) (∂g_je/∂r_jm)]

Logits r are normal from token to token, of the router's kernel R [T, T], and independent from expert to expert. G and P
have no closed form for the k largest: they are means over `SAMPLES` draws of r, always the same ones.

    Shazeer et al. 2017, arXiv:1701.06538, Eq. 3 to 5 (gates, without noise). For gains g = softmax or sigmoid of r, and
    q what they are divided by: ∂g_e/∂r_m = g_e (δ_em - q_m) a_m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ablate.signal.propagation import Array

SAMPLES = 384
"""Draws of the logits of one sequence."""
SEED = 0


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
    r = np.einsum("ij,sje->sie", root, np.random.default_rng(SEED).normal(size=(SAMPLES, length, experts)))
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
    pairs = _sums(gains, gains)
    own = _mean(outer, outer) - _mean(outer * q, outer) - _mean(outer, outer * q)
    return Routing(pairs.mean(0), own + (pairs * _sums(q * inner, q * inner)).mean(0))


def _sums(a: Array, b: Array) -> Array:
    """Return the sums over experts of a_ie b_je, [samples, T, T]."""
    return np.asarray(a @ b.transpose(0, 2, 1))


def _mean(a: Array, b: Array) -> Array:
    return np.asarray(_sums(a, b).mean(0))
