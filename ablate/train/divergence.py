"""Divergence: a loss or a gradient norm that is not finite, traced to the part where it begins.

Only a non-finite number counts. A loss that is large, or was smaller before, is a result like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ablate.compiler.values import running_ahead
from ablate.train.data_parallel import Ranks
from ablate.train.loss import forward
from ablate.train.microbatches import Microbatch


class Diverged(Exception):
    """Ends a trial with the outcome `diverged`; `detail` is that of the outcome."""

    def __init__(self, detail: dict[str, Any]):
        super().__init__(detail["cause"])
        self.detail = detail


def check_finite(model: nn.Module, parts: Sequence[Microbatch], dtype: str, ranks: Ranks, **measured: float) -> None:
    """Raise Diverged, with the part of the model where it begins, if one of the `measured` numbers is not finite.

    `parts` are this rank's microbatches; the numbers are those of the whole batch: all ranks raise it or none.
    """
    wrong = [f"{name} is {value}" for name, value in measured.items() if not math.isfinite(value)]
    if wrong:
        seen, address = locate(model, parts, dtype, ranks)
        raise Diverged({"cause": ", ".join(wrong), "seen": seen, "address": address, "layer": _layer(address)})


def locate(model: nn.Module, parts: Sequence[Microbatch], dtype: str, ranks: Ranks) -> tuple[str, str]:
    """Locate the first non-finite value by one more forward pass: (`output` | `gradient` | `loss`, address).

    The first part that finishes with a non-finite output is the innermost one that produces it. If all outputs are
    finite, the backward pass produced it: the part named is the first in the backward pass (the last in the forward
    pass) whose parameters have non-finite gradients. Otherwise it is the loss or a norm itself, of the whole model.
    """
    finished = _merged([passed for here in ranks.gathered(_passes(model, parts, dtype)) for passed in here])
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


Passed: TypeAlias = list[tuple[str, bool]]
"""The modules in the order in which a forward pass finished them, each with whether its output is finite."""


def _passes(model: nn.Module, parts: Sequence[Microbatch], dtype: str) -> list[Passed]:
    passes: list[Passed] = []
    with ExitStack() as attached, torch.no_grad(), running_ahead(model):
        for name, module in model.named_modules():
            if name:
                hook = _noting(passes, name)
                attached.callback(module.register_forward_hook(hook).remove)
        for part in parts:
            passes.append([])
            forward(model, part.inputs, dtype)
    return passes


def _merged(passes: list[Passed]) -> Passed:
    """An output of the whole batch is finite if it is finite in all parts."""
    return [(together[0][0], all(finite for _, finite in together)) for together in zip(*passes, strict=True)]


def _noting(passes: list[Passed], name: str) -> Any:
    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        passes[-1].append((name, _finite(output)))

    return note


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return all(_finite(part) for part in value) if isinstance(value, tuple | list) else True


def _layer(address: str) -> int | None:
    match address.split("."):
        case ["layers" | "encoder", layer, *_] if layer.isdigit():
            return int(layer)
    return None
