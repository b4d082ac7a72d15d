"""Building blocks without training them, since some errors only show when weights are initialised.

One block is small compared to a model, so the first two layers and the last are built at full size.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.source.problems import Problems
from ablate.space.blocks import place_of_block
from ablate.space.space import Space


def rehearse(plan: Plan, space: Space, trials: Iterable[Trial], plugins: tuple[Path, ...]) -> None:
    """Build and fill the blocks of these trials of a plan; InputError, with every mistake at its place in the space.

    An init without an inverse, or a zero weight that is to be divided by its norm: declarations do not show such
    mistakes, and a worker would, hours later.
    """
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


def build_layers(architecture: Architecture, catalogue: Catalogue) -> None:
    """Build and initialise layers of a model on the CPU, and discard them; InputError if that is not possible."""
    from ablate.compiler import compile_block

    depth = architecture.sizes.n_layers
    for layer in sorted({1, min(2, depth), depth}):
        compile_block(
            architecture.block, architecture.sizes, catalogue, init=architecture.init, layer=layer, alone=False
        )
