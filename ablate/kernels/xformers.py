"""xformers' memory-efficient attention, on CUDA: `LowerTriangularMask`, or a dense bias. It takes no map on the logits.

xformers is imported only when it is asked for: that takes seconds, and warns where there is no CUDA device.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from ablate.kernels.bias import masked, narrowed
from ablate.kernels.scale import with_positive_scale

ALIGNED = 8
"""The kernels read a bias in whole vectors: its rows must start at multiples of this many numbers."""


def attend_xformers(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
    overwrite_bias: bool = False,
    holds_mask: bool = False,
) -> Float[Tensor, "B H T K"]:
    """As `attend_eager` without maps. xformers keeps heads after time, so the tensors are handed over transposed."""
    ops = import_ops()
    mask = ops.LowerTriangularMask() if causal else None
    if bias is not None:
        # LowerTriangularMaskWithTensorBias has no backward: a dense bias holds the mask.
        dense = narrowed(masked(bias, overwrite=overwrite_bias, done=holds_mask or not causal), q.dtype)
        mask = aligned(dense).expand(*q.shape[:2], -1, -1)
    q, scale = with_positive_scale(q, scale)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    result: Tensor = ops.memory_efficient_attention(q, k, v, attn_bias=mask, p=dropout, scale=scale)
    return result.transpose(1, 2)


def aligned(bias: Float[Tensor, "#B #H T S"]) -> Float[Tensor, "#B #H T S"]:
    """The same numbers, with rows that start at multiples of `ALIGNED`."""
    missing = -bias.shape[-1] % ALIGNED
    if missing:
        return pad(bias, (0, missing))[..., : bias.shape[-1]]
    return bias.contiguous()


def import_ops() -> ModuleType:
    """The module `xformers.ops`; ImportError where it is not installed or does not fit this PyTorch."""
    return importlib.import_module("xformers.ops")


@functools.cache
def missing() -> str:
    """Why xformers cannot be used, in a few words; empty if it can."""
    try:
        ops = import_ops()
    except (ImportError, OSError) as error:
        return f"xformers cannot be imported ({error})"
    if not torch.cuda.is_available():
        return ""
    # The one kernel of xformers' that takes every type, mask and bias that we hand over.
    newest = ops.fmha.cutlass.FwOp.CUDA_MAXIMUM_COMPUTE_CAPABILITY
    if newest and torch.cuda.get_device_capability() > newest:
        return f"xformers has no kernels for a device newer than compute capability {newest[0]}.{newest[1]}"
    return ""
