"""AdamW: Adam with weight decay that is decoupled from the gradient.

    m ← β₁ m + (1 - β₁) g        v ← β₂ v + (1 - β₂) g²        θ ← θ - η λ θ        θ ← θ - η s

    s = (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps)

Decay is decoupled and scaled by η, as in PyTorch, so that a part that learns at half the rate decays at half the rate
(Alg. 2 has the schedule's share instead of η). Released code has the same operations in other orders, which `eps_when`
and `decay_when` choose:

    eps after the correction     s = (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps)        Alg. 1, as PyTorch
    eps before the correction    s = (m / (1 - β₁ᵗ)) sqrt(1 - β₂ᵗ) / (sqrt(v) + eps)      ε̂ of Sec. 2, as Transformers
                                                                                          4.30 (its own AdamW)

The decay of θ comes before the update (as in PyTorch) or after it, where it shrinks the new θ. It is computed in the
parameter's own precision, float64 or float32. PyTorch's order is PyTorch's own `torch.optim.AdamW`, fused.

    Kingma & Ba 2015, arXiv:1412.6980, Alg. 1 and Sec. 2; Loshchilov & Hutter 2019, arXiv:1711.05101, Alg. 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

from ablate.train.optimizers.declare import Betas, Positive, Settings, Trained, groups, implements, optimizer

FUSED = True  # PyTorch's order is computed by its fused kernel; without, the numbers are those of version 1


@optimizer("adamw", source="Loshchilov & Hutter 2019, arXiv:1711.05101", version=2)
class AdamW(Settings):
    """AdamW; `eps_when` and `decay_when` are the order of operations."""

    betas: Betas
    eps: Positive
    eps_when: Literal["after_correction", "before_correction"]
    decay_when: Literal["before_update", "after_update"]


import torch
from torch import Tensor, optim

from ablate.train.optimizers.by_parameter import ByParameter


@implements(AdamW)
def build(parameters: list[Trained], settings: AdamW) -> optim.Optimizer:
    eps_first, decay_last = settings.eps_when == "before_correction", settings.decay_when == "after_update"
    common: dict[str, Any] = {"lr": settings.lr, "betas": settings.betas, "eps": settings.eps}
    if eps_first or decay_last:
        return OrderedAdamW(groups(parameters), **common, eps_first=eps_first, decay_last=decay_last)
    return optim.AdamW(groups(parameters), **common, fused=(FUSED and fusible(parameters)) or None)


def fusible(parameters: Iterable[Trained]) -> bool:
    """PyTorch has fused Adam kernels for real numbers on a CPU or with CUDA."""
    tensors = [each.tensor for each in parameters]
    return all(tensor.is_floating_point() and tensor.device.type in ("cpu", "cuda") for tensor in tensors)


class OrderedAdamW(ByParameter):
    """AdamW where `eps_first` adds eps before the bias correction, and `decay_last` decays after the update."""

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float = 0.0,
        eps_first: bool,
        decay_last: bool,
    ):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.eps_first, self.decay_last = eps_first, decay_last

    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(updates=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        state["updates"] += 1
        (beta_1, beta_2), eps, rate = group["betas"], group["eps"], group["lr"]
        mean = state["mean"].mul_(beta_1).add_(gradient, alpha=1 - beta_1)
        square = state["square"].mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)
        of_mean, of_root = 1 - beta_1 ** state["updates"], math.sqrt(1 - beta_2 ** state["updates"])
        root = (square.sqrt() + eps) / of_root if self.eps_first else square.sqrt() / of_root + eps
        shrink = 1 - rate * group["weight_decay"]
        if not self.decay_last:
            parameter.mul_(shrink)
        parameter.addcdiv_(mean, root, value=-rate / of_mean)
        if self.decay_last:
            parameter.mul_(shrink)
