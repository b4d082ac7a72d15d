"""Which backend computes an attention, and why: the first on the device's list that can, and holds no [B, H, T, S].

Where each that can would hold one, the first that can. What a backend cannot do at all is an objection to it; what
costs it a tensor of all pairs for every batch and head is a reservation about it. Both are known anywhere, so that a
plan shows the order of backends. What only the machine that trains knows (whether xformers has an operator there, and
whether a backend computes what it should, see `gate`) is a refusal, and passed to `choose`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ablate.kernels import flex
from ablate.kernels.bias import BiasKind

PREFERRED = {"cuda": ("xformers", "sdpa", "flex", "eager"), "cpu": ("sdpa", "eager")}
"""Backends by type of device, best first. Elsewhere, the meta device included: eager, which every device can do."""

NONE_REFUSED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Needs:
    """What is asked of a backend. `dtype` as `float32`, `bfloat16`, …; `d_head` None for a width that always fits.

    `gradient`: a backward pass will follow; `bias_gradient`: it is wanted of the bias too.
    """

    causal: bool
    dtype: str
    logit_maps: bool = False
    bias: BiasKind = "none"
    dropout: bool = False
    gradient: bool = True
    bias_gradient: bool = False
    d_head: int | None = None


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The backend `name`, and the reason in words for `plan` and `run`.

    `operator` is what the backend itself will run, where it says so: `cutlassF-pt, cutlassB-pt`.
    """

    name: str
    reason: str
    operator: str = ""


def choose(needs: Needs, device_type: str, refused: Mapping[str, str] = NONE_REFUSED) -> BackendChoice:
    """The backend for `needs` on a `cpu`, `cuda` or other device; `refused` says why a backend does not do there.

    >>> choose(Needs(causal=True, dtype="float32"), "cpu")
    BackendChoice(name='sdpa', reason='first choice on cpu', operator='')
    >>> choose(Needs(causal=True, dtype="float32", logit_maps=True), "cpu").reason
    'sdpa takes no map on the logits; eager holds all scores'
    """
    names = PREFERRED.get(device_type, ("eager",))
    cannot = {name: refused.get(name) or objection(name, needs, device_type) for name in names}
    best = order(needs, device_type, refused)[0]
    dear = {name: reservation(name, needs, device_type) for name in names}
    reasons = [cannot[name] or dear[name] for name in names[: names.index(best)]]
    if dear[best]:
        reasons.append(dear[best])
    return BackendChoice(best, "; ".join(reasons) or f"first choice on {device_type}")


def order(needs: Needs, device_type: str, refused: Mapping[str, str] = NONE_REFUSED) -> tuple[str, ...]:
    """The backends that can do it, in the order in which they are taken; the last is eager, which always can.

    >>> order(Needs(causal=True, dtype="bfloat16"), "cuda", {"xformers": "xformers is not there"})[0]
    'sdpa'
    """
    names = PREFERRED.get(device_type, ("eager",))
    able = [name for name in names if not (refused.get(name) or objection(name, needs, device_type))]
    return tuple(sorted(able, key=lambda name: bool(reservation(name, needs, device_type))))


def objection(name: str, needs: Needs, device_type: str) -> str:
    """Why the backend `name` cannot do it; empty if it can."""
    if name == "xformers":
        return _objection_to_xformers(needs, device_type)
    if name == "flex":
        return _objection_to_flex(needs, device_type)
    return "sdpa takes no map on the logits" if name == "sdpa" and needs.logit_maps else ""


def reservation(name: str, needs: Needs, device_type: str) -> str:
    """What makes the backend `name` hold a [B, H, T, S]; empty if nothing does."""
    if name == "eager":
        return "eager holds all scores"
    if name == "flex":
        return "" if device_type == "cuda" else f"flex holds all scores on {device_type}"
    if needs.bias_gradient and (needs.bias != "batch" or device_type == "cpu"):
        return f"{name} takes the gradient of a bias for every batch and head"
    if name == "sdpa" and device_type == "cpu" and needs.dropout:
        return "sdpa holds all scores for dropout on cpu"
    if name == "sdpa" and device_type == "cuda" and needs.dtype == "float64":
        return "sdpa holds all scores in float64 on cuda"
    return ""


def _objection_to_xformers(needs: Needs, device_type: str) -> str:
    if needs.logit_maps:
        return "xformers takes no map on the logits"
    if device_type != "cuda":
        return f"xformers has no operators on {device_type}"
    # The rest is for its dispatcher to say, on the machine that trains.
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
        return "flex wants heads of 16 or more on cuda"
    return flex.missing()
