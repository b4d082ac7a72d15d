"""AdamW: which parameters decay, which have the embeddings' rate, and the rate of each step.

    m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²
    θ ← θ - η λ θ - η (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps)

A parameter decays (λ > 0) if it is a matrix, which is: it has two dimensions or more, it is not the factor of a gain,
and it is not a table of positions. So weights, the embedding of tokens and the head decay; gains of any shape, the
scales and shifts of norms, biases and positions do not.

    Loshchilov & Hutter 2019, arXiv:1711.05101, as in `torch.optim.AdamW`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn, optim

from ablate.compiler.scale import Scale
from ablate.space.documents import AdamW

EMBEDDINGS = frozenset({"embedding", "positions", "head"})
"""First words of the addresses with the embeddings' rate; a tied head is the embedding's own parameter."""


def build_optimizer(model: nn.Module, settings: AdamW) -> optim.AdamW:
    """AdamW over the groups of `parameter_groups`."""
    groups = parameter_groups(model, settings)
    return optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)


def parameter_groups(model: nn.Module, settings: AdamW) -> list[dict[str, Any]]:
    """At most four groups, decaying or not, of the model or of its embeddings, each with its `peak` rate.

    A group is named `weights` or `embedding`; groups without parameters are left out.
    """
    groups: dict[tuple[str, bool], dict[str, Any]] = {}
    for address, parameter, decays in decaying(model):
        embedding = settings.embedding_lr is not None and address.partition(".")[0] in EMBEDDINGS
        name = "embedding" if embedding else "weights"
        peak = settings.embedding_lr if embedding else settings.lr
        empty: dict[str, Any] = {
            "params": [],
            "name": name,
            "peak": peak,
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        groups.setdefault((name, decays), empty)["params"].append(parameter)
    return list(groups.values())


def decaying(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, bool]]:
    """Every trained parameter once, with its address and whether weight decay acts on it."""
    gains = {id(p) for module in model.modules() if isinstance(module, Scale) for p in module.parameters()}
    for address, parameter in model.named_parameters():
        if parameter.requires_grad:
            matrix = parameter.ndim >= 2 and id(parameter) not in gains and address.partition(".")[0] != "positions"
            yield address, parameter, matrix


def set_rates(optimizer: optim.Optimizer, share: float) -> dict[str, float]:
    """Set every group to `share` of its peak, and give the rate of each name."""
    for group in optimizer.param_groups:
        group["lr"] = share * group["peak"]
    return {group["name"]: group["lr"] for group in optimizer.param_groups}
