"""A block as a module: every part registered once, flat, under its address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn


@dataclass(eq=False)
class Chain:
    """Modules applied one after another; without any it is the identity.

    Not an `nn.Module`, so that its holder registers nothing: the parts belong to the block. A class rather than a
    closure, so that the chains of a copied block call the copied parts.
    """

    parts: tuple[nn.Module, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Apply every part in turn."""
        for part in self.parts:
            x = part(x)
        return x


class Block(nn.Module):
    """One block of a model.

    `parts` are registered under their names, so that `block.get_submodule("attention_norm")`, the keys of the state and
    the addresses in result rows agree; `chain` applies them in their order, and `sublayers` gives, for each mixer, the
    part at which its sub-layer begins (`block.address.sublayers`).
    """

    def __init__(self, parts: Mapping[str, nn.Module], chain: Chain, sublayers: Mapping[str, str]):
        super().__init__()
        self.sublayers = sublayers
        for name, part in parts.items():
            self.add_module(name, part)
        self.chain = chain

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """[B, T, D] -> [B, T, D]."""
        return self.chain(x)
