"""The entropy of attention, exact, without holding the whole matrix.

    H_t = -Σ_s p_ts log p_ts        in nats; 0 if a query attends to one key, log(t) if to t keys evenly

    Zhai et al. 2023, arXiv:2303.06296, Sec. 3.1.

Dimension key: B batch, H heads, T time, K width of a head.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ablate.kernels.eager import LogitMap, scores


def attention_entropy(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T T"] | None = None,
    rows: int = 128,
) -> Float[Tensor, "B H T"]:
    """Compute the entropy of each query's weights, in float32 at least, `rows` queries at a time.

    LSE_t - q_t·Σ_s p_ts k_s·scale would need no scores at all, but is off by nats in bfloat16 exactly where attention
    collapses, and does not hold with maps on the logits or a bias.
    """
    n_times = q.shape[-2]
    chunks = []
    for first in range(0, n_times, rows):
        last = min(first + rows, n_times)
        seen = k[..., :last, :] if causal else k
        added = None if bias is None else bias[..., first:last, : seen.shape[-2]]
        chunk = scores(q[..., first:last, :], seen, causal=causal, scale=scale, logits=logits, bias=added, first=first)
        chunks.append(torch.special.entr(torch.softmax(chunk, dim=-1)).sum(-1))
    return torch.cat(chunks, dim=-1)
