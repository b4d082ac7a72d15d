"""AdamW: which parameters decay, which learn at another rate, and the rate of each step.

    m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²
    θ ← θ - η λ θ - η (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps)

A group's η is its peak (the recipe's rate, or the embeddings') times the schedule's share of the step, times the
multiple that a part asks for its parameter (`rates`). Decay is decoupled: η λ, so a part that learns at half the rate
decays at half the rate. `eps_when` and `decay_when` choose the order that other code uses: `ablate/train/adamw.py`.

A parameter is of one kind, and decays if the recipe's `decays` names it:

    embedding, head, positions   by its address: the table of tokens (a tied head is the same), the head, the positions
    gains                        the factor of a gain, of any shape
    weights                      what else has two dimensions or more
    biases                       what else is called bias
    scales                       everything else: the scales of norms, other single numbers and vectors

    Loshchilov & Hutter 2019, arXiv:1711.05101, as in `torch.optim.AdamW`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn, optim

from ablate.compiler.scale import Scale
from ablate.space.documents import AdamW, DecayKind
from ablate.train.adamw import OrderedAdamW

EMBEDDINGS = frozenset({"embedding", "positions", "head"})
"""First words of the addresses with the embeddings' rate; a tied head is the embedding's own parameter."""


def build_optimizer(model: nn.Module, settings: AdamW) -> optim.Optimizer:
    """AdamW over the groups of `parameter_groups`, in the order of operations that is set."""
    groups = parameter_groups(model, settings)
    eps_first, decay_last = settings.eps_when == "before_correction", settings.decay_when == "after_update"
    common: dict[str, Any] = {"lr": settings.lr, "betas": settings.betas, "eps": settings.eps}
    if eps_first or decay_last:
        return OrderedAdamW(groups, **common, eps_first=eps_first, decay_last=decay_last)
    return optim.AdamW(groups, **common)


def parameter_groups(model: nn.Module, settings: AdamW) -> list[dict[str, Any]]:
    """A group for each rate and decay: of the model or of its embeddings, decaying or not, by multiples of the rate.

    A group is named `weights` or `embedding`, and learns at `multiple` times `peak`; those without parameters are left
    out.
    """
    groups: dict[tuple[str, bool, float], dict[str, Any]] = {}
    multiples = rate_multiples(model)
    for address, parameter, decays in decaying(model, settings.decays):
        embedding = settings.embedding_lr is not None and address.partition(".")[0] in EMBEDDINGS
        name = "embedding" if embedding else "weights"
        multiple = multiples.get(address, 1.0)
        empty: dict[str, Any] = {
            "params": [],
            "name": name,
            "peak": settings.embedding_lr if embedding else settings.lr,
            "multiple": multiple,
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        groups.setdefault((name, decays, multiple), empty)["params"].append(parameter)
    return list(groups.values())


def rate_multiples(model: nn.Module) -> dict[str, float]:
    """The multiples of the rate that parts ask for, by the address of the parameter."""
    return {
        f"{address}.{name}".lstrip("."): float(multiple)
        for address, module in model.named_modules()
        for name, multiple in getattr(module, "rates", {}).items()
    }


def decaying(model: nn.Module, decays: tuple[DecayKind, ...]) -> Iterator[tuple[str, nn.Parameter, bool]]:
    """Every trained parameter once, with its address and whether weight decay acts on it."""
    gains = {id(p) for module in model.modules() if isinstance(module, Scale) for p in module.parameters()}
    for address, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield address, parameter, _kind(address, parameter, gain=id(parameter) in gains) in decays


def _kind(address: str, parameter: nn.Parameter, *, gain: bool) -> DecayKind:
    match address.partition(".")[0]:
        case "embedding" | "head" | "positions" as place:
            return place
    if gain:
        return "gains"
    if parameter.ndim >= 2:
        return "weights"
    return "biases" if address.rpartition(".")[2] == "bias" else "scales"


def set_rates(optimizer: optim.Optimizer, share: float) -> dict[str, float]:
    """Set every group to `share` of its peak, times its multiple; give the rate of each name, without multiples."""
    for group in optimizer.param_groups:
        group["lr"] = share * group["peak"] * group["multiple"]
    return {group["name"]: share * group["peak"] for group in optimizer.param_groups}
