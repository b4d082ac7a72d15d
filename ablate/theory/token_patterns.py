"""Token patterns: random sequences of which two tokens are the same with a given chance, for a block without a text.

Tokens are independent. All 1/r kinds, rounded up, are equally likely but one, which is likelier, so that Σ p² = r. A
forecast is over a few sequences; `READ` is how many others a sampled initialisation of a block reads at once.
"""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

READ = 8
SHALLOW, PATTERNS, OF_DEEP = 8, 8, 4
"""Up to how many layers a forecast is over so many sequences; that of a deeper one, which takes longer, over fewer."""
FORECAST, SAMPLED = 0, 1
"""What sequences are for, which are drawn apart."""
SOURCE = 2
"""Added to what they are for, of those that an encoder reads."""


def draw_tokens(
    repetition: float | None, vocab_size: int, length: int, count: int, of: int, seed: int = 0
) -> npt.NDArray[np.int64]:
    """Return sequences of random tokens, [count, length]; without a repetition they are of all kinds that there are."""
    p = probabilities(repetition, vocab_size)
    return np.random.default_rng((of, seed)).choice(len(p), (count, length), p=p)


def patterns(layers: int) -> int:
    """Return how many sequences a forecast of so many layers is over."""
    return PATTERNS if layers <= SHALLOW else OF_DEEP


def probabilities(repetition: float | None, vocab_size: int) -> npt.NDArray[np.float64]:
    """Return how likely each kind of token is, so that two are the same with the chance `repetition`, if it can be.

    >>> probabilities(0.5, 10), probabilities(0.68, 10)
    (array([0.5, 0.5]), array([0.2, 0.8]))
    """
    if not repetition or repetition * vocab_size <= 1:
        return np.full(vocab_size, 1 / vocab_size)
    kinds = ceil(round(1 / repetition, 9))
    likeliest = (1 + sqrt(max((kinds - 1) * (kinds * repetition - 1), 0.0))) / kinds
    rest = (1 - likeliest) / max(kinds - 1, 1)
    return np.array([*[rest] * (kinds - 1), likeliest]).round(15)
