"""xformers' memory-efficient attention, on CUDA: `LowerTriangularMask`, or a dense bias. It takes no map on the logits.

xformers is imported only when it is asked for: that takes seconds, and warns where there is no CUDA device.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from jaxtyping import Float
from torch import Tensor

from ablate.kernels.bias import masked


def attend_xformers(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T K"]:
    """As `attend_eager` without maps. xformers keeps heads after time, so the tensors are handed over transposed."""
    ops = import_ops()
    mask = ops.LowerTriangularMask() if causal else None
    if bias is not None:
        # LowerTriangularMaskWithTensorBias has no backward: a dense bias holds the mask.
        n_batch, n_heads = q.shape[:2]
        dense = masked(bias.to(q.dtype)) if causal else bias.to(q.dtype)
        mask = dense.expand(n_batch, n_heads, *dense.shape[-2:])
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    result: Tensor = ops.memory_efficient_attention(q, k, v, attn_bias=mask, p=dropout, scale=scale)
    return result.transpose(1, 2)


def import_ops() -> ModuleType:
    """The module `xformers.ops`; ImportError where it is not installed or does not fit this PyTorch."""
    return importlib.import_module("xformers.ops")


@functools.cache
def missing() -> str:
    """Why xformers cannot be used, in a few words; empty if it can."""
    try:
        import_ops()
    except (ImportError, OSError) as error:
        return f"xformers cannot be imported ({error})"
    return ""
