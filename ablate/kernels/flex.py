"""FlexAttention: maps and bias applied within a fused kernel, on CUDA. No dropout; on CPU forward only, and unfused.

    score_mod(s_ts) = maps(s_ts) + bias_ts, -∞ for padding        the blocks that a mask hides are skipped

A bias keeps its precision and its shape, and so does its gradient: nothing is expanded to [B, H, T, S].
The kernel is compiled at first use, once for each combination of maps, shapes and dtypes, and cached.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

from ablate.kernels.eager import LogitMap
from ablate.kernels.mask import Mask

VERSION: Final = 1
"""The version of the numbers of this backend: see `plan/versions.py`."""

ScoreMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

KERNELS = 128
"""Kernels cached per process. Beyond PyTorch's own limit of 8 it would continue unfused, with only a warning."""


def attend_flex(
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
    seen = blocks(mask, q, k, causal=causal)
    result: Tensor = _flex(q, k, v, score_mod=score_mod(logits, bias, padding), block_mask=seen, scale=scale)
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
    mod, seen = score_mod(logits, bias, padding), blocks(mask, q, k, causal=causal)
    y, others = _flex(q, k, v, score_mod=mod, block_mask=seen, scale=scale, return_aux=AuxRequest(lse=True))
    return y, others.lse


def _flex(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    if q.device.type == "cuda":
        with torch._dynamo.config.patch(recompile_limit=KERNELS):
            return fused()(q, k, v, **options)
    if not torch.is_grad_enabled():  # on CPU it decides by the tensors alone whether a backward pass will follow
        q, k, v = q.detach(), k.detach(), v.detach()
    return flex_attention(q, k, v, **options)


def score_mod(
    logits: tuple[LogitMap, ...],
    bias: Float[Tensor, "#B #H T S"] | None,
    padding: Bool[Tensor, "B S"] | None = None,
) -> ScoreMod | None:
    """Return the maps in their order, then the bias, read at index 0 where it does not vary, then -∞ for padding.

    None if there is none of them. Padding is not among the blocks: they would have to be found anew for every batch.
    """
    if bias is None and not logits and padding is None:
        return None
    by_batch, by_head = (bias.shape[0] > 1, bias.shape[1] > 1) if bias is not None else (False, False)

    def mod(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        for logit_map in logits:
            score = logit_map(score)
        if bias is not None:
            score = score + bias[b if by_batch else 0, h if by_head else 0, t, s]
        return score if padding is None else torch.where(padding[b, s], score, -torch.inf)

    return mod


def blocks(mask: Mask | None, q: Tensor, k: Tensor, *, causal: bool) -> BlockMask | None:
    """Return the blocks that queries see; None if it is all of them."""
    if mask is None:
        return past(q.shape[-2], k.shape[-2], q.device) if causal else None
    return (blocks_of_batch if mask.batch else blocks_of)(mask, q.shape[-2], k.shape[-2], q.device)


def not_after(b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
    """True where query `t` may attend to key `s`."""
    return t >= s


@functools.lru_cache(maxsize=16)
def past(n_queries: int, n_keys: int, device: torch.device) -> BlockMask:
    """Return the causal mask as blocks, the same for every batch and head."""
    return create_block_mask(not_after, None, None, n_queries, n_keys, device=str(device))


def _blocks_of(mask: Mask, n_queries: int, n_keys: int, device: torch.device) -> BlockMask:
    def sees(b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return mask.sees(b, t, s)

    return create_block_mask(sees, mask.batch, None, n_queries, n_keys, device=str(device))


blocks_of = functools.lru_cache(maxsize=16)(_blocks_of)
"""The blocks of a mask of places alone."""
blocks_of_batch = functools.lru_cache(maxsize=1)(_blocks_of)
"""The blocks of a mask that varies over the batch: all layers of one pass ask for the same."""


@functools.cache
def fused() -> Callable[..., Tensor]:
    """Return FlexAttention, compiled."""
    compiled: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False)
    return compiled


@functools.cache
def missing() -> str:
    """Return why FlexAttention cannot be compiled for CUDA here; empty if it can."""
    return "" if importlib.util.find_spec("triton") else "flex needs triton, which is not installed"
