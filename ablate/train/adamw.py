"""AdamW with the choices that released code makes differently, one rule for each group of parameters.

    m ← β₁ m + (1 - β₁) g        v ← β₂ v + (1 - β₂) g²        θ ← θ - η s        θ ← θ - η λ θ

    eps after the correction     s = (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps)        Alg. 1, as PyTorch
    eps before the correction    s = (m / (1 - β₁ᵗ)) sqrt(1 - β₂ᵗ) / (sqrt(v) + eps)      ε̂ of Sec. 2, as Transformers
                                                                                          4.30 (its own AdamW)

The decay of θ comes before the update (as in PyTorch) or after it, where it shrinks the new θ. In float64 or float32,
whichever the parameter has. The update number t is a plain number of the state: it saves and loads to the same bits.

    Kingma & Ba 2015, arXiv:1412.6980, Alg. 1 and Sec. 2; Loshchilov & Hutter 2019, arXiv:1711.05101, Alg. 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, optim


class OrderedAdamW(optim.Optimizer):
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

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient. There is no `closure`: the gradients are those already there."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
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
