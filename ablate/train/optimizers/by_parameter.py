"""Optimisers written as the update of a single parameter: the loop over groups, and Adam's direction for those who
need it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, optim


class ByParameter(optim.Optimizer):
    """Updates each parameter by itself, from its gradient, its state and its group."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """There is no `closure`: the gradients are those already there."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, parameter.grad, self.state[parameter], group)

    @abstractmethod
    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Update `parameter` in place. `state` is its own, empty at first; `group["lr"]` is the rate of this step."""


def adam_direction(gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """(m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps), with m, v and t in `state`: arXiv:1412.6980, Alg. 1."""
    if not state:
        state.update(updates=0, mean=torch.zeros_like(gradient), square=torch.zeros_like(gradient))
    state["updates"] += 1
    (beta_1, beta_2), updates = group["betas"], state["updates"]
    mean = state["mean"].mul_(beta_1).add_(gradient, alpha=1 - beta_1)
    square = state["square"].mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)
    root: Tensor = square.sqrt().div_(math.sqrt(1 - beta_2**updates)).add_(group["eps"])
    direction: Tensor = mean / (1 - beta_1**updates)
    return direction.div_(root)
