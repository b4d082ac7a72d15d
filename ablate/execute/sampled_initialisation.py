"""A sampled initialisation: what a model measures in one forward and backward pass before a single step.

It is the second opinion on a forecast (`ablate/theory/models.py`), with its numbers: the streams behind each layer,
and the gradient of a loss whose gradient behind the final norm is independent from entry to entry. Weights, dropout
and that gradient follow from the seed.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.compiler import compile_model
from ablate.compiler.data_dependent_init import profile
from ablate.theory.initial_state import InitialModel, InitialStream, mean_cosine


def sampled_initialisation(
    architecture: Architecture, catalogue: Catalogue, tokens: Int[Tensor, "B T"], *, seed: int
) -> InitialModel:
    """Sample the weights of a model and pass tokens through it, in training, in float32.

    What starts from data starts from these tokens.
    Raises InputError as `compile_model` does.
    """
    with torch.random.fork_rng():
        model = compile_model(architecture, catalogue, seed=seed)
        profile(model, tokens)
        model.train()
        torch.manual_seed(seed)
        streams, behind, logits = passed(model, tokens)
        gradients = torch.autograd.grad(behind, streams, torch.randn_like(behind))
    reference = float(gradients[-1].double().square().mean())
    return InitialModel(
        tuple(
            _measured(layer, x.detach(), g, reference)
            for layer, (x, g) in enumerate(zip(streams, gradients, strict=True))
        ),
        logits=float(logits.double().square().mean()),
        repetition=_repetition(tokens),
        computed=frozenset(range(len(streams))),
    )


def passed(model: nn.Module, tokens: Int[Tensor, "B T"]) -> tuple[list[Tensor], Tensor, Tensor]:
    """Return the stream in front of the first layer and behind each, what is behind the final norm, and the logits."""
    layers: list[nn.Module] = list(model.layers.values())  # type: ignore[operator]
    streams: list[Tensor] = []
    ends: list[Tensor] = []

    def enters(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        streams.append(inputs[0])

    def leaves(_: nn.Module, inputs: Any, output: Tensor) -> None:
        ends.append(output)

    hooks = [layer.register_forward_pre_hook(enters) for layer in layers]
    hooks.append(layers[-1].register_forward_hook(leaves))
    if isinstance(model.final_norm, nn.Module):
        hooks.append(model.final_norm.register_forward_hook(leaves))
    try:
        output = model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    logits: Tensor = output[0] if isinstance(output, tuple) else output
    return [*streams, ends[0]], ends[-1], logits.detach()


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
