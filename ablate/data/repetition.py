"""Repetition: how often two tokens of one sequence are the same, which is the correlation of their embeddings.

    r = mean over windows of  Σ_i N_i (N_i - 1) / (L (L - 1))        N_i: how often token i stands in the window of L

    Kedia et al. 2024, arXiv:2403.09635, App. A.1. Independent tokens that follow Zipf's law give π²/(6 ln² V).

It is counted in windows of the training split that are evenly spaced from its start and do not overlap: at most
`WINDOWS` of them and `TOKENS` tokens. So it is a function of the corpus and of L alone. The result is cached beside the
token streams.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ablate.block.catalogue import Catalogue
from ablate.data.cache import keep, kept
from ablate.data.corpus import corpus_of
from ablate.data.streams import fingerprint, prepare
from ablate.data.tokenizer import Tokens
from ablate.errors import RefusedError
from ablate.space.documents import Data, Document

WINDOWS = 1024
TOKENS = 2**22


class Repetition(Document):
    """The mean repetition over `windows` windows of `seq_len` tokens."""

    seq_len: int
    windows: int
    value: float


def measure_repetition(
    data: Data, folder: Path, cache: Path, seq_len: int, catalogue: Catalogue | None = None, known: str | None = None
) -> Repetition:
    """Measure the repetition in windows of `seq_len` tokens of a corpus's training split.

    Quick if it was measured before and the corpus is unchanged; its files are not looked at where its fingerprint is
    `known`. Raises RefusedError as `prepare` does, and if the split holds no window of two tokens.
    """
    if corpus_of(data, catalogue).layout(data.corpus.settings) is not None:
        raise RefusedError(
            f"data: a block uses repetition, which is how often tokens of a text repeat, and corpus {data.corpus.name} "
            "is no text\n  = write a number in its place, or choose a corpus of text"
        )
    mark, counted = known or fingerprint(data, folder, cache, catalogue).fingerprint, f"repetition-{seq_len}"
    if (before := kept(cache, f"{mark}.{counted}", Repetition)) is not None:
        return before
    streams = prepare(data, folder, cache, catalogue)
    measured = repetition(streams.train, seq_len)
    keep(cache, f"{streams.fingerprint}.{counted}", measured)
    return measured


def repetition(stream: Tokens, seq_len: int) -> Repetition:
    """Measure repetition in evenly spaced windows of a stream; RefusedError if there is none of two tokens or more."""
    windows = evenly_spaced(stream, seq_len)
    pairs = sum(equal_pairs(window) for window in np.sort(windows, axis=1))
    return Repetition(seq_len=seq_len, windows=len(windows), value=pairs / (len(windows) * seq_len * (seq_len - 1)))


def evenly_spaced(stream: Tokens, seq_len: int) -> Tokens:
    """Return the windows that repetition is counted in, [windows, seq_len]; RefusedError as `repetition` raises it."""
    windows = min(WINDOWS, max(1, TOKENS // seq_len), len(stream) // seq_len)
    if windows < 1 or seq_len < 2:
        raise RefusedError(
            f"data: repetition is counted in windows of {seq_len} tokens, and a training split of "
            f"{len(stream):,} has none with two tokens. Add more text, or change model.context to 2 or more."
        )
    starts = np.arange(windows) * (len(stream) // windows)
    return np.asarray(stream[starts[:, None] + np.arange(seq_len)])


def equal_pairs(window: Tokens) -> int:
    """Compute Σ_i N_i (N_i - 1) over a sorted window: ordered pairs of positions with the same token."""
    ends = np.flatnonzero(np.diff(window)) + 1
    counts = np.diff(np.concatenate(([0], ends, [len(window)])))
    return int((counts * (counts - 1)).sum())
