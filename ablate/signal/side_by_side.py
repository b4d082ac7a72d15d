"""Signals side by side: as more channels, as more tokens, or added up, with what they have in common.

Signals x_a of one root of kernel K, of which x_a is J_a · root on average, have the joint kernel

    Σ_aa = Σ_a        Σ_ab = J_a K J_bᵀ        and Γ at the root is Σ_a back_a(Γ_aa) + Σ_{a≠b} J_aᵀ Γ_ab J_b

so that a weighted sum of them is a mixing of the tokens of one longer sequence, x_1 … x_n one behind the other.

    As in `propagation.py`, of which these are the forks whose paths do not end in a plain sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from ablate.signal.attention_start import joined
from ablate.signal.finite_width import added
from ablate.signal.propagation import Array, Signal


def concatenated(signals: Sequence[Signal], widths: Sequence[int]) -> Signal:
    """Concatenate channels, as many of each signal as its width says: Σ is the mean of theirs by width.

    A channel of any of them has the gradient kernel Γ. What reads them all by independent weights reads them apart, so
    that what they have in common does not count; J is 0 behind it, and here.
    """
    shares = [width / sum(widths) for width in widths]
    kernel = sum((share * x.kernel for share, x in zip(shares, signals, strict=True)), np.zeros_like(signals[0].kernel))
    mean = sum((share * x.mean for share, x in zip(shares, signals, strict=True)), np.zeros_like(signals[0].mean))

    def backward(gradient: Array) -> Array:
        return sum((x.backward(gradient) for x in signals[1:]), signals[0].backward(gradient))

    parts = [(x.scatter, share * x.kernel) for share, x in zip(shares, signals, strict=True)]
    return Signal(
        kernel,
        mean,
        None,
        backward,
        width=sum(widths),
        scatter=added(parts, [0.0] * len(parts), kernel, inf),
        attention=joined(*(x.attention for x in signals)),
    )


def stacked(signals: Sequence[Signal], root: Array) -> Signal:
    """Put the tokens of signals of one root, of kernel `root` [R, R], one behind the other: Σ is [n T, n T]."""
    length, across = len(signals[0].mean), len(root)
    maps = [_full(x.transfer, length, across) for x in signals]
    transfer = np.concatenate(maps)
    kernel = transfer @ root @ transfer.T
    places = [slice(place * length, (place + 1) * length) for place in range(len(signals))]
    for at, x in zip(places, signals, strict=True):
        kernel[at, at] = x.kernel

    def backward(gradient: Array) -> Array:
        apart = gradient.copy()
        arrived = np.zeros((across, across))
        for at, x in zip(places, signals, strict=True):
            apart[at, at] = 0
            arrived = arrived + x.backward(gradient[at, at])
        return np.asarray(arrived + transfer.T @ apart @ transfer)

    parts = [(x.scatter, x.kernel) for x in signals]
    scatter = added(parts, [0.0] * len(parts), kernel, inf)
    mean = np.concatenate([x.mean for x in signals])
    attention = joined(*(x.attention for x in signals))
    return Signal(kernel, mean, transfer, backward, width=signals[0].width, scatter=scatter, attention=attention)


def part_of(whole: Signal, place: int, length: int) -> Signal:
    """Return the signal at a place of those that were stacked, each of `length` tokens."""
    rows = np.zeros((length, len(whole.mean)))
    rows[:, place * length : (place + 1) * length] = np.eye(length)
    return whole.mixed(rows)


def _full(transfer: Array | None, length: int, across: int) -> Array:
    """Return J as a matrix [T, R]; a diagonal one is that of the first T tokens of the root."""
    full = np.zeros((length, across))
    if transfer is not None and transfer.ndim == 1:
        full[:, :length] = np.diag(transfer)
    elif transfer is not None:
        full[:, : transfer.shape[1]] = transfer
    return full
