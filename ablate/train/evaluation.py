"""What an objective measures on the examples of an evaluation, and the readings of probes.

Probes of activations read here, on held-out data, like the loss that they are judged beside: on all examples of the
seed, averaged over batches, since most of these numbers are not linear in the tokens. Dropout is off, and nothing is
learned from these examples.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import nn

from ablate.data.batch import changed
from ablate.data.batches import Examples
from ablate.plan.trial import Trial
from ablate.probes.reading import Probe, Reading
from ablate.probes.watch import padding_of, watching
from ablate.train.divergence import check_finite
from ablate.train.events import Row, Timing
from ablate.train.loss import device_of, forward
from ablate.train.microbatches import BatchShares, averaged
from ablate.train.objectives.declare import Objective

LOSS: Final = "eval_loss"


def evaluate(
    model: nn.Module,
    examples: Examples,
    step: int,
    trial: Trial,
    cut: BatchShares,
    objective: Objective,
    probes: Sequence[Probe] = (),
) -> Iterator[Row | Timing]:
    """Compute what the objective measures, batch by batch, divided as training batches are, and read the `probes` on
    each batch; sums in float64, each by the number of its targets.

        bits per byte = sum of nats / (ln 2 x bytes of the targets)

    Nats per token depend on how much text a token holds; bits per byte do not, so models with different tokenizers can
    be compared by them. Examples that do not come from text have no bits per byte.

        Gao et al. 2020, arXiv:2101.00027, Section 3.1
    """
    started = time.perf_counter()
    device, recipe, whole = device_of(model), trial.recipe, examples.batch
    totals = dict.fromkeys(objective.measured, 0.0)
    read: list[list[Reading]] = []
    weights: list[float] = []
    model.eval()
    with torch.no_grad(), watching(model, probes, padding_of(model)) as readings:
        for start in range(0, whole.examples, recipe.batch):
            batch = whole.each(lambda tensor, at=start: tensor[at : at + recipe.batch])  # type: ignore[misc]
            parts = cut.of(batch, device, objective)
            sums = torch.zeros(len(totals), dtype=torch.float64, device=device)
            for part in parts:
                sums += torch.stack([*objective.measures(forward(model, part.inputs, recipe.dtype), part.batch)])
                read.append(readings.copy())
                weights.append(part.batch.examples / whole.examples)
                readings.clear()
            summed = dict(zip(totals, cut.ranks.total(sums).tolist(), strict=True))
            targets = objective.targets(batch)[""]
            check_finite(model, parts, recipe.dtype, cut.ranks, **{LOSS: summed[LOSS] / targets})
            totals = {metric: total + summed[metric] for metric, total in totals.items()}
        if not read:  # more ranks than examples: this one adds nothing, but needs the shapes of what the others sum
            forward(model, changed(whole.inputs, lambda tensor: tensor[:1].to(device)), recipe.dtype)
            read, weights = [readings.copy()], [0.0]
    model.train()
    counts = objective.targets(whole)
    for metric, total in totals.items():
        yield Row(step, metric, "", total / counts[objective.measured[metric]])
        if metric == LOSS and examples.bytes is not None:
            tokens = counts[""]
            yield Row(step, "eval_bits_per_byte", "", total / tokens / math.log(2) * (tokens / examples.bytes))
    for reading in averaged(read, weights, cut.ranks):
        yield Row(step, reading.metric, reading.address, reading.value.item())
    yield Timing(step, "evaluation_seconds", time.perf_counter() - started)
