"""xformers' memory-efficient attention, on CUDA: `LowerTriangularMask`, or a dense bias. It takes no map on the logits.

xformers is imported only when it is asked for: that takes seconds, and warns where there is no CUDA device.

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from ablate.kernels.bias import masked, narrowed
from ablate.kernels.scale import with_positive_scale

VERSION: Final = 1
"""Of the numbers of this backend: see `plan/versions.py`."""

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
    if bias is not None:
        bias = masked(bias, overwrite=overwrite_bias, done=holds_mask or not causal)
    handed = _handed(ops, q, k, v, causal=causal, scale=scale, masked_bias=bias, dropout=dropout)
    result: Tensor = ops.memory_efficient_attention(**handed)
    return result.transpose(1, 2)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What xformers' dispatcher says of some inputs: the `operators` that will run, or why there are none (`refusal`).

    `operators` as `cutlassF-pt, cutlassB-pt`: forward, and backward where a gradient is wanted.
    """

    operators: str = ""
    refusal: str = ""


def dispatch(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    bias: Float[Tensor, "#B #H T S"] | None = None,
    dropout: float = 0.0,
) -> Dispatch:
    """Ask xformers' own dispatcher what it would run for these inputs, forward and backward; nothing is computed.

    Its answer depends on the device, types, shapes, strides and on whether gradients are wanted, not on numbers, so it
    is asked once for each of these. Where a version of xformers has no dispatcher that can be asked, it says neither.
    """
    tensors = [q, k, v] if bias is None else [q, k, v, bias]
    traits = tuple((x.device, x.dtype, x.shape, x.stride(), x.requires_grad) for x in tensors)
    key = (traits, causal, scale > 0, dropout > 0, torch.are_deterministic_algorithms_enabled())
    if key not in _asked:
        if len(_asked) >= ANSWERS:
            _asked.clear()
        _asked[key] = _ask(q, k, v, causal=causal, scale=scale, bias=bias, dropout=dropout)
    return _asked[key]


ANSWERS = 256
"""Answers of the dispatcher that a process keeps."""

_asked: dict[Hashable, Dispatch] = {}


def _ask(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float, bias: Tensor | None, dropout: float
) -> Dispatch:
    try:
        ops = import_ops()
        dispatcher = importlib.import_module("xformers.ops.fmha.dispatch")
        common = importlib.import_module("xformers.ops.fmha.common")
        forward_of, backward_of, inputs = dispatcher._dispatch_fw, dispatcher._dispatch_bw, common.Inputs
    except (ImportError, OSError) as error:
        return Dispatch(refusal=f"xformers cannot be imported ({error})")
    except AttributeError:
        return Dispatch()
    # Strides are what is asked of a bias, and a mask within it changes none.
    handed = _handed(ops, q, k, v, causal=causal, scale=scale, masked_bias=bias, dropout=dropout)
    asked = inputs(**handed)
    gradient = any(x.requires_grad for x in (q, k, v))
    try:
        forward = forward_of(asked, gradient)
        if not gradient:
            return Dispatch(operators=forward.NAME)
        # With dropout the backward pass must draw again what the forward pass drew, so it is that of the same family.
        backward = _partner(forward, asked) if dropout else backward_of(asked, None)
    except NotImplementedError as error:
        return Dispatch(refusal=f"xformers has no operator here ({_reasons(str(error))})")
    return Dispatch(operators=f"{forward.NAME}, {backward.NAME}")


def _partner(forward: Any, asked: Any) -> Any:
    """The backward operator of a forward one's family. NotImplementedError where it cannot do it."""
    backward: Any = sys.modules[forward.__module__].BwOp
    # It is run without being asked whether it is deterministic, as all is where a device has nothing that is.
    if reasons := [one for one in backward.not_supported_reasons(asked) if "non-deterministic" not in one]:
        raise NotImplementedError(f"`{backward.NAME}` is not supported because:\n    " + "\n    ".join(reasons))
    return backward


def _reasons(message: str) -> str:
    """Why the dispatcher found none, in a line: what it says of all operators, else what it says of each."""
    found: dict[str, list[str]] = {}
    for line in message.splitlines():
        if heading := OPERATOR.fullmatch(line.strip()):
            found[heading[1]] = []
        elif found and line.strip():
            found[next(reversed(found))].append(line.strip())
    if not found:
        return " ".join(message.split())
    of_all = [one for one in next(iter(found.values())) if all(one in reasons for reasons in found.values())]
    if NOT_BUILT in of_all:
        return f"{NOT_BUILT}{why_not_loaded()}"
    if of_all:
        return ", ".join(of_all)
    # One that this build does not have is no news where others were built.
    built = {name: reasons for name, reasons in found.items() if not any(UNBUILT in one for one in reasons)} or found
    return "; ".join(f"{name}: {', '.join(reasons)}" for name, reasons in built.items())


OPERATOR = re.compile(r"`(.+)` is not supported because:")
UNBUILT = "operator wasn't built"
NOT_BUILT = "xFormers wasn't build with CUDA support"
"""What xformers says of every operator where its library of kernels is not loaded."""


def why_not_loaded() -> str:
    """Why xformers' library of kernels did not load, to follow what it says itself; empty where it did."""
    failed: Any = getattr(importlib.import_module("xformers._cpp_lib"), "_cpp_library_load_exception", None)
    if failed is None:
        return ""
    built = getattr(failed, "build_info", None)
    built_for = f", built for PyTorch {built.torch_version}," if built else ""
    cause = str(failed.__cause__ or failed).partition("\n")[0]
    return f": its library{built_for} does not load beside PyTorch {torch.__version__}: {cause}"


def _handed(
    ops: ModuleType,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    scale: float,
    masked_bias: Tensor | None,
    dropout: float,
) -> dict[str, Any]:
    """What `memory_efficient_attention` is called with, which is what the dispatcher is asked about."""
    mask = ops.LowerTriangularMask() if causal else None
    if masked_bias is not None:
        # LowerTriangularMaskWithTensorBias has no backward: a dense bias holds the mask.
        mask = aligned(narrowed(masked_bias, q.dtype)).expand(*q.shape[:2], -1, -1)
    q, scale = with_positive_scale(q, scale)
    query, key, value = (x.transpose(1, 2) for x in (q, k, v))
    return {"query": query, "key": key, "value": value, "attn_bias": mask, "p": dropout, "scale": scale}


def aligned(bias: Float[Tensor, "#B #H T S"]) -> Float[Tensor, "#B #H T S"]:
    """The same numbers, with rows that start at multiples of `ALIGNED`."""
    missing = -bias.shape[-1] % ALIGNED
    if missing:
        return pad(bias, (0, missing))[..., : bias.shape[-1]]
    return bias.contiguous()


def import_ops() -> ModuleType:
    """The module `xformers.ops`; ImportError where it is not installed or does not fit this PyTorch."""
    return importlib.import_module("xformers.ops")
