"""xformers' memory-efficient attention, on CUDA: `LowerTriangularMask`, or a dense bias. It takes no map on the logits.

xformers is imported only when needed: that takes seconds, and warns if there is no CUDA device.
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
"""The version of the numbers of this backend: see `plan/versions.py`."""

ALIGNED = 8  # the kernels read a bias in whole vectors: its rows must start at multiples of this many elements


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
    """`attend_eager` without maps. xformers has heads after time, so the tensors are passed transposed."""
    ops = import_ops()
    if bias is not None:
        bias = masked(bias, overwrite=overwrite_bias, done=holds_mask or not causal)
    handed = _handed(ops, q, k, v, causal=causal, scale=scale, masked_bias=bias, dropout=dropout)
    result: Tensor = ops.memory_efficient_attention(**handed)
    return result.transpose(1, 2)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The `operators` that would run (`cutlassF-pt, cutlassB-pt`: forward, backward), or the `refusal` if none will."""

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

    Asked once per device, dtypes, shapes, strides and need of gradients. Without a dispatcher both texts are empty.
    """
    tensors = [q, k, v] if bias is None else [q, k, v, bias]
    traits = tuple((x.device, x.dtype, x.shape, x.stride(), x.requires_grad) for x in tensors)
    key = (traits, causal, scale > 0, dropout > 0, torch.are_deterministic_algorithms_enabled())
    if key not in _asked:
        if len(_asked) >= ANSWERS:
            _asked.clear()
        _asked[key] = _ask(q, k, v, causal=causal, scale=scale, bias=bias, dropout=dropout)
    return _asked[key]


ANSWERS = 256  # cached answers of the dispatcher

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
    # Of a bias only the strides matter here, and a mask written into it changes none.
    handed = _handed(ops, q, k, v, causal=causal, scale=scale, masked_bias=bias, dropout=dropout)
    request = inputs(**handed)
    gradient = any(x.requires_grad for x in (q, k, v))
    try:
        forward = forward_of(request, gradient)
        if not gradient:
            return Dispatch(operators=forward.NAME)
        # With dropout the backward pass must redraw the mask of the forward pass, so both are of the same family.
        backward = _partner(forward, request) if dropout else backward_of(request, None)
    except NotImplementedError as error:
        return Dispatch(refusal=f"xformers has no operator here ({_reasons(str(error))})")
    return Dispatch(operators=f"{forward.NAME}, {backward.NAME}")


def _partner(forward: Any, asked: Any) -> Any:
    """The backward operator of a forward one's family. NotImplementedError if it does not support the inputs."""
    backward: Any = sys.modules[forward.__module__].BwOp
    # Determinism is not required of it: where a device has no deterministic operator, any other one is used as well.
    if reasons := [reason for reason in backward.not_supported_reasons(asked) if "non-deterministic" not in reason]:
        raise NotImplementedError(f"`{backward.NAME}` is not supported because:\n    " + "\n    ".join(reasons))
    return backward


def _reasons(message: str) -> str:
    """The refusal of the dispatcher in one line: the reasons common to all operators, else those of each."""
    reasons_of: dict[str, list[str]] = {}
    for line in message.splitlines():
        if heading := OPERATOR.fullmatch(line.strip()):
            reasons_of[heading[1]] = []
        elif reasons_of and line.strip():
            reasons_of[next(reversed(reasons_of))].append(line.strip())
    if not reasons_of:
        return " ".join(message.split())
    of_all = [
        reason for reason in next(iter(reasons_of.values())) if all(reason in each for each in reasons_of.values())
    ]
    if NOT_BUILT in of_all:
        return f"{NOT_BUILT}{why_not_loaded()}"
    if of_all:
        return ", ".join(of_all)
    # An operator that this build lacks is of no interest if others were built.
    built = {
        name: reasons for name, reasons in reasons_of.items() if not any(UNBUILT in reason for reason in reasons)
    } or reasons_of
    return "; ".join(f"{name}: {', '.join(reasons)}" for name, reasons in built.items())


OPERATOR = re.compile(r"`(.+)` is not supported because:")
UNBUILT = "operator wasn't built"
NOT_BUILT = "xFormers wasn't build with CUDA support"
"""The reason that xformers gives for every operator if its library of kernels is not loaded."""


def why_not_loaded() -> str:
    """The reason why xformers' library of kernels did not load, as an addition to its own message; empty if it did."""
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
    """The arguments of `memory_efficient_attention`, with which the dispatcher is queried too."""
    mask = ops.LowerTriangularMask() if causal else None
    if masked_bias is not None:
        # LowerTriangularMaskWithTensorBias has no backward pass, so a dense bias contains the mask.
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
    """Raise ImportError if xformers is not installed or does not fit this PyTorch."""
    return importlib.import_module("xformers.ops")
