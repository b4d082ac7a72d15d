"""From nodes to modules: the makers that fill the fields of components with what they are built of."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from ablate.block.address import Path, name_parts
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block as Expression
from ablate.block.expression import Node, Sequence
from ablate.block.fill import GainMaker, Maker, PartMaker, Surroundings, field_values
from ablate.block.own import asked
from ablate.block.sizes import Sizes
from ablate.compiler.block import Block, Chain
from ablate.compiler.scale import ScaleMaker
from ablate.components.registry import implementation


@dataclass
class Builder:
    """Makers of modules. What is made in the places of sequences is kept by path, for the block to register."""

    catalogue: Catalogue
    surroundings: Surroundings
    parts: dict[Path, nn.Module] = field(default_factory=dict)

    def part(self, node: Node, path: Path = ()) -> Maker:
        """A maker of the component `node`, called with the widths of its slot."""
        spec = self.catalogue[node.name]
        module = implementation(spec.name, spec.path)
        config = module.Config(**field_values(node, spec, self.surroundings, self, path))

        def made(*widths: int) -> nn.Module:
            with asked(spec, "its module"):
                built: nn.Module = module(config, self.surroundings.sizes, *widths)
            return built

        return PartMaker(config, made)

    def gain(self, value: float, *, trainable: bool, per: str) -> GainMaker:
        """A maker of the Scale that is, or starts at, `value`."""
        return ScaleMaker(value, trainable, per)

    def sequence(self, sequence: Sequence, path: Path) -> Maker:
        """A maker of the Chain of the parts at `path`, called without widths."""

        def chain() -> Chain:
            modules = []
            for index, node in enumerate(sequence):
                place = (*path, index)
                modules.append(self.part(node, place)())
                self.parts[place] = modules[-1]
            return Chain(tuple(modules))

        return chain


def build_block(block: Expression, sizes: Sizes, catalogue: Catalogue, layer: int) -> Block:
    """The module of `block` as layer `layer`, its weights not filled yet; what the layer leaves out is not there."""
    builder = Builder(catalogue, Surroundings(sizes.at(layer)))
    chain = builder.sequence(block, ())()
    named = {name: builder.parts[path] for path, name in name_parts(block, catalogue) if path in builder.parts}
    return Block(named, chain)
