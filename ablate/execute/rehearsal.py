"""Building a block without training it, since some errors only show when its weights are initialised.

One block is small compared to a model, so the first two layers and the last are built at full size.
"""

from __future__ import annotations

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue


def build_layers(architecture: Architecture, catalogue: Catalogue) -> None:
    """Build and initialise layers of a model on the CPU, and discard them; InputError if that is not possible."""
    from ablate.compiler import compile_block

    depth = architecture.sizes.n_layers
    for layer in sorted({1, min(2, depth), depth}):
        compile_block(
            architecture.block, architecture.sizes, catalogue, init=architecture.init, layer=layer, alone=False
        )
