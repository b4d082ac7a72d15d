"""Batches as a function of (seed, step), and the windows of an evaluation as one of (seed, split).

The position in the data is the step: nothing is shuffled and nothing is remembered, so a resumed run needs no state of
a loader, and runs that share a seed see the same batches in the same order, whatever their model is.

A window is seq_len tokens and, one place on, the seq_len tokens that are to be predicted. Windows never leave their
stream, so never cross from one split into another; documents within a stream are one behind the other, each ended by
the separator, and windows may span them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int64
from torch import Tensor

from ablate.data.text import Split
from ablate.data.tokenizer import TokenBytes, Tokens
from ablate.errors import RefusedError

VERSION: Final = 1
"""Of the numbers of the batches and windows that are drawn: see `plan/versions.py`."""


@dataclass(frozen=True, eq=False)
class Batches:
    """Random access to batches of windows that start anywhere in a stream, drawn with replacement.

    Window b of step s starts at word b of the Philox4x64 stream with key (seed, s) (Salmon et al. 2011, "Parallel
    random numbers: as easy as 1, 2, 3"), modulo the number of places: raw words, which no release of NumPy changes.

        tokens, targets = Batches(streams.train, seq_len=64, batch=16, seed=0).at(step=7)
    """

    stream: Tokens
    seq_len: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if len(self.stream) <= self.seq_len:
            raise RefusedError(
                f"data: a split of {len(self.stream):,} tokens holds no window of {self.seq_len} + 1. "
                "Name more text, or lower model.context."
            )

    def at(self, step: int) -> tuple[Int64[Tensor, "batch time"], Int64[Tensor, "batch time"]]:
        """The tokens of a step, and what is to be predicted at each."""
        words = np.random.Philox(key=np.array([self.seed, step], dtype=np.uint64)).random_raw(self.batch)
        places = len(self.stream) - self.seq_len  # the bias of the remainder is below places / 2**64
        return _windows(self.stream, (words % np.uint64(places)).astype(np.int64), self.seq_len)


class Windows(NamedTuple):
    """The windows of an evaluation: `tokens`, what is to be predicted at each (`targets`), and how many bytes of text
    all targets together stand for; None where no text stands behind them.
    """

    tokens: Int64[Tensor, "windows time"]
    targets: Int64[Tensor, "windows time"]
    bytes: int | None


def evaluation_windows(
    stream: Tokens, seq_len: int, windows: int, *, seed: int, split: Split, token_bytes: TokenBytes | None = None
) -> Windows:
    """The windows that a trial of `seed` is evaluated on, every time and whatever its model is.

    Another seed has other ones, so that what varies over seeds holds the choice of text, too: were all seeds evaluated
    on the same windows, an interval over seeds would be about those windows alone. They are drawn by `window_starts`
    over all places of the stream, which is named `split`. `token_bytes` are those of its tokenizer; None where the
    stream is of no text.

    Raises RefusedError when the stream is too short for that many beside each other.
    """
    needed = windows * (seq_len + 1)
    if len(stream) < needed:
        raise RefusedError(
            f"data: a split of {len(stream):,} tokens does not hold {windows} windows of {seq_len} + 1 tokens, "
            f"{needed:,} together. Name more text, hold out a larger share (data.tuning, data.verdict), "
            "or lower measure.evaluation.windows or model.context."
        )
    starts = window_starts(len(stream) - seq_len, windows, seed=seed, split=split)
    tokens, targets = _windows(stream, starts, seq_len)
    return Windows(tokens, targets, None if token_bytes is None else int(token_bytes[targets.numpy()].sum()))


def window_starts(places: int, windows: int, *, seed: int, split: Split) -> npt.NDArray[np.int64]:
    """A stratified draw of `windows` of so many places: one from each of as many equal cells, in order.

        start_i = ⌊places (i + u_i) / n⌋        i = 0 … n - 1,  u_i uniform on [0, 1), a word of Philox4x64 over 2^64

    For i drawn as well (i + u_i) / n is uniform on [0, 1): the mean of anything over the windows of one seed is, over
    seeds, unbiased for its mean over all places, and varies no more than over windows drawn without cells. The stream's
    key is a hash of the seed and the split's name, and of nothing of the model.

        Cochran 1977, "Sampling Techniques", Section 5.6
    """
    key = hashlib.sha256(f"evaluation windows/{seed}/{split}".encode()).digest()[:16]
    words = np.random.Philox(key=np.frombuffer(key, dtype="<u8").astype(np.uint64)).random_raw(windows)
    cells = enumerate(words.tolist())  # whole numbers of Python, since the products are beyond 64 bits
    return np.array([((i << 64) + word) * places // (windows << 64) for i, word in cells], dtype=np.int64)


def _windows(stream: Tokens, starts: npt.NDArray[np.int64], seq_len: int) -> tuple[Tensor, Tensor]:
    found = stream[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64)
    windows = torch.from_numpy(np.asarray(found))
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
