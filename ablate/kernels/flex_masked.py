"""FlexAttention under a mask, with padding, or with its log-sum-exp: the blocks that a mask hides are skipped.

    score_mod(s_ts) = maps(s_ts) + bias_ts, -∞ for padding

Padding is not among the blocks: they would have to be found anew for every batch. Without mask and padding this is
`flex.py` itself.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

from ablate.kernels.eager import LogitMap
from ablate.kernels.flex import KERNELS, ScoreMod, attend_flex, fused, past, score_mod
from ablate.kernels.mask import Mask, held_by


def attend_flex_masked(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """Compute `attend_eager` without dropout. NotImplementedError on CPU if a gradient is needed."""
    if mask is None and padding is None:
        return attend_flex(q, k, v, causal=causal, scale=scale, logits=logits, bias=bias)
    mod, seen = without_padding(score_mod(logits, bias), padding), blocks(mask, q, k, causal=causal)
    result: Tensor = _flex(q, k, v, score_mod=mod, block_mask=seen, scale=scale)
    return result


def attend_flex_lse(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    logits: tuple[LogitMap, ...] = (),
    bias: Float[Tensor, "#B #H T S"] | None = None,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T"]]:
    """Compute the same, and the log-sum-exp of each query's scores, as in `attend_eager_lse`."""
    mod, seen = without_padding(score_mod(logits, bias), padding), blocks(mask, q, k, causal=causal)
    y, others = _flex(q, k, v, score_mod=mod, block_mask=seen, scale=scale, return_aux=AuxRequest(lse=True))
    return y, others.lse


def _flex(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    if q.device.type == "cuda":
        with torch._dynamo.config.patch(recompile_limit=KERNELS):
            return fused()(q, k, v, **options)
    if not torch.is_grad_enabled():  # on CPU it decides by the tensors alone whether a backward pass will follow
        q, k, v = q.detach(), k.detach(), v.detach()
    return flex_attention(q, k, v, **options)


def without_padding(mod: ScoreMod | None, padding: Bool[Tensor, "B S"] | None) -> ScoreMod | None:
    """Return the scores of `mod`, -∞ for keys that are no tokens."""
    if padding is None:
        return mod

    def padded(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        score = score if mod is None else mod(score, b, h, t, s)
        return torch.where(padding[b, s], score, -torch.inf)

    return padded


def blocks(mask: Mask | None, q: Tensor, k: Tensor, *, causal: bool) -> BlockMask | None:
    """Return the blocks that queries see; None if it is all of them."""
    if mask is None:
        return past(q.shape[-2], k.shape[-2], q.device) if causal else None
    size = (q.shape[-2], k.shape[-2], q.device)
    if mask.batch is None:
        return _of_places(mask, *size)
    found: BlockMask = held_by(mask, ("blocks", *size), lambda: _blocks(mask, *size))
    return found


def _blocks(mask: Mask, n_queries: int, n_keys: int, device: torch.device) -> BlockMask:
    def sees(b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return mask.sees(b, t, s)

    return create_block_mask(sees, mask.batch, None, n_queries, n_keys, device=str(device))


_of_places = functools.lru_cache(maxsize=16)(_blocks)
