"""Nearly normal numbers drawn by a key: the same bytes on every machine, since no logarithm or sine is computed."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ablate.data.uniform import philox

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
