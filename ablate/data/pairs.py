"""Batches of pairs: drawn by (seed, step), those of an evaluation by (seed, split), and what a decoder reads of them.

They are drawn as windows are (`batch.py`), from pairs in the place of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from ablate.block.sizes import Sizes
from ablate.data.batch import NO_TARGET, Batch, Examples, window_starts
from ablate.data.pair_stream import Pairs
from ablate.data.sources import Split
from ablate.data.tokenizer import TokenBytes, Tokens
from ablate.data.uniform import drawn_places
from ablate.errors import RefusedError

VERSION: Final = 1
"""The version of the pairs that are drawn: see `plan/versions.py`."""


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Random access to batches of pairs, drawn with replacement.

    Pair b of step s is place b of `drawn_places`.

        batch = PairBatches(Pairs(streams.train, 0), source_length=256, target_length=32, batch=16, seed=0).at(step=7)

    A batch has sources and targets, each a pair of tokens [batch, time] and lengths [batch]. Each text ends with the
    separator. What is longer than its length is cut off there; what is shorter is filled up with the separator, so that
    its end is told by the lengths.
    """

    pairs: Pairs
    source_length: int
    target_length: int
    batch: int
    seed: int

    def at(self, step: int) -> Batch:
        chosen = drawn_places(self.seed, step, self.batch, len(self.pairs)).tolist()
        return _batch(self.pairs, chosen, self.source_length, self.target_length)


def evaluation_pairs(
    pairs: Pairs,
    source_length: int,
    target_length: int,
    number: int,
    *,
    seed: int,
    split: Split,
    token_bytes: TokenBytes | None = None,
) -> Examples:
    """Return the `number` of pairs that every evaluation of a trial of `seed` uses, whatever its model is.

    They are stratified over the split: see `window_starts`. Raises RefusedError if the split has fewer pairs.
    """
    if len(pairs) < number:
        raise RefusedError(
            f"data: a split of {len(pairs):,} pairs does not hold {number:,} to evaluate on. Add more text, hold out "
            "a larger share (data.tuning, data.verdict), or lower measure.evaluation.windows."
        )
    chosen = window_starts(len(pairs), number, seed=seed, split=split).tolist()
    batch = _batch(pairs, chosen, source_length, target_length)
    if token_bytes is None:
        return Examples(*batch, bytes=None)
    kept = (pairs[pair][1][:target_length] for pair in chosen)
    return Examples(*batch, bytes=sum(int(token_bytes[tokens].sum()) for tokens in kept))


def _batch(pairs: Pairs, chosen: Sequence[int], source_length: int, target_length: int) -> Batch:
    sources, targets = zip(*(pairs[pair] for pair in chosen), strict=True)
    source = _filled(sources, source_length, pairs.separator)
    return Batch(source, _filled(targets, target_length, pairs.separator))


def _filled(texts: Sequence[Tokens], length: int, padding: int) -> tuple[Tensor, Tensor]:
    """Texts cut and filled up to a length, and how much of each is text."""
    filled = np.full((len(texts), length), padding, dtype=np.int64)
    lengths = np.array([min(len(text), length) for text in texts], dtype=np.int64)
    for row, text, kept in zip(filled, texts, lengths, strict=True):
        row[:kept] = text[:kept]
    return torch.from_numpy(filled), torch.from_numpy(lengths)


# Teacher forcing: a decoder predicts a target token by token, given a source.
#
# The decoder is given the target one token earlier, `start` before its first token, and what is behind the end of a
# target is `padding` among its inputs, and no target. The source is filled up with `padding` behind its end.

Lengths = Int64[Tensor, " B"]


def teacher_forced(
    source: Tensor,
    target: Int64[Tensor, "B T"],
    target_lengths: Lengths,
    sizes: Sizes,
) -> Batch:
    """Return a batch of a source, and of a target with the decoder's inputs for it."""
    assert sizes.start is not None and sizes.padding is not None
    real = real_places(target, target_lengths)
    given = torch.full_like(target, sizes.start)
    given[:, 1:] = target[:, :-1]
    given = torch.where(real, given, sizes.padding)
    return Batch((source, given), torch.where(real, target, NO_TARGET))


def real_places(tokens: Int64[Tensor, "B T"], lengths: Lengths) -> Tensor:
    """True at the places of sequences before their end, [B, T]."""
    return torch.arange(tokens.shape[1]) < lengths[:, None]
