"""The scale of the loss in float16, whose smallest gradients would be 0, and the steps that it skips.

    ∂(S L)/∂θ / S = ∂L/∂θ       S: what the loss is multiplied by before the backward pass, and the gradients divided by

    a gradient is not finite    the step makes no update; S ← S / 2
    otherwise                   the step is made; after `every` such steps in a row S ← 2 S, at most 2²⁴

S begins at `initial`. Powers of 2 round nothing. A skipped step counts as a step: its batch is used up, and the
schedule moves on. Each is recorded: `loss_scale` is S of the step, `skipped_steps` how many were skipped so far. Where
S is 1 a gradient that is not finite is no matter of the scale, and the trial has diverged, as it has wherever the loss
itself is not finite, since no scale changes the forward pass.

    Micikevicius et al. 2018, arXiv:1710.03740, Sec. 3.2 and 4; every 2000 steps, as in `torch.amp.GradScaler`
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ablate.space.documents import LossScale, Recipe
from ablate.train.definitions import LOSS_SCALE, SKIPPED

LARGEST: Final = 2.0**24


@dataclass
class LossScaling:
    """The scale of the next step, the steps made in a row since it last changed, and those skipped since the first."""

    every: int
    scale: float
    made: int = 0
    skipped: int = 0

    def skips(self, gradient_norm: float) -> bool:
        """Return whether a step with that gradient is skipped; if not, and it is not finite, the trial has diverged."""
        return self.scale > 1 and not math.isfinite(gradient_norm)

    def after(self, skipped: bool) -> dict[str, float]:
        """Set the scale of the next step, and return what is recorded of this one."""
        used = self.scale
        if skipped:
            self.scale, self.made, self.skipped = max(1.0, used / 2), 0, self.skipped + 1
        else:
            self.made += 1
            if self.made == self.every:
                self.scale, self.made = min(LARGEST, 2 * used), 0
        return {LOSS_SCALE: used, SKIPPED: float(self.skipped)}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint has of it."""
        return {"scale": self.scale, "made": self.made, "skipped": self.skipped}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore what a checkpoint has."""
        self.scale, self.made, self.skipped = float(state["scale"]), int(state["made"]), int(state["skipped"])


def loss_scaling(recipe: Recipe) -> LossScaling | None:
    """Return the scaling of a recipe in float16, before the first step; None in another dtype."""
    if recipe.dtype != "float16":
        return None
    rule = recipe.loss_scale or LossScale()
    return LossScaling(rule.every, float(rule.initial))


@torch.no_grad()
def unscale(gradients: Iterable[Tensor], scale: float) -> None:
    """Divide the gradients of a scaled loss by its scale, in place."""
    if scale != 1:
        for gradient in gradients:
            gradient.div_(scale)
