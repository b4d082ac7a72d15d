"""A rehearsal: the blocks of a plan built once before training, since some mistakes show only when weights are filled.

Examples are an init without an inverse, or a zero weight that is to be divided by its norm: declarations do not show
them, and a worker would, hours later.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.execute.rehearsal import build_layers
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.source.problems import Problems
from ablate.space.blocks import place_of_block
from ablate.space.space import Space


def rehearse(space: Space, plan: Plan, trials: Iterable[Trial], plugins: tuple[Path, ...]) -> None:
    """Build and fill what the trials will train; InputError, with every mistake at its place, if that fails."""
    problems, catalogue = Problems(), declarations(plugins)
    for variant, architecture in {trial.variant: trial.architecture for trial in trials}.items():
        name = plan.variant(variant).name
        try:
            build_layers(architecture, catalogue)
        except InputError as error:
            message, *way_out = (line.strip(" =") for line in str(error).removeprefix("error: ").splitlines())
            place = place_of_block(space.located, name) or space.origins.section("design")
            space.origins.add_in_block(problems, message, place, (f"block: {name}", *way_out))
    problems.raise_if_any()
