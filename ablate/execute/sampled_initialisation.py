"""A sampled initialisation: what a model measures in one forward and backward pass before a single step.

It is the second opinion on a forecast (`ablate/theory/models.py`), with its numbers: the streams behind each layer,
and the gradient of a loss whose gradient behind the final norm is independent from entry to entry. Weights, dropout
and that gradient follow from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.compiler import compile_model
from ablate.compiler.data_dependent_init import profile
from ablate.data.batch import Tensors
from ablate.theory.initial_state import InitialModel, InitialStream, mean_cosine
from ablate.theory.sequences import mean_of


def sampled_initialisation(
    architecture: Architecture,
    catalogue: Catalogue,
    inputs: Tensors,
    *,
    seed: int,
    apart: bool = False,
    of_logs: bool = False,
) -> InitialModel:
    """Sample the weights of a model and pass its inputs through it, in training, in float32.

    These are tokens [B, T], images or features [B, …], or a source and tokens. What starts from data starts from them.
    The numbers are those of the mean kernel of all inputs, as `forecast` has them of tokens that repeat by chance; or,
    if sequences are to be `apart`, means of the numbers of each, as `forecast_sequences` has them. With `of_logs` these
    are geometric means, as `forecast_patterns` has them. The two differ: in a
    mean kernel, sequences of larger tokens count for more. Raises InputError as `compile_model` does.
    """
    encoder = architecture.kind == "encoder_decoder"
    with torch.random.fork_rng():
        model = compile_model(architecture, catalogue, seed=seed)
        profile(model, inputs)
        model.train()
        torch.manual_seed(seed)
        with _streams_of(model.encoder if encoder else nn.ModuleDict()) as encoded:  # type: ignore[arg-type]
            streams, behind, logits = passed(model, inputs)
        gradients = torch.autograd.grad(behind, [*streams, *encoded], torch.randn_like(behind))
    given, layers = (inputs,) if isinstance(inputs, Tensor) else inputs, len(streams)
    squares = torch.linalg.vector_norm(logits.flatten(1), dim=1, dtype=torch.float64).square() / logits[0].numel()

    def state(rows: slice) -> InitialModel:
        backward = [g[rows] for g in gradients]
        decoder = _state([x[rows] for x in streams], backward[:layers], given[-1][rows], squares[rows])
        if not encoder:
            return decoder
        return replace(decoder, encoder=_state([x[rows] for x in encoded], backward[layers:], given[0][rows], None))

    if not apart:
        return state(slice(None))
    return mean_of([state(slice(k, k + 1)) for k in range(len(squares))], of_logs=of_logs)


def _state(
    streams: Sequence[Tensor], gradients: Sequence[Tensor], inputs: Tensor, squared_logits: Tensor | None
) -> InitialModel:
    """Return the numbers of a stack of layers; gradients are over that behind the last."""
    reference = float(gradients[-1].double().square().mean())
    return InitialModel(
        tuple(
            _measured(layer, x.detach(), g, reference)
            for layer, (x, g) in enumerate(zip(streams, gradients, strict=True))
        ),
        logits=math.nan if squared_logits is None else float(squared_logits.mean()),
        repetition=math.nan if inputs.is_floating_point() else _repetition(inputs),
        computed=frozenset(range(len(streams))),
    )


@contextmanager
def _streams_of(stack: nn.ModuleDict) -> Iterator[list[Tensor]]:
    """Give a list that has, after a pass, the stream in front of the first layer and behind each."""
    layers = list(stack.values())
    streams: list[Tensor] = []
    hooks = [layer.register_forward_pre_hook(lambda _, given: streams.append(given[0])) for layer in layers]
    hooks += [layer.register_forward_hook(lambda _, given, behind: streams.append(behind)) for layer in layers[-1:]]
    try:
        yield streams
    finally:
        for hook in hooks:
            hook.remove()


def passed(model: nn.Module, inputs: Tensors) -> tuple[list[Tensor], Tensor, Tensor]:
    """Return the stream in front of the first layer and behind each, what is behind the final norm, and the logits."""
    ends: list[Tensor] = []

    def leaves(_: nn.Module, given: Any, output: Tensor) -> None:
        ends.append(output)

    with _streams_of(model.layers) as streams, ExitStack() as attached:  # type: ignore[arg-type]
        if isinstance(model.final_norm, nn.Module):
            attached.callback(model.final_norm.register_forward_hook(leaves).remove)
        output = model(*((inputs,) if isinstance(inputs, Tensor) else inputs))
    logits: Tensor = output[0] if isinstance(output, tuple) else output
    return streams, ends[-1] if ends else streams[-1], logits.detach()


def _measured(layer: int, x: Float[Tensor, "B T D"], g: Float[Tensor, "B T D"], reference: float) -> InitialStream:
    kernel, gradient = _kernel(x), _kernel(g)
    return InitialStream(
        layer=layer,
        mean_square=float(kernel.diagonal().mean()),
        correlation=mean_cosine(kernel.numpy()),
        gradient=float(gradient.diagonal().mean()) / reference if reference else math.nan,
        gradient_correlation=mean_cosine(gradient.numpy()),
        kernel=kernel.numpy(),
    )


def _kernel(x: Float[Tensor, "B T D"]) -> Float[Tensor, "T T"]:
    """Return the mean over sequences of x xᵀ / d, in float64."""
    wide = x.double()
    return torch.einsum("btd,bsd->ts", wide, wide) / (len(x) * x.shape[-1])


def _repetition(tokens: Int[Tensor, "B T"]) -> float:
    """Return the share of pairs of two places of a sequence with the same token."""
    length = tokens.shape[1]
    same = (tokens[:, :, None] == tokens[:, None]).sum() - tokens.numel()
    return float(same) / (len(tokens) * length * (length - 1)) if length > 1 else 0.0
