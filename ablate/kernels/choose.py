"""Which backend computes an attention, and why: the first on the device's list that has no objection."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.kernels import xformers

PREFERRED = {"cuda": ("xformers", "sdpa", "eager"), "cpu": ("sdpa", "eager")}
"""Backends by type of device, best first. Elsewhere, the meta device included: eager, which every device can do."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What is asked of a backend. `dtype` as `float32`, `bfloat16`, …"""

    causal: bool
    logit_maps: bool
    dtype: str
    bias: bool = False
    dropout: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend `name`, and the reason in words for `plan` and `bench`."""

    name: str
    reason: str


def choose(needs: Needs, device_type: str) -> Choice:
    """The backend for `needs` on a `cpu`, `cuda` or other device.

    >>> choose(Needs(causal=True, logit_maps=False, dtype="float32"), "cpu")
    Choice(name='sdpa', reason='first choice on cpu')
    >>> choose(Needs(causal=True, logit_maps=True, dtype="float32"), "cpu")
    Choice(name='eager', reason='sdpa takes no map on the logits')
    """
    objections: list[str] = []
    for name in PREFERRED.get(device_type, ()):
        against = objection(name, needs, device_type)
        if not against:
            return Choice(name, "; ".join(objections) or f"first choice on {device_type}")
        objections.append(against)
    return Choice("eager", "; ".join(objections) or f"the only one on {device_type}")


def objection(name: str, needs: Needs, device_type: str) -> str:
    """Why the backend `name` cannot do it; empty if it can."""
    if name == "eager":
        return ""
    if needs.logit_maps:
        return f"{name} takes no map on the logits"
    if name == "xformers" and device_type != "cuda":
        return f"xformers has no operators on {device_type}"
    if name == "xformers" and needs.dtype not in {"float16", "bfloat16", "float32"}:
        return f"xformers does not compute in {needs.dtype}"
    # Last, since it imports xformers: only where a CUDA device would run it.
    return xformers.missing() if name == "xformers" else ""
