"""Zero-cost measures of a model before training: counted, or measured on one batch at initialisation.

    parameters           trained, of the whole model
    flops                of matrix products in one forward pass over one sequence
    start_loss           L(θ_0), the loss of the objective on the first training batch
    start_gradient_norm  |∂L/∂θ| at θ_0 on the same batch, the 2-norm over all parameters

The start is that of the space's first seed: the initialisation and the first batch of its trial, in the recipe's dtype,
computed on the CPU whatever trains the model, with the space's threads, so that a search that is resumed elsewhere
orders its proposals as before. The model is in evaluation mode: no dropout, and no running state changes. If it has
neither, these are the first `train_loss` and `gradient_norm` of that trial on CPU, to the bit.

Ranking architectures by their gradients at initialisation: Abdelfattah et al. 2021, arXiv:2101.08134 (`grad_norm`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.space.batch_ramp import smallest_batch
from ablate.space.design import ZeroCost
from ablate.space.documents import Recipe

if TYPE_CHECKING:
    from ablate.data.batch import Batch

MEASURED: tuple[ZeroCost, ...] = ("start_loss", "start_gradient_norm")
"""The measures that need a batch."""


@dataclass(frozen=True, slots=True)
class InitialModel:
    """The measurements of a model at initialisation. A non-finite number is a property of the model, not an error."""

    loss: float
    gradient_norm: float


def measure_start(
    architecture: Architecture,
    catalogue: Catalogue,
    recipe: Recipe,
    drawn: Batch,
    *,
    seed: int,
    threads: int,
) -> InitialModel:
    """Measure the loss and gradient norm of a model at `seed`, on a batch made of what is `drawn` for the first step.

    Raises InputError if the model cannot be built.
    """
    from ablate.compiler import compile_model
    from ablate.compiler.data_dependent_init import profile
    from ablate.compiler.random_streams import seeded, stream_seed
    from ablate.train.clipping import gradient_norm
    from ablate.train.loss import forward, parameter_type
    from ablate.train.loss_scale import loss_scaling, unscale
    from ablate.train.objective import first_batch, first_of, objective_for

    objective = objective_for(recipe, architecture.sizes, catalogue)
    batch = first_batch(objective, first_of(drawn, smallest_batch(recipe)), seed)
    with _pinned(threads), seeded(stream_seed(seed, 0, "before training")):
        model = compile_model(architecture, catalogue, seed=seed, dtype=parameter_type(recipe.dtype))
        profile(model, batch.inputs)
        model.eval()
        loss = next(iter(objective.terms(forward(model, batch.inputs, recipe.dtype), batch))).mean
        scaling = loss_scaling(recipe)
        scale = 1.0 if scaling is None else scaling.scale
        (loss if scale == 1 else loss * scale).backward()  # type: ignore[no-untyped-call]
        unscale((p.grad for p in model.parameters() if p.grad is not None), scale)
        return InitialModel(loss.item(), gradient_norm(model).item())


@contextmanager
def _pinned(threads: int) -> Iterator[None]:
    """Compute with the settings of a trial, and restore those of this process on exit."""
    import torch

    from ablate.train.threads import pin_threads

    before, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    pin_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
