"""Sensitivity: by how much the output changes if the stream, or the weights of a layer, are changed a little.

    stream    S_l = (g_l q_l) / (g_L q_L)      q the mean square of the stream, g that of its gradient, behind layer l
    weights   w_l = 1 - tr(J_l Σ_{l-1} J_lᵀ) / tr Σ_l          J_l = E[∂x_l/∂x_{l-1}]: `InitialModel.fresh`
    model     N · median_l w_l                                  the mean instead, after Davis et al.

A change of the stream behind layer l that is independent from entry to entry, ε² of its mean square, changes that
behind the last by S_l ε² of its own. Weights of layer l that are drawn anew change the stream behind it by 2 w_l of
its mean square: w_l is the share of it that the layer has written. Beside a skip of 1, a branch of mean square β² has
written β² / q_l, which is the paper's; of N layers together it is O(1) in Pre-LN, and k N^{1-α} where β² = k / N^α.

    Kedia et al. 2024, arXiv:2403.09635, Sec. 4.6 (sensitivity, its median over layers); Davis et al. 2021, ICML
    (Catformer); gradients of weights that are independent of the way back, as in `models.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from statistics import fmean, median

from ablate.theory.initial_state import InitialModel


def stream_sensitivities(forecast: InitialModel) -> tuple[float, ...]:
    """Return S_0 to S_L, of which the last is 1; NaN where the stream or its gradient ends as zeros."""
    last = forecast.streams[-1].gradient * forecast.streams[-1].mean_square
    return tuple(stream.gradient * stream.mean_square / last if last else nan for stream in forecast.streams)


def model_sensitivity(weights: Sequence[float]) -> tuple[float, float]:
    """Return N times the median of w_l over N layers, and N times their mean.

    >>> model_sensitivity([0.5, 0.1, 0.1])
    (0.30000000000000004, 0.7)
    """
    return len(weights) * median(weights), len(weights) * fmean(weights)
