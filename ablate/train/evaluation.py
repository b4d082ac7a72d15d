"""The mean loss over the evaluation windows.

Dimension key: B batch, T time, N evaluation windows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ablate.plan.trial import Trial
from ablate.train.divergence import check_finite
from ablate.train.events import Row, Timing
from ablate.train.loss import cross_entropy, device_of, forward
from ablate.train.parts import Cut


def evaluate(
    model: nn.Module, windows: tuple[Tensor, Tensor], step: int, trial: Trial, cut: Cut
) -> Iterator[Row | Timing]:
    """The mean loss over all windows, a batch of them at a time, cut as batches are; sums in float64."""
    started = time.perf_counter()
    device, recipe = device_of(model), trial.recipe
    total = 0.0
    model.eval()
    with torch.no_grad():
        for first in range(0, len(windows[0]), recipe.batch):
            tokens_BT, targets_BT = (each[first : first + recipe.batch] for each in windows)
            parts = cut.of(tokens_BT, targets_BT, device)
            chunk = torch.zeros((), dtype=torch.float64, device=device)
            for part in parts:
                losses = cross_entropy(forward(model, part.tokens, recipe.dtype), part.targets, reduction="none")
                chunk += losses.double().sum()
            summed = cut.ranks.total(chunk).item()
            check_finite(model, parts, recipe.dtype, cut.ranks, eval_loss=summed / targets_BT.numel())
            total += summed
    model.train()
    yield Row(step, "eval_loss", "", total / windows[1].numel())
    yield Timing(step, "evaluation_seconds", time.perf_counter() - started)
