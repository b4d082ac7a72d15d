"""The mean loss over the evaluation windows, and the readings of probes.

Probes of activations read here, on held-out text, like the loss that they are judged beside: on all windows of the
seed, averaged over batches, since most of these numbers are not linear in the tokens. Dropout is off, and nothing is
learned from this text.

Dimension key: B batch, T time, N evaluation windows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from ablate.data.batches import Windows
from ablate.plan.trial import Trial
from ablate.probes.reading import Probe, Reading
from ablate.probes.watch import watching
from ablate.train.divergence import check_finite
from ablate.train.events import Row, Timing
from ablate.train.loss import cross_entropy, device_of, forward
from ablate.train.microbatches import BatchShares, averaged


def evaluate(
    model: nn.Module, windows: Windows, step: int, trial: Trial, cut: BatchShares, probes: Sequence[Probe] = ()
) -> Iterator[Row | Timing]:
    """Compute the mean loss over all windows, batch by batch, divided as training batches are, and read the `probes` on
    each batch; sums in float64.

        bits per byte = sum of nats / (ln 2 x bytes of the targets)

    Nats per token depend on how much text a token holds; bits per byte do not, so models with different tokenizers can
    be compared by them. Windows that do not come from text have no bits per byte.

        Gao et al. 2020, arXiv:2101.00027, Section 3.1
    """
    started = time.perf_counter()
    device, recipe = device_of(model), trial.recipe
    total = 0.0
    read: list[list[Reading]] = []
    weights: list[float] = []
    model.eval()
    with torch.no_grad(), watching(model, probes) as readings:
        for first in range(0, len(windows.tokens), recipe.batch):
            tokens_BT, targets_BT = (each[first : first + recipe.batch] for each in (windows.tokens, windows.targets))
            parts = cut.of(tokens_BT, targets_BT, device)
            chunk = torch.zeros((), dtype=torch.float64, device=device)
            for part in parts:
                losses = cross_entropy(forward(model, part.tokens, recipe.dtype), part.targets, reduction="none")
                chunk += losses.double().sum()
                read.append(readings.copy())
                weights.append(len(part.tokens) / len(windows.tokens))
                readings.clear()
            summed = cut.ranks.total(chunk).item()
            check_finite(model, parts, recipe.dtype, cut.ranks, eval_loss=summed / targets_BT.numel())
            total += summed
        if not read:  # more ranks than windows: this one adds nothing, but needs the shapes of what the others sum
            forward(model, windows.tokens[:1].to(device), recipe.dtype)
            read, weights = [readings.copy()], [0.0]
    model.train()
    tokens = windows.targets.numel()
    yield Row(step, "eval_loss", "", total / tokens)
    if windows.bytes is not None:
        yield Row(step, "eval_bits_per_byte", "", total / tokens / math.log(2) * (tokens / windows.bytes))
    for reading in averaged(read, weights, cut.ranks):
        yield Row(step, reading.metric, reading.address, reading.value.item())
    yield Timing(step, "evaluation_seconds", time.perf_counter() - started)
