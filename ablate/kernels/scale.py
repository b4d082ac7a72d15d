"""Scale of the scores: in the form that fused backends need, their dtype, the largest, the entropy of their softmax."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ablate.kernels.eager import LogitMap, hidden, scores
from ablate.kernels.mask import Mask, named, seen_pairs

# Fused backends mask the future with -∞ before they scale: a scale of 0 would turn it into 0 · -∞ = NaN, a negative
# one into +∞.


def with_positive_scale(q: Float[Tensor, "B H T K"], scale: float) -> tuple[Float[Tensor, "B H T K"], float]:
    """Queries and a scale above 0 with the same scores: q absorbs the sign, or the 0, both exactly. NaN stays NaN."""
    if scale < 0:
        return -q, -scale
    return (0 * q, 1.0) if scale == 0 else (q, scale)


# The dtype in which attention is computed: the one autocast would choose, chosen once and explicitly.
#
# Autocast is off within a backend: it would lower products of float32 scores, and a bias of hundreds, to bfloat16.

AUTOCAST = frozenset({"cpu", "cuda"})


def working_dtype(v: Tensor) -> torch.dtype:
    """The dtype of `v`, or autocast's own where that would lower `v`."""
    device = v.device.type
    if device in AUTOCAST and torch.is_autocast_enabled(device) and v.dtype == torch.float32:
        return torch.get_autocast_dtype(device)
    return v.dtype


def as_given(device_type: str) -> AbstractContextManager[object]:
    """A context in which tensors keep their dtypes."""
    off = device_type in AUTOCAST and torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, enabled=False) if off else nullcontext()


# The largest logit of each head, exact, without holding all of them.
#
#     max over the batch, and over the pairs (t, s) that are seen, of  scale · q_t·k_s        before maps and biases


@torch.no_grad()
def largest_logits(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
    rows: int = 256,
) -> Float[Tensor, "H"]:
    """Compute it in the dtype of q, `rows` queries at a time; in float32 at least. A `mask` replaces `causal`.

    `padding` is True for the keys that are tokens, and a query that sees none has no logit.
    """
    q, scale = with_positive_scale(q, scale)
    mask, causal = named(mask, causal=causal)
    found = []
    with as_given(q.device.type):
        for first in range(0, q.shape[-2], rows):
            within = q[..., first : first + rows, :]
            products = within @ k.mT
            size = {"n_queries": within.shape[-2], "n_keys": k.shape[-2]}
            pairs = seen_pairs(mask, padding, causal=causal, device=q.device, first=first, **size)
            if pairs is not None:
                products.masked_fill_(~pairs.keys, -torch.inf)
                if pairs.blind is not None:
                    products.masked_fill_(pairs.blind, -torch.inf)
            elif causal:
                products.masked_fill_(hidden(products, first), -torch.inf)
            found.append(products.amax(dim=(0, 2, 3)))
    largest = torch.stack(found).amax(0)
    return scale * largest.to(torch.promote_types(largest.dtype, torch.float32))


# The entropy of attention, exact, without holding the whole matrix.
#
#     H_t = -Σ_s p_ts log p_ts        in nats; 0 if a query attends to one key, log(t) if to t keys evenly
#
#     Zhai et al. 2023, arXiv:2303.06296, Sec. 3.1.


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

    A `mask` replaces `causal`; `padding` is True for the keys that are tokens. 0 for a query that sees none. Not by
    LSE_t - q_t·Σ_s p_ts k_s·scale: that is wrong with maps or a bias, and off by nats in bfloat16 where attention
    collapses.
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
