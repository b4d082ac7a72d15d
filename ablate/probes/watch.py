"""Hooking probes to a model for one forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from ablate.block.address import ENCODER
from ablate.kernels import Attend
from ablate.probes.reading import Probe, Reading
from ablate.probes.sites import behind_last, read_at
from ablate.probes.token_kernel import snapshot_layers

VERSION: Final = 1
"""The version of how probes read: see `plan/versions.py`."""


Padding = Callable[[], Tensor | None]
"""Gives, during a pass, [B, T]: True for tokens, False for padding; None if there is none."""


def without_padding() -> None:
    """Sequences are full."""


@contextmanager
def watching(
    model: nn.Module, probes: Iterable[Probe], padding: Padding = without_padding, scale: float = 1.0
) -> Iterator[list[Reading]]:
    """Fill the list during one forward and backward pass of `model` within the context; on exit the hooks are removed.

    Padding is left out: a probe of tokens is given the others alone, one of sequences each sequence of two tokens or
    more by itself, and the mean of these readings is its reading. ValueError for a probe of matrices over positions,
    which are different ones in sequences of different lengths, and for attention that does not know the padding.

    Gradients of the stream are those of a loss that is multiplied by `scale`, and are read without it. Parameters and
    their gradients, from which the scale is gone by then, are read on exit. Probes see detached tensors and draw no
    random numbers: the computation stays the same, bit for bit.
    """
    probes = tuple(probes)
    streams = [probe for probe in probes if probe.spec.reads in ("stream", "sequences")]
    backward = [probe for probe in probes if probe.of_gradients]
    cores = [probe for probe in probes if probe.spec.reads == "attention"]
    readings: list[Reading] = []
    with ExitStack() as attached:
        for site in dict.fromkeys(probe.spec.site for probe in streams):
            here = [probe for probe in streams if probe.spec.site == site]
            for address, module in read_at(model, site):
                measure = _stream_measure(here, padding_at(address, model, padding))
                hook = _reading_inputs(readings, address, measure)
                attached.callback(module.register_forward_pre_hook(hook).remove)
        of_layers = [probe for probe in backward if probe.spec.reads == "layer_gradients"]
        for address, module in read_at(model, "blocks"):
            here = [probe for probe in backward if address != "head" or probe not in of_layers]
            if here:
                hook = _reading_gradients(readings, address, here, padding_at(address, model, padding), scale)
                attached.callback(module.register_forward_pre_hook(hook).remove)
        for address, module in behind_last(model) if of_layers else ():
            hook = _reading_gradients(readings, address, of_layers, padding_at(address, model, padding), scale)
            leaving = _of_output(hook)
            attached.callback(module.register_forward_hook(leaving).remove)
        for probe in probes:
            if probe.of_matrices:
                for address, module in kernel_sites(model):
                    hook = _reading_cells(readings, address, probe, padding_at(address, model, padding))
                    attached.callback(module.register_forward_pre_hook(hook).remove)
        if cores:
            for address, module in attention_sites(model):
                measure = _core_measure(cores, module, padding_at(address, model, padding))
                hook = _reading_inputs(readings, address, measure)
                attached.callback(module.register_forward_pre_hook(hook).remove)
        yield readings
    with torch.no_grad():
        for probe in probes:
            if probe.of_parameters:
                readings.extend(probe.measure(model))


def padding_of(model: nn.Module) -> Padding:
    return getattr(model, "real_tokens", without_padding)


def padding_at(address: str, model: nn.Module, padding: Padding) -> Padding:
    """An encoder's padding is that of the source, which the model knows."""
    of_source: Padding = getattr(model, "real_source", without_padding)
    return of_source if address.startswith(f"{ENCODER}.") else padding


def attention_sites(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield every attention core, with the address of the part that holds it."""
    for name, module in model.named_modules():
        if isinstance(module, Attend):
            yield name.rpartition(".")[0], module


def kernel_sites(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The places of matrices over positions: the inputs of a few blocks, and that of the head."""
    sites = dict(read_at(model, "blocks"))
    chosen = {*snapshot_layers([address for address in sites if address != "head"]), "head"}
    yield from ((address, module) for address, module in sites.items() if address in chosen)


Measure = Callable[..., Iterator[Mapping[str, Tensor]]]


def _stream_measure(probes: list[Probe], padding: Padding) -> Measure:
    def measure(x: Tensor, *_: Any) -> Iterator[Mapping[str, Tensor]]:
        sequences, real = x.double(), padding()
        if real is not None:
            return (_measure_real(probe, sequences, real) for probe in probes)
        tokens = sequences.flatten(0, -2)  # a view, not a copy
        return (probe.measure(sequences if probe.spec.reads == "sequences" else tokens) for probe in probes)

    return measure


def _measure_real(probe: Probe, sequences: Tensor, real: Tensor) -> Mapping[str, Tensor]:
    if probe.spec.reads != "sequences":
        numbers: Mapping[str, Tensor] = probe.measure(sequences[real])
        return numbers
    several = real.sum(-1) > 1
    pairs = zip(sequences[several], real[several], strict=True)
    apart = [probe.measure(sequence[tokens][None]) for sequence, tokens in pairs]
    if not apart:
        raise ValueError(f"{probe.spec.name} is over sequences, but none has two tokens that are no padding")
    return {metric: torch.stack([each[metric] for each in apart]).mean() for metric in apart[0]}


def _reading_cells(
    readings: list[Reading], address: str, probe: Probe, padding: Padding
) -> Callable[[nn.Module, Any], None]:
    (metric,) = probe.spec.metrics

    def read(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if padding() is not None:
            raise ValueError(f"{probe.spec.name} is over positions, but sequences are of different lengths")
        with torch.no_grad():
            kernel = probe.measure(inputs[0].detach().double())
        for row, cells in enumerate(kernel):
            for column in range(row + 1):
                readings.append(Reading(metric.metric, f"{address}[{row},{column}]", cells[column]))

    return read


def _core_measure(probes: list[Probe], core: nn.Module, padding: Padding) -> Measure:
    def measure(q: Tensor, k: Tensor, *_: Any) -> Iterator[Mapping[str, Tensor]]:
        if padding() is not None and isinstance(core, Attend) and core.real_queries is None:
            raise ValueError(
                "sequences have padding, but attention does not know it: set padding or queries of its Attend"
            )
        return (probe.measure(core, q, k) for probe in probes)

    return measure


def _reading_inputs(readings: list[Reading], address: str, measure: Measure) -> Callable[[nn.Module, Any], None]:
    def read(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen = [tensor.detach() for tensor in inputs]
        with torch.no_grad():  # autocast may be on, but does not affect float64
            for numbers in measure(*seen):
                readings.extend(Reading(metric, address, value) for metric, value in numbers.items())

    return read


def _reading_gradients(
    readings: list[Reading], address: str, probes: list[Probe], padding: Padding, scale: float
) -> Callable[[nn.Module, Any], None]:
    """Read the gradient of the first tensor, by a hook that ends with its graph; nothing where there is none.

    The padding is that of the forward pass: when gradients come, the model has forgotten it.
    """

    def _unscaled(gradient: Tensor) -> Tensor:
        return gradient if scale == 1 else gradient.double() / scale

    def follow(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs[0].requires_grad:
            real = padding()
            read = _reading_inputs(readings, address, _stream_measure(probes, lambda: real))
            inputs[0].register_hook(lambda gradient: read(module, (_unscaled(gradient),)))  # type: ignore[no-untyped-call]

    return follow


def _of_output(read: Callable[[nn.Module, Any], None]) -> Callable[[nn.Module, Any, Tensor], None]:
    def follow(module: nn.Module, inputs: Any, output: Tensor) -> None:
        read(module, (output,))

    return follow
