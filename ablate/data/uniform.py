"""Numbers drawn by a key: the same on every machine, whatever the release of NumPy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt


def philox(key: str) -> np.random.Philox:
    """Return the Philox4x64 stream whose key is a hash of a text (Salmon et al. 2011).

    Of it, only raw words are used: no release of NumPy changes them.
    """
    digest = hashlib.sha256(key.encode()).digest()[:16]
    return np.random.Philox(key=np.frombuffer(digest, dtype="<u8").astype(np.uint64))


@dataclass
class Uniform:
    """Draws numbers that are uniform on [0, 1), one array after another, from the stream of a key.

    The stream is made only when the first are drawn, so that a key without draws costs nothing.
    """

    key: str
    _stream: np.random.Philox | None = field(init=False, default=None)

    def __call__(self, *shape: int) -> npt.NDArray[np.float64]:
        """Return an array of that shape: multiples of 2⁻⁵³."""
        self._stream = self._stream or philox(self.key)
        words: npt.NDArray[np.uint64] = self._stream.random_raw(int(np.prod(shape)))
        return (words >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53


def drawn_places(seed: int, step: int, number: int, places: int) -> npt.NDArray[np.int64]:
    """Draw so many of `places` for a step, with replacement: raw words, which no release of NumPy changes.

    place_b = word_b mod places        word_b: of the Philox4x64 stream with key (seed, step)

    The bias of the remainder is below places / 2^64.

        Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"
    """
    words = np.random.Philox(key=np.array([seed, step], dtype=np.uint64)).random_raw(number)
    return (words % np.uint64(places)).astype(np.int64)


# Nearly normal numbers drawn by a key: the same bytes on every machine, since no logarithm or sine is computed.

LEVELS: Final = 2**16


def bell(key: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return numbers of mean 0 and variance 1, sums of four uniform ones: the four 16-bit parts of a word.

        x = √3 (Σ_k u_k - 2 (2¹⁶ - 1)) / √(2³² - 1)        u_k uniform on 0 … 2¹⁶ - 1, of variance (2³² - 1)/12

    Their kurtosis is 2.7, where a normal one's is 3.
    """
    words = philox(key).random_raw(int(np.prod(shape)))
    parts = [((words >> np.uint64(shift)) & np.uint64(LEVELS - 1)).astype(np.int64) for shift in (0, 16, 32, 48)]
    centred = parts[0] + parts[1] + parts[2] + parts[3] - 2 * (LEVELS - 1)
    return np.asarray(centred / np.sqrt((LEVELS**2 - 1) / 3), dtype=np.float64).reshape(shape)
