"""A whole model as data: the block, repeated, and what stands around it."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.block.expression import Block, Node
from ablate.block.sizes import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """n_layers copies of `block` between an embedding and a head.

        x_0 = scale·E[tokens] (+ positions), then entry_norm;  x_l = block_l(x_{l-1});  logits = final_norm(x_L)·Uᵀ

    `embedding_std` and `position_std` are standard deviations of normal initialisations; `scale` multiplies the
    embedding's output only (a tied head uses E unscaled). U = E where `tied`. `positions` are the model's: none,
    learned or sinusoidal; `position_std` is None unless they are learned. `init` is the scheme of every weight that
    does not name its own, the untied head included.
    """

    kind: str
    sizes: Sizes
    block: Block
    positions: str
    embedding_std: float
    embedding_scale: float
    position_std: float | None
    tied: bool
    entry_norm: Node | None
    final_norm: Node | None
    init: Node
