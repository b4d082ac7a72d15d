"""Objective: that of a trial, the batches and examples it makes of the data, and its measurements in an evaluation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import nn

from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Sizes
from ablate.data.batch import Batch, Examples, changed
from ablate.data.uniform import Uniform
from ablate.extension.loader import implementation
from ablate.plan.plan import Trial
from ablate.probes.reading import Probe, Reading
from ablate.probes.watch import padding_of, watching
from ablate.space.metrics import BITS
from ablate.space.recipe import ObjectiveSpec, Recipe
from ablate.train.divergence import check_finite
from ablate.train.events import Row, Timing
from ablate.train.loss import device_of, forward
from ablate.train.microbatches import BatchShares, averaged
from ablate.train.objectives.declare import Given, Objective, Settings


def objective_of(trial: Trial, catalogue: Catalogue) -> Objective:
    return objective_for(trial.work.recipe, trial.work.architecture.sizes, catalogue)


def objective_for(recipe: Recipe, sizes: Sizes, catalogue: Catalogue) -> Objective:
    spec, settings = chosen_objective(recipe, catalogue)
    built: Objective = implementation(spec)(settings, Given(sizes, recipe.loss))
    return built


def chosen_objective(recipe: Recipe, catalogue: Catalogue) -> tuple[ObjectiveSpec, Settings]:
    spec = catalogue.of_kind(ObjectiveSpec)[recipe.objective.name]
    return spec, spec.read(recipe.objective.settings)


class ExampleSource(Protocol):
    """The source of the examples that a batch is made of, by step."""

    def at(self, step: int) -> Batch: ...


@dataclass(frozen=True)
class ObjectiveBatches:
    """The batches of an objective: a function of (seed, step), the same for every variant.

    `size` says how many of the examples drawn for a step are in its batch, the first of them (None: all).
    """

    drawing: ExampleSource
    objective: Objective
    seed: int
    size: Callable[[int], int] | None = None

    def at(self, step: int) -> Batch:
        drawn = Batch(*self.drawing.at(step))
        return _made(self.objective, drawn if self.size is None else first_of(drawn, self.size(step)), self.seed, step)


def first_of(drawn: Batch, examples: int) -> Batch:
    return drawn.each(lambda tensor: tensor[:examples])


def first_batch(objective: Objective, drawn: Batch, seed: int) -> Batch:
    return _made(objective, drawn, seed, 0)


def _made(objective: Objective, drawn: Batch, seed: int, step: int) -> Batch:
    return objective.batch(drawn, Uniform(f"objective/{seed}/{step}"))


def examples_of(drawn: Examples, objective: Objective, trial: Trial, catalogue: Catalogue) -> Examples:
    """The examples of one seed and split are the same for every variant and step."""
    made = objective.batch(drawn.batch, Uniform(f"objective evaluation/{trial.seed}/{trial.split}"))
    of_text = BITS in catalogue.of_kind(ObjectiveSpec)[trial.work.recipe.objective.name].measures
    return Examples(*made, bytes=drawn.bytes if of_text else None)


# The measurements of an objective on the examples of an evaluation, and the readings of probes of activations, averaged
# over batches, since most of these numbers are not linear in the tokens. Dropout is off.

EVAL_LOSS: Final = "eval_loss"


def evaluate(
    model: nn.Module,
    examples: Examples,
    step: int,
    trial: Trial,
    cut: BatchShares,
    objective: Objective,
    probes: Sequence[Probe] = (),
) -> Iterator[Row | Timing]:
    """Compute what the objective measures, batch by batch, and read the `probes` on each batch.

    Batches are divided as training batches are. Sums are in float64, each by the number of its targets:

        bits per byte = sum of nats / (ln 2 x bytes of the targets)

    Nats per token depend on how much text a token holds; bits per byte do not, so models with different tokenizers can
    be compared by them. Examples that do not come from text have no bits per byte.

        Gao et al. 2020, arXiv:2101.00027, Section 3.1
    """
    started = time.perf_counter()
    device, recipe, whole = device_of(model), trial.work.recipe, examples.batch
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
            check_finite(model, parts, recipe.dtype, cut.ranks, **{EVAL_LOSS: summed[EVAL_LOSS] / targets})
            totals = {metric: total + summed[metric] for metric, total in totals.items()}
        if not read:  # more ranks than examples: this one adds nothing, but needs the shapes of what the others sum
            forward(model, changed(whole.inputs, lambda tensor: tensor[:1].to(device)), recipe.dtype)
            read, weights = [readings.copy()], [0.0]
    model.train()
    counts = objective.targets(whole)
    for metric, total in totals.items():
        yield Row(step, metric, "", total / counts[objective.measured[metric]])
        if metric == EVAL_LOSS and examples.bytes is not None:
            tokens = counts[""]
            yield Row(step, "eval_bits_per_byte", "", total / tokens / math.log(2) * (tokens / examples.bytes))
    for reading in averaged(read, weights, cut.ranks):
        yield Row(step, reading.metric, reading.address, reading.value.item())
    yield Timing(step, "evaluation_seconds", time.perf_counter() - started)
