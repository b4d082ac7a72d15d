"""Hanging probes on a model for one forward and backward pass, and taking them off again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ablate.kernels import Attend
from ablate.probes.probe import AttentionProbe, ParameterProbe, Probe, Reading, StreamProbe


@contextmanager
def watching(model: nn.Module, probes: Iterable[Probe]) -> Iterator[list[Reading]]:
    """Within, one forward and backward pass of `model` fills the list; on leaving, the hooks are gone.

    Parameters and their gradients are read on leaving, so that everything is of the same step. Without probes nothing
    is attached. Probes see detached tensors and draw no random numbers: what is computed stays the same, bit for bit.
    """
    probes = tuple(probes)
    streams = [probe for probe in probes if isinstance(probe, StreamProbe)]
    cores = [probe for probe in probes if isinstance(probe, AttentionProbe)]
    readings: list[Reading] = []
    with ExitStack() as attached:
        if streams:
            for address, module in stream_sites(model):
                hook = _reading_inputs(readings, address, _stream_measure(streams))
                attached.callback(module.register_forward_pre_hook(hook).remove)
        if cores:
            for address, module in attention_sites(model):
                hook = _reading_inputs(readings, address, _core_measure(cores, module))
                attached.callback(module.register_forward_pre_hook(hook).remove)
        yield readings
    with torch.no_grad():
        for probe in probes:
            if isinstance(probe, ParameterProbe):
                readings.extend(probe.measure(model))


def stream_sites(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Where the residual stream is read: the input of every block, and of the head (past a final norm)."""
    for name, block in model.get_submodule("layers").named_children():
        yield f"layers.{name}", block
    yield "head", model.get_submodule("head")


def attention_sites(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every attention core, with the address of the part that holds it."""
    for name, module in model.named_modules():
        if isinstance(module, Attend):
            yield name.rpartition(".")[0], module


Measure = Callable[..., Iterator[Mapping[str, Tensor]]]


def _stream_measure(probes: list[StreamProbe]) -> Measure:
    def measure(x: Tensor, *_: Any) -> Iterator[Mapping[str, Tensor]]:
        tokens = x.flatten(0, -2).double()
        return (probe.measure(tokens) for probe in probes)

    return measure


def _core_measure(probes: list[AttentionProbe], core: nn.Module) -> Measure:
    def measure(q: Tensor, k: Tensor, *_: Any) -> Iterator[Mapping[str, Tensor]]:
        return (probe.measure(core, q, k) for probe in probes)

    return measure


def _reading_inputs(readings: list[Reading], address: str, measure: Measure) -> Callable[[nn.Module, Any], None]:
    def read(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen = [tensor.detach() for tensor in inputs]
        with torch.no_grad():  # autocast may be on: it leaves float64 alone
            for numbers in measure(*seen):
                readings.extend(Reading(metric, address, value) for metric, value in numbers.items())

    return read
