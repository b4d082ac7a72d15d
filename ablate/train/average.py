"""The average of the weights over training, on which a trial is evaluated once more at its end.

    w̄ ← w̄ + r (w - w̄)       after an update that counts, for every trained parameter

    {last: K, every: N}     the mean of K checkpoints, N steps apart, the last at the end: after steps S, S - N, …,
                            S - (K - 1) N of S (those of them that there are); r = 1 / k for the k-th of them
    {ema: d}                w̄_n = Σ_(i≤n) d^(n-i) w_i / Σ_(i≤n) d^(n-i), over every step; r = (1 - d) / (1 - d^n)

One copy of the parameters is held, from the first that counts: the mean of K checkpoints is not made of K copies. Other
state, such as vectors of power iterations, is that of the end. Averaging changes no step, and no other number.

    Vaswani et al. 2017, arXiv:1706.03762, Sec. 6.1, the last checkpoints, as for MuST-C in arXiv:2403.09635, Table 27;
    Polyak & Juditsky 1992, doi:10.1137/0330046; the moving average without a start at 0, as Kingma & Ba 2015,
    arXiv:1412.6980, Sec. 7.2
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ablate.space.documents import AverageOfLast, MovingAverage, Recipe


@dataclass
class WeightAverage:
    """The average of a model's trained parameters: `held` by address, over `taken` of its updates."""

    model: nn.Module
    rule: AverageOfLast | MovingAverage
    steps: int
    taken: int = 0
    held: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def after(self, step: int) -> None:
        """Take in the parameters after `step` updates, if they count."""
        if not self._counts(step):
            return
        self.taken += 1
        rate = self._rate()
        for address, parameter in self._trained():
            if self.taken == 1:
                self.held[address] = parameter.detach().clone()
            else:
                self.held[address].lerp_(parameter, rate)

    def _counts(self, step: int) -> bool:
        if isinstance(self.rule, MovingAverage):
            return True
        before_end = self.steps - step
        return before_end % self.rule.every == 0 and before_end // self.rule.every < self.rule.last

    def _rate(self) -> float:
        if isinstance(self.rule, MovingAverage):
            return (1 - self.rule.ema) / (1 - self.rule.ema**self.taken)
        return 1 / self.taken

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averaged parameters, and its own back on exit; nothing is copied."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for address, parameter in self._trained():
            parameter.data, self.held[address] = self.held[address], parameter.data

    def _trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((address, each) for address, each in self.model.named_parameters() if each.requires_grad)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint has of it."""
        return {"taken": self.taken, "held": self.held}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what a checkpoint has; ValueError where that is not of this model."""
        if type(state["taken"]) is not int or (state["taken"] > 0) != bool(state["held"]):
            raise ValueError("an average is held as soon as something is taken in")
        trained = dict(self._trained())
        if state["held"] and state["held"].keys() != trained.keys():
            raise ValueError("the average has other parameters")
        self.taken = state["taken"]
        self.held = {name: torch.empty_like(trained[name]).copy_(held) for name, held in state["held"].items()}


def average_of(model: nn.Module, recipe: Recipe) -> WeightAverage | None:
    """Return the average that a recipe asks for, before the first update; None if it asks for none."""
    return None if recipe.average is None else WeightAverage(model, recipe.average, recipe.steps)
