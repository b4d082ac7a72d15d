"""Lion: steps of the same size in every coordinate, by the sign of a momentum.

    c = β₁ m + (1 - β₁) g        θ ← θ - η (sign(c) + λ θ)        m ← β₂ m + (1 - β₂) g

The sign weights the newest gradient by β₁, the stored momentum by β₂. A step has size η wherever the gradient is not
zero, so rates are some 3 to 10 times lower than AdamW's, and weight decays as much higher (Sec. 5).

    Chen et al. 2023, arXiv:2302.06675, Alg. 2
"""

from __future__ import annotations

from typing import Any

from ablate.train.optimizers.declare import Betas, Settings, Trained, groups, implements, optimizer


@optimizer("lion", source="Chen et al. 2023, arXiv:2302.06675", version=1)
class Lion(Settings):
    """Lion; `betas` are those of the sign and of the momentum."""

    betas: Betas


import torch
from torch import Tensor, optim

from ablate.train.optimizers.by_parameter import ByParameter


@implements(Lion)
def build(parameters: list[Trained], settings: Lion) -> optim.Optimizer:
    return SignOfMomentum(groups(parameters), {"lr": settings.lr, "betas": settings.betas})


class SignOfMomentum(ByParameter):
    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["mean"] = torch.zeros_like(parameter)
        (beta_1, beta_2), rate, mean = group["betas"], group["lr"], state["mean"]
        sign = (beta_1 * mean + (1 - beta_1) * gradient).sign_()
        parameter.mul_(1 - rate * group["weight_decay"]).sub_(sign, alpha=rate)
        mean.mul_(beta_2).add_(gradient, alpha=1 - beta_2)
