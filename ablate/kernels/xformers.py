"""xformers' memory-efficient attention, on CUDA: no bias, or `LowerTriangularMask`. It takes no map on the logits.

xformers is imported only when it is asked for: that takes seconds, and warns where there is no CUDA device.

Dimension key: B batch, H heads, T time, K width of a head.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from jaxtyping import Float
from torch import Tensor


def attend_xformers(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
) -> Float[Tensor, "B H T K"]:
    """As `attend_eager` without maps. xformers keeps heads after time, so the tensors are handed over transposed."""
    ops = import_ops()
    mask = ops.LowerTriangularMask() if causal else None
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    result: Tensor = ops.memory_efficient_attention(q, k, v, attn_bias=mask, scale=scale)
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
