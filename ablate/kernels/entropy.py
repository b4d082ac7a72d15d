"""The entropy of attention, exact, without holding the whole matrix.

    H_t = -Σ_s p_ts log p_ts        in nats; 0 if a query attends to one key, log(t) if to t keys evenly

    Zhai et al. 2023, arXiv:2303.06296, Sec. 3.1.

Dimension key: B batch, H heads, T time, K width of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ablate.kernels.eager import LogitMap, scores
from ablate.kernels.mask import Mask, named, seen_pairs


def attention_entropy(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T T"] | None = None,
    rows: int = 128,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B H T"]:
    """Compute the entropy of each query's weights, in float32 at least, `rows` queries at a time.

    A `mask` replaces `causal`; `padding` is True for the keys that are tokens. 0 for a query that sees none.

    LSE_t - q_t·Σ_s p_ts k_s·scale would need no scores at all, but is off by nats in bfloat16 exactly where attention
    collapses, and does not hold with maps on the logits or a bias.
    """
    n_times = q.shape[-2]
    mask, causal = named(mask, causal=causal)
    chunks = []
    for first in range(0, n_times, rows):
        last = min(first + rows, n_times)
        within = k[..., :last, :] if causal else k
        n_keys = within.shape[-2]
        there = None if padding is None else padding[:, :n_keys]
        at: dict[str, Any] = {"causal": causal, "first": first}
        pairs = seen_pairs(mask, there, n_queries=last - first, n_keys=n_keys, device=q.device, **at)
        seen = None if pairs is None else pairs.keys
        added = None if bias is None else bias[..., first:last, :n_keys]
        chunk = scores(q[..., first:last, :], within, scale=scale, logits=logits, bias=added, seen=seen, **at)
        entropy = torch.special.entr(torch.softmax(chunk, dim=-1)).sum(-1)
        chunks.append(entropy if pairs is None else pairs.filled(entropy, 0.0))
    return torch.cat(chunks, dim=-1)
