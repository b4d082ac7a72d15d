"""Normality of the stream: how nearly normal are the activations, as theories of signal propagation assume?

    R² = corr(x_(1..N), q_(1..N))²        q_i = Φ⁻¹((i - 1/2) / N)        x_(i) the i-th smallest of N entries of X

The squared correlation of the quantile-quantile plot: 1 if the entries are spaced as those of a normal distribution
are, whatever its mean and variance; NaN if all are equal. The paper does not say how its R² is fitted: this fit is our
choice. Of more than 65 536 entries each k-th is read in the order of tokens and then neurons, for the smallest k that
leaves no more than that and has no factor in common with the width, so that every neuron is among them.

    Kedia et al. 2024, App. L, arXiv:2403.09635
    Filliben 1975, The Probability Plot Correlation Coefficient Test for Normality, Technometrics 17 (1)
"""

from __future__ import annotations

from typing import Final

from ablate.probes.declare import implements, metric, probe

MOST: Final = 1 << 16  # the most entries that are sorted

SOURCE: Final = "Kedia et al. 2024, App. L, arXiv:2403.09635"


@probe("normality", reads="stream", sites=True, source=SOURCE, version=1)
class Normality:
    normality = metric(
        "R^2 of the normal quantile-quantile plot of the stream: squared correlation of the sorted entries with the "
        "normal quantiles of (i - 1/2) / N, over the tokens and neurons of the batch jointly, or of more than 65536 "
        "entries each k-th, k the smallest that leaves no more and is coprime to the width; 1 at most, for a normal "
        "distribution",
        SOURCE,
        at_most=1.0,
        better="none",
    )


import math

import torch
from jaxtyping import Float
from torch import Tensor


@implements(Normality)
def normality(x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    return {"normality": straightness(x)}


def straightness(x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    entries = x.flatten()[:: stride(*x.shape)].sort().values
    ranks = torch.arange(1, len(entries) + 1, dtype=entries.dtype, device=entries.device)
    quantiles = torch.special.ndtri((ranks - 0.5) / len(entries))
    entries, quantiles = entries - entries.mean(), quantiles - quantiles.mean()
    squared: Tensor = (entries @ quantiles).square() / (entries.square().sum() * quantiles.square().sum())
    return squared


def stride(tokens: int, width: int) -> int:
    """The smallest step through the entries that reads at most MOST of them, and every neuron."""
    step = max(1, -(-tokens * width // MOST))
    while math.gcd(step, width) > 1:
        step += 1
    return step
