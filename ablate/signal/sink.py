"""Sink: attention with one more key, whose score is a fixed number and whose value is 0.

    A_ij = exp(s_ij) / (e^b + Σ_m exp(s_im))

It is the attention of a longer sequence: the sink is a token behind the others, that all of them see, with a key and a
value of zeros, and what it would read itself is left out. So random attention is as without one.

    OpenAI 2025, arXiv:2508.10925, Sec. 2.2 (the sink); random attention: `attention_kernel.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ablate.signal.attention_kernel import at_zero_scores
from ablate.signal.mixing import Mixing
from ablate.signal.propagation import Array, Signal


def beside_a_sink(
    logit: float, biases: Sequence[Array], masks: Sequence[NDArray[np.bool_]], *, length: int, causal: bool
) -> Array:
    """Return attention at zero scores with a sink of that `logit` b as its last token, [1 or H, T + 1, T + 1]."""
    shown = masks or [np.tri(length, dtype=bool) if causal else np.ones((length, length), dtype=bool)]
    column = np.zeros((length + 1, length + 1))
    column[:length, length] = logit
    wider = [np.pad(bias, _more(bias)) for bias in biases]
    seen = [np.pad(mask, _more(mask)) for mask in shown]
    for mask in seen:
        mask[..., :, length] = True
    return at_zero_scores([*wider, column[None]], seen, length=length + 1, causal=False)


def attending_with_sink(
    values: Signal,
    queries: Signal,
    keys: Signal,
    uniform: Array,
    scale: float,
    mixing: Mixing,
    p: float = 0.0,
    groups: int = 1,
) -> Signal:
    """Mix values as `Signal.attending` does, beside a sink: `uniform` is that of `beside_a_sink`."""
    length = len(values.mean)
    more = np.eye(length + 1, length)
    asking = queries.mixed(more)
    asking.kernel[length, length] = queries.mean_square  # of what the sink would ask, on which nothing depends
    wide = values.mixed(more).attending(asking, keys.mixed(more), uniform, scale, mixing, p, groups)
    return wide.mixed(more.T)


def _more(array: NDArray[np.generic]) -> list[tuple[int, int]]:
    """Return the widths of a padding by one more row and column."""
    return [(0, 0)] * (array.ndim - 2) + [(0, 1), (0, 1)]
