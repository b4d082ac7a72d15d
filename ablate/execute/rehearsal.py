"""Building a block without training it: what no declaration tells shows when its weights are filled.

One block is small beside a model, so the first two layers and the last are built as they will be.
"""

from __future__ import annotations

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue


def build_layers(architecture: Architecture, catalogue: Catalogue) -> None:
    """Build and fill layers of a model on the CPU, and let go of them; InputError where that cannot be."""
    from ablate.compiler import compile_block

    depth = architecture.sizes.n_layers
    for layer in sorted({1, min(2, depth), depth}):
        compile_block(architecture.block, architecture.sizes, catalogue, init=architecture.init, layer=layer)
