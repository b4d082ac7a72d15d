"""Variants that start alike: the same parameters, outputs, gradients and first update, on one batch, in float64.

A plan folds what it knows to be one model (`plan/effective.py`). Of what is left, two variants trained alike may still
be one model that is written in two ways, which a component does not tell, or differ only in what acts later, such as a
bound that no number reaches yet. Both are told before anything is trained, as neither can differ at the start.

Only variants of one recipe, text and number of parameters are built, each at the first seed, on two examples of its
first batch: logits must agree to 1e-9 of their size, and sums over each parameter, its gradient and its change to 1e-6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.block.catalogue import Catalogue
from ablate.block.fingerprint import digest
from ablate.output.words import listed
from ablate.plan.effective import effective_recipe
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial

if TYPE_CHECKING:
    from torch import Tensor

MOST = 30_000_000
"""The parameters up to which a model is built for this: in float64, with gradients and an update, about 1 GB."""
EXAMPLES = 2


def starting_alike(plan: Plan, catalogue: Catalogue, cache: Path) -> tuple[str, ...]:
    """Return a line for each set of variants that start alike, and one for those that were too large to be asked."""
    earliest: dict[str, Trial] = {}
    for trial in plan.trials:
        earliest.setdefault(trial.variant, trial)
    sets: dict[tuple[object, ...], list[Trial]] = {}
    for variant in plan.variants:
        if variant.id in earliest and variant.setting.salt == 0:
            trial = earliest[variant.id]
            recipe = digest(effective_recipe(trial.recipe, trial.architecture, catalogue))
            sets.setdefault((recipe, trial.corpus, trial.seed, variant.parameters), []).append(trial)
    lines, large = [], []
    for (*_, parameters), trials in sets.items():
        if len(trials) < 2:
            continue
        names = {trial.variant: plan.variant(trial.variant).name for trial in trials}
        if isinstance(parameters, int) and parameters > MOST:
            large += list(names.values())
            continue
        for alike in _alike(trials, catalogue, cache):
            lines.append(
                f"{listed([names[trial.variant] for trial in alike])} start alike: the same parameters, logits, "
                "gradients and first update, in float64; they are one model unless something acts later"
            )
    if large:
        lines.append(f"not asked whether they start alike, for their size: {listed(large)}")
    return tuple(lines)


def _alike(trials: list[Trial], catalogue: Catalogue, cache: Path) -> Iterator[list[Trial]]:
    """Yield the sets of two or more trials that start alike."""
    starts: list[tuple[Start, list[Trial]]] = []
    for trial in trials:
        start = start_of(trial, catalogue, cache)
        same = next((each for other, each in starts if start.like(other)), None)
        if same is None:
            starts.append((start, [trial]))
        else:
            same.append(trial)
    yield from (each for _, each in starts if len(each) > 1)


def start_of(trial: Trial, catalogue: Catalogue, cache: Path) -> Start:
    """Build the model of a trial in float64, and make its first update."""
    import torch

    from ablate.compiler import compile_model
    from ablate.compiler.data_dependent_init import profile
    from ablate.compiler.random_streams import seeded, stream_seed
    from ablate.data.batch import Batch, first
    from ablate.data.streams import prepare
    from ablate.execute.drawing import drawing_of
    from ablate.space.rate_schedule import rate_schedule
    from ablate.train.clipping import clip_gradients, gradient_norm
    from ablate.train.loop import WHOLE
    from ablate.train.loss import forward
    from ablate.train.microbatches import Passes
    from ablate.train.objective import chosen_objective, first_batch, first_of, objective_of
    from ablate.train.optimizer import build_optimizer, set_rates

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    streams = prepare(trial.data, Path(trial.folder), cache, catalogue)
    spec, settings = chosen_objective(trial.recipe, catalogue)
    drawn = drawing_of(streams, spec, settings, trial.architecture.sizes, trial.recipe, trial.seed).at(0)
    objective = objective_of(trial, catalogue)
    batch = first_batch(objective, first_of(Batch(*drawn), EXAMPLES), trial.seed).each(wide)
    with seeded(stream_seed(trial.seed, trial.salt, "before training")):
        model = compile_model(trial.architecture, catalogue, seed=trial.seed, dtype=torch.float64)
        profile(model, batch.inputs)
        with torch.no_grad():
            outputs = first(forward(model.eval(), batch.inputs, "float64"))
        optimizer = build_optimizer(model.train(), trial.recipe.optimizer, catalogue)
        set_rates(optimizer, rate_schedule(trial.recipe, catalogue)(0) or 1.0)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        Passes(model, "float64", WHOLE, objective).backward(WHOLE.of(batch, torch.device("cpu"), objective))
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]
        clip_gradients(model, trial.recipe.clip, gradient_norm(model))
        optimizer.step()
        changes = [after.detach() - then for after, then in zip(model.parameters(), before, strict=True)]
    sums = ([value for each in of for value in _sums(each)] for of in zip(before, gradients, changes, strict=True))
    return Start(outputs=outputs, sums=torch.tensor(sorted(sums), dtype=torch.float64))


def _sums(tensor: Tensor) -> tuple[float, float, float]:
    """Return the sum of squares, the sum, and a sum in which no two places weigh the same."""
    import torch

    flat = tensor.detach().flatten()
    weights = torch.arange(1, flat.numel() + 1, dtype=torch.float64).sqrt().sin()
    return float(flat.square().sum()), float(flat.sum()), float(flat @ weights)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The start of a training: the outputs, and sums over each parameter, its gradient and its change, [P, 9]."""

    outputs: Tensor
    sums: Tensor

    def like(self, other: Start) -> bool:
        """Return whether two models start alike, but for the order of their parameters and for rounding."""
        if self.outputs.shape != other.outputs.shape or self.sums.shape != other.sums.shape:
            return False
        pairs = ((self.outputs.reshape(-1, 1), other.outputs.reshape(-1, 1), 1e-9), (self.sums, other.sums, 1e-6))
        return all(_close(one, two, tolerance) for one, two, tolerance in pairs)


def _close(one: Tensor, two: Tensor, tolerance: float) -> bool:
    """Return whether all numbers agree to a share of the largest in their column."""
    return bool(((one - two).abs() <= tolerance * one.abs().amax(0)).all())
