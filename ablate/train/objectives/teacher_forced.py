"""What objectives share in which a decoder predicts a target token by token, given a source.

The decoder is given the target one token earlier, `start` before its first token, and what is behind the end of a
target is `padding` among its inputs, and no target. The source is filled up with `padding` behind its end.
"""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor

from ablate.block.sizes import Sizes
from ablate.data.batch import NO_TARGET, Batch

Lengths = Int64[Tensor, " B"]


def teacher_forced(
    source: Tensor,
    target: Int64[Tensor, "B T"],
    target_lengths: Lengths,
    sizes: Sizes,
) -> Batch:
    """Return a batch of a source, and of a target with what the decoder is given of it."""
    assert sizes.start is not None and sizes.padding is not None
    real = real_places(target, target_lengths)
    given = torch.full_like(target, sizes.start)
    given[:, 1:] = target[:, :-1]
    given = torch.where(real, given, sizes.padding)
    return Batch((source, given), torch.where(real, target, NO_TARGET))


def real_places(tokens: Int64[Tensor, "B T"], lengths: Lengths) -> Tensor:
    """Return which places of sequences are before their end, [B, T]."""
    return torch.arange(tokens.shape[1]) < lengths[:, None]
