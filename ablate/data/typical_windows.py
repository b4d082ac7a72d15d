"""Typical windows: a few windows of a text that repeat their tokens as all of its windows do.

The windows that `repetition.py` counts in are ordered by how much they repeat and parted into as many parts of equal
size as windows are asked for. Of each part the window whose repetition is nearest to the mean of the part is taken, the
first of several. Their mean repetition is so near to that of the text, and they differ from each other as windows do,
which a mean over windows forgets: of two tokens that are the same with chance r no pair is half the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ablate.block.catalogue import Catalogue
from ablate.data.cache import keep, kept
from ablate.data.repetition import equal_pairs, evenly_spaced
from ablate.data.streams import fingerprint, prepare
from ablate.data.tokenizer import Tokens
from ablate.space.documents import Data, Document

Windows = npt.NDArray[np.int64]


class _Windows(Document):
    """Tokens of the windows, from the one that repeats the least."""

    tokens: tuple[tuple[int, ...], ...]


def typical_windows(
    data: Data,
    folder: Path,
    cache: Path,
    seq_len: int,
    count: int,
    catalogue: Catalogue | None = None,
    known: str | None = None,
) -> Windows:
    """Return `count` typical windows of a training split, or all where there are fewer, [count, seq_len].

    Quick if they were looked for before and the corpus is unchanged; its files are not looked at where its fingerprint
    is `known`. Raises RefusedError as `measure_repetition` does.
    """
    mark, looked_for = known or fingerprint(data, folder, cache, catalogue).fingerprint, f"windows-{seq_len}-{count}"
    if (before := kept(cache, f"{mark}.{looked_for}", _Windows)) is not None:
        return np.array(before.tokens)
    streams = prepare(data, folder, cache, catalogue)
    windows = of_stream(streams.train, seq_len, count)
    found = _Windows(tokens=tuple(tuple(map(int, window)) for window in windows))
    keep(cache, f"{streams.fingerprint}.{looked_for}", found)
    return windows


def of_stream(stream: Tokens, seq_len: int, count: int) -> Windows:
    """Return typical windows of a stream, [count, seq_len]; RefusedError if it has none of two tokens or more."""
    windows = evenly_spaced(stream, seq_len)
    pairs = np.array([equal_pairs(np.sort(window)) for window in windows])
    parts = np.array_split(np.argsort(pairs, kind="stable"), min(count, len(windows)))
    chosen = [part[np.argmin(np.abs(pairs[part] - pairs[part].mean()))] for part in parts]
    return windows[chosen].astype(np.int64)
