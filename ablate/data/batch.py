"""Batches: what a model is given and is to predict, as a function of (seed, step), and evaluations of (seed, split).

The position in the data is the step: nothing is shuffled and no state is kept, so a resumed run needs no loader
state, and runs that share a seed see the same batches in the same order, whatever their model is.

A window is seq_len tokens and their targets, the seq_len tokens one position later. Windows never leave their
stream, so they never cross from one split into another; documents within a stream follow each other, each ended by
the separator, and windows may span several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ablate.data.sources import Split
from ablate.data.tokenizer import TokenBytes, Tokens
from ablate.data.uniform import drawn_places, philox
from ablate.errors import RefusedError

Tensors: TypeAlias = Tensor | tuple[Tensor, ...]

NO_TARGET: Final = -100  # the target of a position at which nothing is to be predicted


class Batch(NamedTuple):
    """Examples [B, …]: the `inputs` of a model, one tensor or several in the order of its arguments, and the `targets`
    of an objective, one or several as well.
    """

    inputs: Tensors
    targets: Tensors

    def each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with each of its tensors changed."""
        return Batch(changed(self.inputs, change), changed(self.targets, change))

    @property
    def examples(self) -> int:
        return len(first(self.inputs))


def changed(tensors: Tensors, change: Callable[[Tensor], Tensor]) -> Tensors:
    return change(tensors) if isinstance(tensors, Tensor) else tuple(change(tensor) for tensor in tensors)


def first(tensors: Tensors) -> Tensor:
    """The first of several tensors, or the only one."""
    return tensors if isinstance(tensors, Tensor) else tensors[0]


VERSION: Final = 1
"""The version of the batches and windows that are drawn: see `plan/versions.py`."""


@dataclass(frozen=True, eq=False)
class Batches:
    """Random access to batches of windows that start anywhere in a stream, drawn with replacement.

    Window b of step s starts at place b of `drawn_places`.

        tokens, targets = Batches(streams.train, seq_len=64, batch=16, seed=0).at(step=7)
    """

    stream: Tokens
    seq_len: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if len(self.stream) <= self.seq_len:
            raise RefusedError(
                f"data: a split of {len(self.stream):,} tokens is too short for a window of {self.seq_len} + 1. "
                "Add more text, or lower model.context."
            )

    def at(self, step: int) -> Batch:
        """Return the tokens [batch, time] of a step, and those one position later."""
        starts = drawn_places(self.seed, step, self.batch, len(self.stream) - self.seq_len)
        return Batch(*_windows(self.stream, starts, self.seq_len))


class Examples(NamedTuple):
    """The examples of an evaluation: `inputs` and `targets` as in a batch, and the bytes of text of all targets
    together (None if the targets do not come from text).
    """

    inputs: Tensors
    targets: Tensors
    bytes: int | None

    @property
    def batch(self) -> Batch:
        return Batch(self.inputs, self.targets)


def evaluation_windows(
    stream: Tokens, seq_len: int, windows: int, *, seed: int, split: Split, token_bytes: TokenBytes | None = None
) -> Examples:
    """Return the windows that every evaluation of a trial of `seed` uses, whatever its model is.

    Each seed has its own, so that an interval over seeds includes the choice of text: see `window_starts`.
    `token_bytes` are those of the stream's tokenizer; None if the stream does not come from text.
    Raises RefusedError if the stream is too short for that many windows side by side.
    """
    needed = windows * (seq_len + 1)
    if len(stream) < needed:
        raise RefusedError(
            f"data: a split of {len(stream):,} tokens does not hold {windows} windows of {seq_len} + 1 tokens, "
            f"{needed:,} in total. Add more text, hold out a larger share (data.tuning, data.verdict), "
            "or lower measure.evaluation.windows or model.context."
        )
    starts = window_starts(len(stream) - seq_len, windows, seed=seed, split=split)
    tokens, targets = _windows(stream, starts, seq_len)
    return Examples(tokens, targets, None if token_bytes is None else int(token_bytes[targets.numpy()].sum()))


def window_starts(places: int, windows: int, *, seed: int, split: Split) -> npt.NDArray[np.int64]:
    """Draw `windows` of `places` positions, stratified: one from each of as many equal cells, in order.

        start_i = ⌊places (i + u_i) / n⌋        i = 0 … n - 1,  u_i uniform on [0, 1), a word of Philox4x64 over 2^64

    For i drawn uniformly as well, (i + u_i) / n is uniform on [0, 1): over seeds, the mean of any quantity over the
    windows of one seed is unbiased for its mean over all positions, and its variance is no larger than without strata.
    The key of the random stream is a hash of the seed and the split's name alone, not of the model.

        Cochran 1977, "Sampling Techniques", Section 5.6
    """
    words = philox(f"evaluation windows/{seed}/{split}").random_raw(windows)
    cells = enumerate(words.tolist())  # Python integers, since the products exceed 64 bits
    return np.array([((i << 64) + word) * places // (windows << 64) for i, word in cells], dtype=np.int64)


def _windows(stream: Tokens, starts: npt.NDArray[np.int64], seq_len: int) -> tuple[Tensor, Tensor]:
    tokens = stream[starts[:, None] + np.arange(seq_len + 1)].astype(np.int64)
    windows = torch.from_numpy(np.asarray(tokens))
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
