"""The choice of a backend for an attention: the first on the device's list that can without a [B, H, T, S].

If every able backend would hold one, it is the first of them. An objection is what a backend cannot do; a reservation
that it needs a tensor of all pairs for every batch and head; both are known on any machine, so a plan can show the
order. A refusal (no operator there, or wrong numbers, see `gate`) is known to the training machine only, and passed to
`choose`.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ablate.kernels import flex, xformers
from ablate.kernels.bias import BiasKind
from ablate.kernels.mask import MaskKind
from ablate.kernels.xformers import Dispatch

PREFERRED = {"cuda": ("xformers", "sdpa", "flex", "eager"), "cpu": ("sdpa", "eager")}
"""Backends by device type, best first. On other devices, including meta, it is eager, which runs everywhere."""

PREFERRED_MASKED = {**PREFERRED, "cuda": ("flex", "sdpa", "xformers", "eager")}
"""The same under a mask other than the causal one, or with a sink: flex skips what it hides, where sdpa reads a [T, S],
and takes a sink as it is, where sdpa gets one more key and wider heads."""

NONE_REFUSED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements on a backend. `dtype` as `float32`, `bfloat16`, …; `d_head` None for a width that always fits.

    `gradient`: a backward pass will follow; `bias_gradient`: it includes the bias. `mask` is its kind, if there is one
    besides `causal`; `padding`: some keys of a sequence are hidden; `lse`: the log-sum-exps are needed; `sink`: each
    head has one more logit, without a value.
    """

    causal: bool
    dtype: str
    logit_maps: bool = False
    bias: BiasKind = "none"
    dropout: bool = False
    gradient: bool = True
    bias_gradient: bool = False
    d_head: int | None = None
    mask: MaskKind = "none"
    padding: bool = False
    lse: bool = False
    sink: bool = False


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The backend `name`, the `reason` in words, and the `operator` it reports, if any: `cutlassF-pt, cutlassB-pt`."""

    name: str
    reason: str
    operator: str = ""


def choose(needs: Needs, device_type: str, refused: Mapping[str, str] = NONE_REFUSED) -> BackendChoice:
    """Return the backend for `needs` on a `cpu`, `cuda` or other device; `refused`: why a backend is unusable there.

    >>> choose(Needs(causal=True, dtype="float32"), "cpu")
    BackendChoice(name='sdpa', reason='first choice on cpu', operator='')
    >>> choose(Needs(causal=True, dtype="float32", logit_maps=True), "cpu").reason
    'sdpa takes no map on the logits; eager holds all scores'
    """
    names = preferred(needs, device_type)
    cannot = {name: refused.get(name) or objection(name, needs, device_type) for name in names}
    best = order(needs, device_type, refused)[0]
    dear = {name: reservation(name, needs, device_type) for name in names}
    reasons = [cannot[name] or dear[name] for name in names[: names.index(best)]]
    if dear[best]:
        reasons.append(dear[best])
    return BackendChoice(best, "; ".join(reasons) or f"first choice on {device_type}")


def order(needs: Needs, device_type: str, refused: Mapping[str, str] = NONE_REFUSED) -> tuple[str, ...]:
    """Return the able backends in order of preference; the last is eager, which always works.

    >>> order(Needs(causal=True, dtype="bfloat16"), "cuda", {"xformers": "xformers is not installed"})[0]
    'sdpa'
    """
    names = preferred(needs, device_type)
    able = [name for name in names if not (refused.get(name) or objection(name, needs, device_type))]
    return tuple(sorted(able, key=lambda name: bool(reservation(name, needs, device_type))))


def preferred(needs: Needs, device_type: str) -> tuple[str, ...]:
    """The backends for such needs, best first, whether or not they can."""
    masked = needs.mask != "none" or needs.sink
    return (PREFERRED_MASKED if masked else PREFERRED).get(device_type, ("eager",))


def objection(name: str, needs: Needs, device_type: str) -> str:
    """The reason why the backend `name` cannot do it; empty if it can."""
    if name == "xformers":
        return _objection_to_xformers(needs, device_type)
    if name == "flex":
        return _objection_to_flex(needs, device_type)
    if name == "sdpa" and needs.logit_maps:
        return "sdpa takes no map on the logits"
    if name == "sdpa" and needs.sink and (needs.bias != "none" or needs.mask != "none" or needs.padding):
        return "sdpa takes no sink beside a bias or a mask"
    return "sdpa gives no log-sum-exp with a gradient" if name == "sdpa" and needs.lse else ""


def reservation(name: str, needs: Needs, device_type: str) -> str:
    """The reason why the backend `name` holds a [B, H, T, S]; empty if it does not."""
    if name == "eager":
        return "eager holds all scores"
    if name == "flex":
        return "" if device_type == "cuda" else f"flex holds all scores on {device_type}"
    if needs.bias_gradient and (needs.bias != "batch" or device_type == "cpu"):
        return f"{name} computes the gradient of a bias for every batch and head"
    if name == "sdpa" and needs.bias == "head" and (needs.padding or needs.mask == "batch"):
        return "sdpa holds a bias of every head with what is hidden in every sequence"
    if name == "sdpa" and device_type == "cpu" and needs.dropout:
        return "sdpa holds all scores for dropout on cpu"
    if name == "sdpa" and device_type == "cuda" and needs.dtype == "float64":
        return "sdpa holds all scores in float64 on cuda"
    return ""


def _objection_to_xformers(needs: Needs, device_type: str) -> str:
    if needs.logit_maps:
        return "xformers takes no map on the logits"
    if needs.mask != "none":
        return "xformers is given no mask but the causal one"
    if needs.padding:
        return "xformers is given no padding"
    if needs.sink:
        return "xformers takes no sink"
    if needs.lse:
        return "xformers gives no log-sum-exp with a gradient"
    if device_type != "cuda":
        return f"xformers has no operators on {device_type}"
    # The rest is decided by its dispatcher, on the training machine.
    return "" if needs.dtype in {"float16", "bfloat16", "float32"} else f"xformers does not compute in {needs.dtype}"


def _objection_to_flex(needs: Needs, device_type: str) -> str:
    if needs.dropout:
        return "flex takes no dropout"
    if device_type not in {"cuda", "cpu"}:
        return f"flex does not run on {device_type}"
    if device_type == "cpu":
        return "flex has no backward on cpu" if needs.gradient else ""
    if needs.dtype not in {"float16", "bfloat16", "float32"}:
        return f"flex does not compute in {needs.dtype} on cuda"
    if needs.d_head is not None and needs.d_head < 16:
        return "flex needs heads at least 16 wide on cuda"
    return flex.missing()


# xformers can be used if it is installed, of a version that fits this PyTorch, and its kernels load.
#
# Beside another CUDA or PyTorch than it was built for, xformers warns in several lines on import and refuses
# everything, or fails. Either is said in one line, with the way out, and the next backend computes.

WAY_OUT = "`ablate docs install` has a pair that fits"


def dispatch_xformers(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Dispatch:
    """`dispatch` of xformers, if that can be used; else the refusal says why."""
    if why := missing_xformers():
        return Dispatch(refusal=why)
    try:
        return xformers.dispatch(q, k, v, **options)
    except Exception as error:  # noqa: BLE001  a library may raise anything, and there are other backends
        return Dispatch(refusal=_xformers_failed("fails", error))


@functools.cache
def missing_xformers() -> str:
    """The reason why xformers cannot be used in this process; empty if it can."""
    try:
        with _without_warnings():
            xformers.import_ops()
            library = importlib.import_module("xformers._cpp_lib")
    except ModuleNotFoundError as error:
        return (
            f"xformers is not installed; {WAY_OUT}"
            if error.name == "xformers"
            else _xformers_failed("is not whole", error)
        )
    except Exception as error:  # noqa: BLE001  as above
        return _xformers_failed("cannot be imported", error)
    failed: BaseException | None = getattr(library, "_cpp_library_load_exception", None)
    if failed is None:
        return ""
    built = getattr(failed, "build_info", None)
    built_for = f", built for PyTorch {built.torch_version}," if built else ""
    return _xformers_failed(f"has no kernels here: its library{built_for} does not load", _first_cause(failed))


def _xformers_failed(how: str, error: BaseException) -> str:
    cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return f"xformers {how} beside PyTorch {torch.__version__} ({cause}); {WAY_OUT}"


def _first_cause(error: BaseException) -> BaseException:
    """The first of a chain of errors: that a library is missing, rather than that one did not load."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence xformers' own warning of several lines: the reason is reported in one."""
    logger = logging.getLogger("xformers")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
