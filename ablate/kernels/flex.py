"""FlexAttention: maps and bias applied within a fused kernel, on CUDA. No dropout; on CPU forward only, and unfused.

    score_mod(s_ts) = maps(s_ts) + bias_ts        the blocks that the causal mask hides are skipped

A bias keeps its precision and its shape, and so does its gradient: nothing is expanded to [B, H, T, S].
The kernel is compiled at first use, once for each combination of maps, shapes and dtypes, and cached.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from ablate.kernels.eager import LogitMap

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
) -> Float[Tensor, "B H T K"]:
    """`attend_eager` without dropout. NotImplementedError on CPU if a gradient is needed."""
    seen = past(q.shape[-2], k.shape[-2], q.device) if causal else None
    mod = score_mod(logits, bias)
    if q.device.type == "cuda":
        with torch._dynamo.config.patch(recompile_limit=KERNELS):
            result: Tensor = fused()(q, k, v, score_mod=mod, block_mask=seen, scale=scale)
            return result
    if not torch.is_grad_enabled():  # on CPU it decides by the tensors alone whether a backward pass will follow
        q, k, v = q.detach(), k.detach(), v.detach()
    return flex_attention(q, k, v, score_mod=mod, block_mask=seen, scale=scale)


def score_mod(logits: tuple[LogitMap, ...], bias: Float[Tensor, "#B #H T S"] | None) -> ScoreMod | None:
    """The maps in their order, then the bias, read at index 0 where it does not vary; None without either."""
    if bias is None and not logits:
        return None
    by_batch, by_head = (bias.shape[0] > 1, bias.shape[1] > 1) if bias is not None else (False, False)

    def mod(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        for logit_map in logits:
            score = logit_map(score)
        return score if bias is None else score + bias[b if by_batch else 0, h if by_head else 0, t, s]

    return mod


def not_after(b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
    return t >= s


@functools.lru_cache(maxsize=16)
def past(n_queries: int, n_keys: int, device: torch.device) -> BlockMask:
    """The causal mask as blocks, the same for every batch and head."""
    return create_block_mask(not_after, None, None, n_queries, n_keys, device=str(device))


@functools.cache
def fused() -> Callable[..., Tensor]:
    compiled: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False)
    return compiled


@functools.cache
def missing() -> str:
    """The reason why FlexAttention cannot be compiled for CUDA here; empty if it can."""
    return "" if importlib.util.find_spec("triton") else "flex needs triton, which is not installed"
