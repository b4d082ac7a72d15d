"""The stream before and after a step of training, of the same tokens, for the probes that read its change.

Both passes are without dropout and gradients. Each leaves no trace: changed buffers of the model are put back, and it
draws no random numbers. They run before a step has begun and after all of it is done, `after_step` of parts included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from ablate.probes.reading import Probe, Reading
from ablate.probes.sites import read_at
from ablate.probes.watch import Padding, padding_at, padding_of


@torch.no_grad()
def streams(model: nn.Module, run: Callable[[], object]) -> dict[str, Tensor]:
    """Record [B, T, d] (with padding the tokens [N, d] alone) as it enters each block, and the head, during `run`."""
    held = [(buffer, buffer._version, buffer.clone()) for buffer in model.buffers()]
    seen: dict[str, Tensor] = {}
    padding = padding_of(model)
    hooks = [
        module.register_forward_pre_hook(_keeping(seen, address, padding_at(address, model, padding)))
        for address, module in read_at(model, "blocks")
    ]
    training = model.training
    model.eval()
    try:
        run()
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
        for buffer, version, values in held:
            if buffer._version != version:
                buffer.copy_(values)
    return seen


@torch.no_grad()
def changes(probes: Iterable[Probe], before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> list[Reading]:
    return [
        Reading(metric, address, value)
        for address, x in before.items()
        for probe in probes
        for metric, value in probe.measure(_tokens(x), _tokens(after[address])).items()
    ]


def _tokens(x: Tensor) -> Tensor:
    return x.double().flatten(0, -2)


def _keeping(
    seen: dict[str, Tensor], address: str, padding: Padding
) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    def keep(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        real = padding()
        seen[address] = inputs[0].clone() if real is None else inputs[0][real]

    return keep
