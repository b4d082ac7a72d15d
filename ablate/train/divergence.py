"""Divergence: a loss or a gradient norm that is not finite, traced to the part where it begins.

Only a number that is not finite counts. A loss that is large, or was smaller once, is a result like any other.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from ablate.train.loss import forward


class Diverged(Exception):
    """Ends a trial as a typed outcome; `detail` is the outcome's."""

    def __init__(self, detail: dict[str, Any]):
        super().__init__(detail["cause"])
        self.detail = detail


def check_finite(model: nn.Module, tokens: Tensor, dtype: str, **measured: float) -> None:
    """Raise Diverged, with the part where it begins, if one of the `measured` numbers is not finite."""
    wrong = [f"{name} is {value}" for name, value in measured.items() if not math.isfinite(value)]
    if wrong:
        seen, address = locate(model, tokens, dtype)
        raise Diverged({"cause": ", ".join(wrong), "seen": seen, "address": address, "layer": _layer(address)})


def locate(model: nn.Module, tokens: Tensor, dtype: str) -> tuple[str, str]:
    """What is not finite first, and where, by one forward pass more: (`output` | `gradient` | `loss`, address).

    The first part to finish with an output that is not finite is the innermost one that makes it. If all outputs are
    finite, the backward pass made it: the part named is the first on the way back (so the last on the way forward)
    whose parameters have gradients that are not finite. Else it is the loss or a norm itself, of the whole model.
    """
    finished: list[tuple[str, bool]] = []
    with ExitStack() as attached, torch.no_grad():
        for name, module in model.named_modules():
            if name:
                hook = _noting(finished, name)
                attached.callback(module.register_forward_hook(hook).remove)
        forward(model, tokens, dtype)
    for address, finite in finished:
        if not finite:
            return "output", address
    order = {address: place for place, (address, _) in enumerate(finished)}
    broken = {
        name.rpartition(".")[0]
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not _finite(parameter.grad)
    }
    if broken:
        return "gradient", max(sorted(broken), key=lambda address: order.get(address, -1))
    return "loss", ""


def _noting(finished: list[tuple[str, bool]], name: str) -> Any:
    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        finished.append((name, _finite(output)))

    return note


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return all(_finite(part) for part in value) if isinstance(value, tuple | list) else True


def _layer(address: str) -> int | None:
    match address.split("."):
        case ["layers", layer, *_] if layer.isdigit():
            return int(layer)
    return None
