"""Variants that start alike: the same parameters, outputs, gradients and first update, on one batch, in float64.

A plan folds what it knows to be one model (`plan/effective.py`). Of what is left, two variants trained alike may still
be one model that is written in two ways, which a component does not tell, or differ only in what acts later, such as a
bound that no number reaches yet. Both are told before anything is trained, as neither can differ at the start.

Only variants of one recipe, text and number of parameters are built, each at the first seed, on two examples of its
first batch: sums over the logits of each token must agree to 1e-9 of the largest, and over each parameter, its gradient
and its change to 1e-6.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.block.catalogue import Catalogue
from ablate.block.fingerprint import digest
from ablate.errors import InputError
from ablate.output.escape import visible
from ablate.output.words import listed
from ablate.plan.effective import effective_recipe
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.data.streams import TokenStreams

MOST = 2e8
"""The numbers, parameters and activations together, up to which a model is built for this: in float64 some 2 GB."""
EXAMPLES = 2


def starting_alike(
    plan: Plan, catalogue: Catalogue, cache: Path, to_run: Collection[Trial] | None = None
) -> tuple[str, ...]:
    """Return a line for each set of variants that start alike, and one for those that could not be asked, and why.

    Sets of which no variant has a trial `to_run` are left out (None: none is). Nothing is raised: this only tells.
    """
    earliest: dict[str, Trial] = {}
    for trial in plan.trials:
        earliest.setdefault(trial.variant, trial)
    waiting = earliest.keys() if to_run is None else {trial.variant for trial in to_run}
    sets: dict[tuple[object, ...], list[Trial]] = {}
    for variant in plan.variants:
        if variant.id in earliest and variant.setting.salt == 0:
            trial = earliest[variant.id]
            recipe = digest(effective_recipe(trial.recipe, trial.architecture, catalogue))
            sets.setdefault((recipe, trial.corpus, trial.seed, variant.parameters), []).append(trial)
    candidates = [trials for trials in sets.values() if len(trials) > 1 and any(t.variant in waiting for t in trials)]
    name = {variant.id: variant.name for variant in plan.variants}
    lines: list[str] = []
    failed: dict[str, list[str]] = {}
    texts: dict[str, TokenStreams] = {}
    for trials in candidates:
        starts: list[tuple[Start, list[str]]] = []
        for trial in trials:
            try:
                start = start_of(trial, catalogue, cache, texts)
            except Exception as error:  # noqa: BLE001  a component may raise anything, and training may still work
                failed.setdefault(visible(str(error).partition("\n")[0]) or type(error).__name__, []).append(
                    name[trial.variant]
                )
                continue
            same = next((names for other, names in starts if start.like(other)), None)
            if same is None:
                starts.append((start, [name[trial.variant]]))
            else:
                same.append(name[trial.variant])
        lines += [
            f"{listed(names)} start alike: the same parameters, logits, gradients and first update, in float64; they "
            "are one model unless something acts later"
            for _, names in starts
            if len(names) > 1
        ]
    lines += [f"not asked whether they start alike: {listed(names)} ({why})" for why, names in failed.items()]
    return tuple(lines)


def numbers_of(trial: Trial) -> float:
    """Return about how many numbers a pass over the examples holds: parameters, and activations of every layer."""
    sizes = trial.architecture.sizes
    length = max(sizes.seq_len, sizes.source_len or 0)
    pairs, streams = sizes.n_heads * length, 20 * sizes.d_model
    held = sizes.n_layers * (pairs + streams + 12 * sizes.d_model**2 / (EXAMPLES * length)) + 3 * sizes.vocab_size
    return EXAMPLES * length * held + 2 * sizes.vocab_size * sizes.d_model


def start_of(trial: Trial, catalogue: Catalogue, cache: Path, texts: dict[str, TokenStreams]) -> Start:
    """Build the model of a trial in float64, and make its first update; `texts` holds those that were read.

    Raises InputError for a model that is too large, and whatever building and training it raise.
    """
    if numbers_of(trial) > MOST:
        raise InputError("too large")
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

    if trial.corpus not in texts:
        texts[trial.corpus] = prepare(trial.data, Path(trial.folder), cache, catalogue)
    spec, settings = chosen_objective(trial.recipe, catalogue)
    sizes = trial.architecture.sizes
    drawn = drawing_of(texts[trial.corpus], spec, settings, sizes, trial.recipe, trial.seed).at(0)
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
    rows = ([value for each in of for value in _sums(each)] for of in zip(before, gradients, changes, strict=True))
    tokens = outputs.flatten(0, -2) if outputs.ndim > 1 else outputs[None]
    return Start(
        outputs=torch.tensor([_sums(token) for token in tokens], dtype=torch.float64),
        sums=torch.tensor(sorted(rows), dtype=torch.float64),
    )


def _sums(tensor: Tensor) -> tuple[float, float, float]:
    """Return the sum of squares, the sum, and a sum in which no two places weigh the same."""
    import torch

    flat = tensor.detach().flatten()
    weights = torch.arange(1, flat.numel() + 1, dtype=torch.float64).sqrt().sin()
    return float(flat.square().sum()), float(flat.sum()), float(flat @ weights)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The start of a training: sums over the logits of each token, [N, 3], and over each parameter, its gradient and
    its change, [P, 9].
    """

    outputs: Tensor
    sums: Tensor

    def like(self, other: Start) -> bool:
        """Return whether two models start alike, but for the order of their parameters and for rounding."""
        if self.outputs.shape != other.outputs.shape or self.sums.shape != other.sums.shape:
            return False
        pairs = ((self.outputs, other.outputs, 1e-9), (self.sums, other.sums, 1e-6))
        return all(_close(one, two, tolerance) for one, two, tolerance in pairs)


def _close(one: Tensor, two: Tensor, tolerance: float) -> bool:
    """Return whether all numbers agree to a share of the largest in their column."""
    return bool(((one - two).abs() <= tolerance * one.abs().amax(0)).all())
