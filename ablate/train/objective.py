"""The objective of a trial, and the batches and examples that it makes of what is drawn from the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Sizes
from ablate.data.batch import Batch
from ablate.data.batches import Examples
from ablate.data.uniform import Uniform
from ablate.extension.loader import implementation
from ablate.plan.trial import Trial
from ablate.space.documents import Recipe
from ablate.space.metrics import BITS
from ablate.space.objectives import ObjectiveSpec
from ablate.train.objectives.declare import Given, Objective, Settings


def objective_of(trial: Trial, catalogue: Catalogue) -> Objective:
    """Build the objective that the recipe of a trial names."""
    return objective_for(trial.recipe, trial.architecture.sizes, catalogue)


def objective_for(recipe: Recipe, sizes: Sizes, catalogue: Catalogue) -> Objective:
    """Build the objective that a recipe names, for models of these sizes."""
    spec, settings = chosen_objective(recipe, catalogue)
    built: Objective = implementation(spec)(settings, Given(sizes, recipe.loss))
    return built


def chosen_objective(recipe: Recipe, catalogue: Catalogue) -> tuple[ObjectiveSpec, Settings]:
    """Return the declaration and the settings of the objective that a recipe names."""
    spec = catalogue.of_kind(ObjectiveSpec)[recipe.objective.name]
    return spec, spec.read(recipe.objective.settings)


class Drawing(Protocol):
    """What draws from the data."""

    def at(self, step: int) -> Batch:
        """Return what is drawn for a step."""
        ...


@dataclass(frozen=True)
class Batches:
    """The batches of an objective: a function of (seed, step), the same for every variant.

    `size` says how many of the examples drawn for a step are in its batch, the first of them (None: all).
    """

    drawing: Drawing
    objective: Objective
    seed: int
    size: Callable[[int], int] | None = None

    def at(self, step: int) -> Batch:
        """Return the batch of a step."""
        drawn = Batch(*self.drawing.at(step))
        return _made(self.objective, drawn if self.size is None else first_of(drawn, self.size(step)), self.seed, step)


def first_of(drawn: Batch, examples: int) -> Batch:
    """Return the first examples of what was drawn."""
    return drawn.each(lambda tensor: tensor[:examples])


def first_batch(objective: Objective, drawn: Batch, seed: int) -> Batch:
    """Return the batch of the first step, of what is drawn for it."""
    return _made(objective, drawn, seed, 0)


def _made(objective: Objective, drawn: Batch, seed: int, step: int) -> Batch:
    return objective.batch(drawn, Uniform(f"objective/{seed}/{step}"))


def examples_of(drawn: Examples, objective: Objective, trial: Trial, catalogue: Catalogue) -> Examples:
    """Return the examples of an evaluation: those of one seed and split are the same for every variant and step."""
    made = objective.batch(drawn.batch, Uniform(f"objective evaluation/{trial.seed}/{trial.split}"))
    of_text = BITS in catalogue.of_kind(ObjectiveSpec)[trial.recipe.objective.name].measures
    return Examples(*made, bytes=drawn.bytes if of_text else None)
