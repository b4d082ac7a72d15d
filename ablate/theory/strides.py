"""Strides: what is behind every layer of a deep model, of which only a few are computed.

A state y behind a layer goes to F_l(y) behind the next. Where its increment δ_l = F_l(y) - y goes smoothly with depth,
it is a polynomial of l between a few layers, and y is its sum. A stride of h layers

    predicts    y_{l+h} from the last three increments,
    computes    two layers from there: what is forgotten from layer to layer is right behind them,
    corrects    by the sum of the polynomial that goes through the newest increment, too.

How far the correction is from the prediction says how long the next stride may be, and whether this one is taken
again with a shorter h. The first layers, the last one, and those where h comes down to 1, are computed one by one, ever
more of them in a row where the next stride fails, too; and a row goes on while increments come to rest. From there a
stride may be as long as any: what sways about a fixed point would grow from one stride to the next.

    Gear & Kevrekidis 2003, SIAM J. Sci. Comput. 24, "Projective methods for stiff differential equations".
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import nan
from typing import TypeAlias

import numpy as np

from ablate.signal.propagation import Array

Step: TypeAlias = Callable[[int, Array], Array]
"""From l and the state behind layer l to that behind layer l + 1."""

TOLERANCE = 2e-3
"""The most by which a number of a state may be corrected in a stride, over 1 + the size of its change in it."""
FIRST = 6
"""The layers that are computed one by one before the first stride."""
LONGEST = 32
"""The most layers that are computed one by one before a stride is tried again."""
LEAST, MOST = 2, 256
"""A stride jumps over at least and at most so many layers; shorter ones save nothing."""
LONGER, SHORTER = 1.8, 0.25
"""By how much a stride may differ from the one before."""
POINTS = 3
"""The increments that a polynomial goes through."""
FLAT = 1e-6
"""Increments that change by less are one: extrapolated as they are, they sway less."""
RESTS, FALLS = 1e-12, 0.9
"""Increments come to rest while what they change by is more than this, and falls to less than this part in a layer."""


@dataclass(frozen=True, slots=True)
class Strides:
    """The `states` behind layers 0, 1, …, [layers + 1, numbers], and the layers that were `computed`."""

    states: Array
    computed: frozenset[int]


def strides(step: Step, start: Array, layers: int, tolerance: float = TOLERANCE, cheap: Container[int] = ()) -> Strides:
    """Go through so many layers from the state `start`, [numbers], by strides where increments are smooth.

    A stride ends earlier, after half of its length at least, if the two steps from there are among the `cheap` ones.
    A state that is not finite is followed by layers that are computed one by one, as no stride holds from it.
    """
    states = np.empty((layers + 1, len(start)))
    states[0] = start
    computed = {0}
    known: list[tuple[int, Array]] = []
    layer, length, singly, wait, change = 0, float(LEAST), FIRST, 1, nan

    def both(end: int) -> bool:
        return end in cheap and end + 1 in cheap

    while layer < layers:
        jumped = min(int(length), layers - layer - 3)
        if layer < singly or jumped < LEAST or change > RESTS:
            states[layer + 1] = step(layer, states[layer])
            known.append((layer, states[layer + 1] - states[layer]))
            layer += 1
            computed.add(layer)
            change = _change(known)
            length = MOST if change <= RESTS else length
            continue
        jumped = next((h for h in range(jumped, max(jumped // 2, LEAST) - 1, -1) if both(layer + h)), jumped)
        points = 1 if np.abs(known[-1][1] - known[-2][1]).max() < FLAT else POINTS
        before = known[-points:]
        predicted = states[layer] + _sums(before, layer, jumped)[-1]
        first = step(layer + jumped, predicted)
        second = step(layer + jumped + 1, first)
        newest = (layer + jumped + 1, second - first)
        corrected = states[layer] + _sums([*before[1:], newest], layer, jumped)
        gap = corrected[-1] - predicted
        error = float((np.abs(gap) / (1 + np.abs(predicted - states[layer]))).max())
        factor = 0.9 * (tolerance / error) ** (1 / POINTS) if error else LONGER
        if not error <= tolerance:
            length = jumped * max(factor, SHORTER) if np.isfinite(error) else 0
            if length < LEAST:
                length, singly, wait = LEAST, layer + wait, min(2 * wait, LONGEST)
            continue
        states[layer + 1 : layer + jumped + 1] = corrected
        states[layer + jumped + 1], states[layer + jumped + 2] = first + gap, second + gap
        known.append(newest)
        layer += jumped + 2
        computed |= {layer - 1, layer}
        length, wait, change = min(max(jumped * min(factor, LONGER), LEAST), MOST), 1, nan
    return Strides(states, frozenset(computed))


def _change(known: Sequence[tuple[int, Array]]) -> float:
    """Return by how much increments last changed in a row of layers in which they come to rest; nan elsewhere."""
    if len(known) < POINTS or known[-1][0] - known[-POINTS][0] >= POINTS:
        return nan
    first, second, third = (increment for _, increment in known[-POINTS:])
    changed, before = float(np.abs(third - second).max()), float(np.abs(second - first).max())
    return changed if changed < max(FALLS * before, RESTS) else nan


def _sums(known: Sequence[tuple[int, Array]], layer: int, count: int) -> Array:
    """Return the sums of 1, 2, …, count increments from `layer` on, of the polynomial through those known."""
    places = np.arange(layer, layer + count, dtype=float)
    at, increments = np.array([place for place, _ in known], dtype=float), np.stack([each for _, each in known])
    basis = np.ones((len(at), count))
    for k, place in enumerate(at):
        for other in np.delete(at, k):
            basis[k] *= (places - other) / (place - other)
    return np.asarray(np.cumsum(basis, axis=1).T @ increments)
