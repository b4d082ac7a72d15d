"""Zero scores: attention where queries and keys have no say, the softmax of masks and biases alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


def softmax_of(
    biases: Sequence[Array], masks: Sequence[NDArray[np.bool_]], prescribed: Array | None, *, length: int, causal: bool
) -> Array:
    """Return the softmax of the sum of biases, [T, T] or [H, T, T], over the keys that all masks show, [1 or H, T, T].

    Without a mask a query sees the past and itself where `causal`, all keys elsewhere. A `prescribed` matrix [T, T] of
    positive entries gives its rows, divided by their sums, which the biases then weigh.
    """
    shown = np.tri(length, dtype=bool) if causal else np.ones((length, length), dtype=bool)
    for place, mask in enumerate(masks):
        shown = mask if place == 0 else shown & mask
    exponents = sum(biases, np.zeros((1, length, length)))
    weights = np.where(shown, np.exp(exponents - np.where(shown, exponents, -np.inf).max(-1, keepdims=True)), 0.0)
    if prescribed is not None:
        weights = weights * prescribed
    return np.asarray(weights / weights.sum(-1, keepdims=True))
