"""Input kernels: how alike what a model reads at two places is, for data that are no text.

    K_ij = mean over examples of x_i · x_j / F        x_i the F numbers of a patch, of all features, or of a frame
    R_ij = share of examples whose decoder is given the same token at i and j

Values are standardised, and whitened, as a model is given them; frames that are not there are 0, and count as such. A
decoder is given its target one token earlier, behind a token of its own, and one that fills up behind its end. Counted
are at most `EXAMPLES` examples of the training split, evenly spaced. A forecast begins with both
(`theory/embedding.py`). They are cached beside the streams, so that neither examples nor files are read again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ablate.block.catalogue import Catalogue
from ablate.data.cache import keep_numbers, kept_numbers
from ablate.data.streams import TokenStreams, fingerprint, prepare
from ablate.space.documents import Data

EXAMPLES = 512
START, FILLED, NONE = -1, -2, -3
"""What stands for the token before a target, for those behind its end, and for what is missing of a target."""

Floats = npt.NDArray[np.float64]


def measure_inputs(
    data: Data, folder: Path, cache: Path, patch: int | None, catalogue: Catalogue, known: str | None = None
) -> Floats:
    """Return K, [P, P]: of images in patches of that side, of whole images (None), or of frames.

    Quick if it was measured before and the corpus is unchanged; its files are not looked at where its fingerprint is
    `known`. Raises RefusedError as `prepare` does.
    """

    def of(streams: TokenStreams) -> Floats:
        records = streams.records("train")
        assert streams.standard is not None
        values = streams.standard(records, _chosen(len(records))).astype(np.float64)
        return kernel_of(values if records.layout.kind == "frames" else patches_of(values, patch))

    return _measured(f"inputs-{patch or 'whole'}-{EXAMPLES}", of, data, folder, cache, catalogue, known)


def measure_targets(
    data: Data, folder: Path, cache: Path, length: int, catalogue: Catalogue, known: str | None = None
) -> Floats:
    """Return R, [T, T], of targets that are sequences of tokens; else as `measure_inputs`."""

    def of(streams: TokenStreams) -> Floats:
        records = streams.records("train")
        return same_tokens(given_tokens(records.targets(_chosen(len(records)), NONE), length))

    return _measured(f"targets-{length}-{EXAMPLES}", of, data, folder, cache, catalogue, known)


def _measured(
    counted: str,
    of: Callable[[TokenStreams], Floats],
    data: Data,
    folder: Path,
    cache: Path,
    catalogue: Catalogue,
    known: str | None,
) -> Floats:
    """Return a square kernel of streams, kept beside them under what was `counted`."""
    numbers = kept_numbers(cache, f"{known or fingerprint(data, folder, cache, catalogue).fingerprint}.{counted}")
    if numbers is None:
        streams = prepare(data, folder, cache, catalogue)
        numbers = of(streams)
        keep_numbers(cache, f"{streams.fingerprint}.{counted}", numbers)
    side = isqrt(numbers.size)
    return numbers.reshape(side, side)


def patches_of(images: Floats, side: int | None) -> Floats:
    """Return patches of images [N, C, H, W], row by row, [N, P, F]; all numbers as one without a side."""
    count, channels, height, width = images.shape
    if side is None:
        return images.reshape(count, 1, -1)
    cut = images.reshape(count, channels, height // side, side, width // side, side)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(count, (height // side) * (width // side), -1)


def kernel_of(values: Floats) -> Floats:
    """Return the mean over examples of x xᵀ / F, [P, P], of values [N, P, F].

    >>> kernel_of(np.array([[[1.0, 1.0], [2.0, 0.0]]]))
    array([[1., 1.],
           [1., 2.]])
    """
    flat = values.transpose(1, 0, 2).reshape(values.shape[1], -1)
    return np.asarray(flat @ flat.T / (len(values) * values.shape[2]))


def given_tokens(targets: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """Return what a decoder of so many tokens is given of targets [N, n], [N, T].

    >>> given_tokens(np.array([[5, 7, NONE, NONE]]), 4)
    array([[-1,  5, -2, -2]])
    """
    whole = np.full((len(targets), length), NONE)
    whole[:, : targets.shape[1]] = targets[:, :length]
    given = np.full_like(whole, START)
    given[:, 1:] = whole[:, :-1]
    return np.where(whole == NONE, FILLED, given)


def same_tokens(tokens: npt.NDArray[np.int64]) -> Floats:
    """Return the share of sequences [N, T] with the same token at two places, [T, T]."""
    same = np.zeros((tokens.shape[1],) * 2)
    for sequence in tokens:
        same += sequence[:, None] == sequence
    return same / len(tokens)


def _chosen(examples: int) -> npt.NDArray[np.int64]:
    count = min(EXAMPLES, examples)
    return np.arange(count) * (examples // count)
